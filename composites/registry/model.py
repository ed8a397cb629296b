"""The registry as frozen values: what everything after the YAML file works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

DecompositionKind = Literal["native", "torch", "jax"]

DERIVE = "derive"
"""`backward: derive`: the backward's decomposition is the gradient of the forward's."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where an entry was written."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a composite: its type, and the argument or constant it comes from."""

    name: str
    type: str | None
    """A name of `composites.attribute_types`. None where the value itself decides: bool, int (i64),
    float (f32), str, or a list of them."""
    argument: str | None = None
    """The operator's argument; None where the attribute is a constant."""
    value: Any = None
    """The constant, where `argument` is None."""
    normalize: bool = False
    """Count a negative dimension from the front, by the rank of the first operand."""
    optional: bool = False
    """Leave the attribute out where its value is None."""


@dataclass(frozen=True, slots=True)
class When:
    """Conditions under which an entry claims a call; empty ones always hold."""

    values: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    """Argument name and the values it may have."""
    dtypes: tuple[str, ...] = ()
    """Names of element types that all operands may have."""
    ranks: tuple[int, ...] = ()
    """Ranks that the first operand may have."""
    where: tuple[str, ...] = ()
    """Expressions over the arguments that must all be true, see `conditions`."""

    def __bool__(self) -> bool:
        return bool(self.values or self.dtypes or self.ranks or self.where)


@dataclass(frozen=True, slots=True)
class Decomposition:
    """What a composite means: the stock lowering, or a PyTorch or JAX function."""

    kind: DecompositionKind = "native"
    target: str | None = None
    """`package.module:function`; None for the stock lowering."""

    @classmethod
    def parse(cls, text: str) -> Decomposition:
        if text == "native":
            return cls()
        if text.startswith("jax:"):
            return cls("jax", text.removeprefix("jax:"))
        return cls("torch", text)

    def __str__(self) -> str:
        if self.target is None:
            return "native"
        return f"jax:{self.target}" if self.kind == "jax" else self.target


@dataclass(frozen=True, slots=True)
class Composite:
    """One entry of a registry: what is caught, and the composite that it becomes."""

    namespace: str
    name: str
    """The entry's name, by which it is turned on."""
    composite: str
    """The composite's name without the namespace; several entries may make the same composite."""
    op: str | None
    """The operator as in `aten::var_mean.correction`."""
    functions: tuple[str, ...]
    """Python functions, `package.module:Class.method`, where the entry catches these."""
    version: int
    operands: tuple[str, ...]
    """Tensor arguments in the order that the composite takes them; `self.weight` is one too."""
    attributes: tuple[Attribute, ...]
    when: When
    decomposition: Decomposition
    backward: str | None
    """The entry of the same registry that is this one's backward, or DERIVE."""
    location: Location = field(compare=False)
    results: tuple[int, ...] = ()
    """The operator's results that the composite gives; empty for all."""
    adapt: str | None = None
    """`package.module:function` between the operator's arguments and the composite's."""
    saves: tuple[str, ...] | None = None
    """Operands and results (`result`, `result.1`) that a backward takes; None for all operands."""
    saved: tuple[tuple[str, str], ...] = ()
    """Further results of a forward whose backward will run: name and the function that gives it."""
    gradients: tuple[str, ...] = ()
    """Of a backward without operator: the operands of the forward that its results belong to."""
    group: str | None = None
    """A name that turns on several entries."""
    rewrites: tuple[tuple[str, str], ...] = ()
    """Other operators and Python functions whose calls can be rewritten as one that this entry
    catches, each with `package.module:function`, which does it."""

    @property
    def qualified(self) -> str:
        """The entry's name with its namespace; no two entries share it."""
        return f"{self.namespace}.{self.name}"

    @property
    def composite_name(self) -> str:
        """The composite's name in StableHLO."""
        return f"{self.namespace}.{self.composite}"

    def exposed(self, results: Any) -> Any:
        """What the composite gives of the operator's results."""
        return [results[number] for number in self.results] if self.results else results

    def completed(self, exposed: Sequence[Any], others: Callable[[], Sequence[Any]]) -> list[Any]:
        """All results of the operator: the composite's, and the others computed beside it."""
        if not self.results:
            return list(exposed)
        results = list(others())
        for number, result in zip(self.results, exposed, strict=True):
            results[number] = result
        return results

    @property
    def derives(self) -> bool:
        return self.backward == DERIVE


@dataclass(frozen=True, slots=True)
class Registry:
    """All entries of one file."""

    source: str
    namespace: str
    composites: tuple[Composite, ...]
    builtin: bool = False
    """Whether this is the project's own registry, whose entries vendors may shadow."""

    def get(self, name: str) -> Composite | None:
        return next((entry for entry in self.composites if entry.name == name), None)

    def named(self, name: str) -> tuple[Composite, ...]:
        """The entry of this name, those that make the composite of this name, or of this group."""
        return tuple(e for e in self.composites if name in (e.name, e.composite, e.group))
