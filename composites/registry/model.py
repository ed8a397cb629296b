"""The registry as frozen values, with which all later stages work."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from composites.contracts.model import AttributeSpec
from composites.errors import Problem

DecompositionKind = Literal["native", "torch", "jax", "ffi"]

BUILTIN_NAMESPACE = "ptxla"
"""The namespace of the built-in registry."""

VERSION = re.compile(r"(?:0|[1-9][0-9]{0,9})", re.ASCII)

DERIVE = "derive"
"""`backward: derive`: the decomposition of the backward is the gradient of the forward's
decomposition."""


@dataclass(frozen=True, slots=True)
class Location:
    """The line of a file that defines an entry."""

    file: str
    line: int

    def problem(self, message: str, entry: str | None = None) -> Problem:
        """Return a problem at this line."""
        return Problem(self.file, self.line, entry, message)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class When:
    """Conditions under which an entry claims a call. An empty condition always holds."""

    values: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    """Pairs of an argument's name and the values that it may have."""
    dtypes: tuple[str, ...] = ()
    """Element types that the operands may have."""
    ranks: tuple[int, ...] = ()
    """Ranks that the first operand may have."""
    where: tuple[str, ...] = ()
    """Expressions over the arguments that must all be true; see `conditions`."""

    @classmethod
    def parse(cls, document: Mapping[str, Sequence[Any]]) -> "When":
        """Read the conditions under `when` of a file, without checking them."""
        values = {name: tuple(allowed) for name, allowed in document.items()}
        dtypes, ranks, where = (values.pop(key, ()) for key in ("dtypes", "rank", "where"))
        return cls(tuple(values.items()), dtypes, ranks, where)

    @property
    def document(self) -> dict[str, list[Any]]:
        """The mapping under `when` of a file."""
        general = (("dtypes", self.dtypes), ("rank", self.ranks), ("where", self.where))
        return {name: list(allowed) for name, allowed in (*self.values, *general) if allowed}

    def __bool__(self) -> bool:
        return bool(self.values or self.dtypes or self.ranks or self.where)


@dataclass(frozen=True, slots=True)
class Tensor:
    """The type of a tensor, written as `2x3xf32`: in an example call, or as conditions see it."""

    element_type: str
    shape: tuple[int, ...]

    @property
    def dtype(self) -> str:
        """The element type, as conditions name it."""
        return self.element_type

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return math.prod(self.shape)

    def is_floating_point(self) -> bool:
        return self.element_type.startswith(("f", "bf"))

    def __str__(self) -> str:
        return "x".join((*map(str, self.shape), self.element_type))


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The computation of a composite: the stock lowering, a PyTorch or JAX function, or, for a
    kernel, a target of XLA's typed FFI."""

    kind: DecompositionKind = "native"
    target: str | None = None
    """`package.module:function`, or the name of the FFI target; None for the stock lowering."""

    @classmethod
    def parse(cls, text: str) -> "Decomposition":
        if text == "native":
            return cls()
        if text.startswith("jax:"):
            return cls("jax", text.removeprefix("jax:"))
        return cls("torch", text)

    def __str__(self) -> str:
        if self.target is None:
            return "native"
        return f"jax:{self.target}" if self.kind == "jax" else self.target


STOCK = "stock"
"""The word that chooses no alternative."""
GOALS = ("fast", "small")
"""The goals of alternatives: less time, and less memory."""
SHARED = "shared"
"""The goal of alternatives for graphs that several devices share."""
AUTOMATIC = (SHARED, STOCK)
"""Goals that users cannot choose, in the order in which their alternatives are tried."""
CONSUMERS = ("cuda", "iree", "litert")
"""Consumers of exported programs, beside XLA, that `not_for` and `only_for` can name. `cuda` is XLA
on NVIDIA's GPUs."""
PORTABLE = "portable"
"""The target of programs for all consumers."""


def for_target(word: str, target: str) -> str:
    """Return a word for programs for a target, such as `fast@iree`: a goal then takes only
    alternatives that suit the target."""
    return f"{word}@{target}" if word in GOALS else word


def without_target(word: str) -> str:
    """Return the word without its target."""
    return word.partition("@")[0]


KERNEL_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""The platforms of kernels that jax itself names. Each PJRT plug-in is a platform too."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Another computation of a composite, for some of its calls. Everything else that a consumer
    sees of the composite stays the same.

    A kernel with a platform replaces the composite in steps that are compiled for this platform. A
    kernel without a platform is a decomposition to choose: graphs contain it instead of the entry's
    own decomposition.
    """

    name: str
    """The name by which programs choose the kernel; with a platform, its function or target."""
    composite: str
    """The composite's name in StableHLO; for a decomposition to choose, the name of the entry with
    its namespace, because several entries can produce one composite."""
    version: int | None
    """The version for which the kernel is written; None for all versions."""
    forward: Decomposition | None
    """Computes the results, then the further results of `saves`. None: the entry's function."""
    when: When
    """The calls that the kernel takes. It takes the same calls in the forward and the backward."""
    location: Location = field(compare=False)
    goals: tuple[str, ...] = ()
    """The members of GOALS for which the kernel is taken, or one of AUTOMATIC: the kernel takes
    calls that no chosen kernel takes. With STOCK it returns the same bits as the entry's own
    decomposition. With SHARED it takes calls in graphs that several devices share."""
    not_for: tuple[str, ...] = ()
    """The members of CONSUMERS in whose programs no goal takes the kernel."""
    only_for: tuple[str, ...] = ()
    """The only members of CONSUMERS in whose programs goals take the kernel; all if empty."""
    backward: Decomposition | None = None
    """Takes operands of the derived backward and arguments by name. None: the backward is derived,
    from `forward` if `derives` is True, and otherwise from the entry's decomposition."""
    derives: bool = False
    gradients: tuple[str, ...] = ()
    """The operands whose gradients `backward` returns."""
    tolerance: tuple[tuple[str, float], ...] = ()
    """The greatest error against f64 that the kernel may have, by element type."""
    samples: str | None = None
    """`package.module:function`, which yields calls for `composites verify`."""
    samples_by_name: bool = field(default=False, compare=False)
    """True if `samples` is the function with the entry's name in the module that the file names.
    The function need not exist."""
    platform: str | None = None
    library: str | None = None
    """`package.module:function`, which returns the path of the library with the FFI target. None if
    the process already has the target."""
    operands: tuple[str, ...] = ()
    """Names of the operands, for `where`, if there is a platform."""
    ignores: tuple[str, ...] = ()
    """Attributes on which the kernel's results do not depend."""
    priority: int = 0
    """The order in which kernels for a platform are tried: the highest first."""

    @property
    def is_automatic(self) -> bool:
        """True if the kernel takes calls with every choice of decompositions."""
        return any(goal in AUTOMATIC for goal in self.goals)

    @property
    def keeps_bits(self) -> bool:
        """True if the kernel returns the same bits as the entry's own decomposition."""
        return STOCK in self.goals

    @property
    def is_for_shared(self) -> bool:
        """True if the kernel takes only calls in graphs that several devices share."""
        return SHARED in self.goals

    def suits(self, target: str) -> bool:
        """Return True if goals take the kernel in programs for a target. The empty target is this
        process, or a step on the CPU."""
        if target == PORTABLE:
            return not (self.not_for or self.only_for)
        return target not in self.not_for and (not self.only_for or target in self.only_for)

    @property
    def is_target(self) -> bool:
        """True if the kernel is a target of XLA's typed FFI."""
        return self.forward is not None and self.forward.kind == "ffi"

    @property
    def document(self) -> dict[str, Any]:
        """The mapping under the name of a decomposition to choose in a file."""
        document = {
            "goals": list(self.goals),
            "not_for": list(self.not_for),
            "only_for": list(self.only_for),
            "when": self.when.document,
            "decomposition": self.forward and str(self.forward),
            "backward": DERIVE if self.derives else self.backward and str(self.backward),
            "gradients": list(self.gradients),
            "tolerance": dict(self.tolerance),
            "samples": self.samples,
        }
        return {key: value for key, value in document.items() if value}

    @property
    def functions(self) -> tuple[Decomposition, ...]:
        """The functions of the kernel."""
        named = (self.forward, self.backward)
        return tuple(d for d in named if d is not None and d.kind != "ffi")


@dataclass(frozen=True, slots=True)
class Composite:
    """One entry of a registry: the calls that it catches, and the composite that they become."""

    namespace: str
    name: str
    """The entry's name in the allowlist."""
    composite: str
    """The composite's name without the namespace. Several entries can produce the same
    composite."""
    op: str | None
    """The operator, such as `aten::var_mean.correction`."""
    functions: tuple[str, ...]
    """The Python functions that the entry catches, as `package.module:Class.method`."""
    version: int
    operands: tuple[str, ...]
    """Tensor arguments in the composite's order, including paths such as `self.weight`."""
    attributes: tuple[AttributeSpec, ...]
    when: When
    decomposition: Decomposition
    backward: str | None
    """The entry of the same registry that is the backward of this entry, or DERIVE."""
    location: Location = field(compare=False)
    results: tuple[int, ...] = ()
    """Indices of the operator's results that the composite returns; empty for all."""
    adapt: str | None = None
    """`package.module:function`, which adapts the arguments of a call to the composite's."""
    saves: tuple[str, ...] | None = None
    """Operands and results (`result`, `result.1`) that the backward takes; None for all
    operands."""
    saved: tuple[tuple[str, str | None], ...] = ()
    """Further results of the forward if a backward will run: their names, and the functions that
    compute them; None for a value that the decomposition names (`composites.intermediate`)."""
    gradients: tuple[str, ...] = ()
    """For a backward without an operator: the operands of the forward whose gradients it
    returns."""
    group: str | None = None
    """A name that turns on all entries of a group."""
    fuses: str | None = None
    """The entry of the same registry whose calls this entry fuses. An allowlist that leaves out
    that entry leaves out this entry too."""
    rewrites: tuple[tuple[str, str], ...] = ()
    """Other operators and Python functions whose calls can be rewritten to calls that this entry
    catches. Each has a `package.module:function` that rewrites its calls."""
    jax: tuple[tuple[str, str], ...] = ()
    """JAX functions whose calls become this composite in JAX programs. Each has a
    `package.module:function` that adapts the arguments of its calls to the entry's."""
    example: tuple[tuple[str, Any], ...] = ()
    """Arguments of a call that the entry claims, for `check` and for locks. Tensors are
    `Tensor`s."""
    samples: str | None = None
    """`package.module:function`, which yields calls for `composites verify`. It is imported when it
    is needed."""
    samples_by_name: bool = field(default=False, compare=False)
    """See `Kernel.samples_by_name`. If it is True, the first of these calls is also the example."""
    tolerance: tuple[tuple[str, float], ...] = ()
    """The greatest accepted error, by element type; each command has its own default."""
    copies: tuple[str, ...] = ()
    """Packages in which the entry also catches every copy of one of `functions`; see
    `lowering.copies`."""
    kernels: tuple[Kernel, ...] = ()
    """The kernels, in the order in which they are tried."""

    @property
    def qualified(self) -> str:
        """The entry's name with its namespace. Versions of one entry share it."""
        return f"{self.namespace}.{self.name}"

    @property
    def identity(self) -> str:
        """The entry's name with its namespace and version, which is unique."""
        return f"{self.qualified}@{self.version}"

    @property
    def intermediates(self) -> tuple[str, ...]:
        """The further results that are values inside the decomposition."""
        return tuple(name for name, target in self.saved if target is None)

    @property
    def composite_name(self) -> str:
        """The composite's name in StableHLO."""
        return f"{self.namespace}.{self.composite}"

    @property
    def backward_name(self) -> str:
        """The name in StableHLO of the backward that is derived from this entry."""
        return derived_backward(self.composite_name)

    @property
    def produced(self) -> tuple[str, ...]:
        """The names in StableHLO of the composite and of its derived backward."""
        names = (self.composite_name, self.backward_name)
        return names if self.derives else names[:1]

    def exposed(self, results: Any) -> Any:
        """Select the results that the composite returns from all results of the operator."""
        return [results[number] for number in self.results] if self.results else results

    def completed(self, exposed: Sequence[Any], stock: Callable[[], Sequence[Any]]) -> list[Any]:
        """Return all results of the operator. `stock` computes the results that the composite does
        not return."""
        if not self.results:
            return list(exposed)
        results = list(stock())
        for number, result in zip(self.results, exposed, strict=True):
            results[number] = result
        return results

    @property
    def derives(self) -> bool:
        return self.backward == DERIVE

    @property
    def alternatives(self) -> tuple[Kernel, ...]:
        """The decompositions to choose."""
        return tuple(kernel for kernel in self.kernels if kernel.platform is None)

    def chosen(self, word: str) -> tuple[Kernel, ...]:
        """Return the alternatives for a word: a goal, a goal in programs for a target (see
        `for_target`), or the name of an alternative. Automatic alternatives cannot be chosen."""
        goal, _, target = word.partition("@")
        choices = (a for a in self.alternatives if not a.is_automatic)
        return tuple(a for a in choices if word == a.name or (goal in a.goals and a.suits(target)))

    def taken(self, word: str) -> tuple[Kernel, ...]:
        """Return the alternatives that may take calls if a word is chosen, in the order in which
        they are tried."""
        automatic = (a for goal in AUTOMATIC for a in self.alternatives if goal in a.goals)
        return (*self.chosen(word), *automatic)


def derived_backward(composite: str) -> str:
    """Return the name in StableHLO of the backward that is derived from a composite."""
    return f"{composite}_backward"


@dataclass(frozen=True, slots=True)
class Registry:
    """All entries of one file."""

    source: str
    namespace: str
    composites: tuple[Composite, ...]
    builtin: bool = False
    """True for the project's own registry. Vendor entries may shadow its entries."""
    package: str | None = None
    """The installed package that announces the registry; None for other files."""
    kernels: tuple[Kernel, ...] = ()
    """Kernels under the file's key `kernels`: for entries of other registries and composites."""
    kernels_file: str | None = field(default=None, compare=False)
    """The file that lists these kernels; None if it is `source`."""
    samples: tuple[str, Location] | None = field(default=None, compare=False)
    """The module with samples of entries, and the line of the file that names it."""
    outdated: tuple[Problem, ...] = field(default=(), compare=False)
    """Problems for old keys, which the next version does not read."""

    @property
    def platform_kernels(self) -> tuple[Kernel, ...]:
        """The kernels for platforms: of the entries, then for entries of other registries."""
        every = (*(kernel for entry in self.composites for kernel in entry.kernels), *self.kernels)
        return tuple(kernel for kernel in every if kernel.platform is not None)

    def get(self, name: str) -> Composite | None:
        """Return the highest version of the entry with a name."""
        versions = (entry for entry in self.composites if entry.name == name)
        return max(versions, key=lambda entry: entry.version, default=None)

    def key(self, entry: Composite) -> str:
        """Return the entry's name in this registry, with its version if there are several."""
        alone = all(e.name != entry.name or e == entry for e in self.composites)
        return entry.name if alone else f"{entry.name}@{entry.version}"

    def backward_of(self, entry: Composite) -> Composite | None:
        """Return the entry that is the backward of `entry`.

        `backward: gelu_backward` means the same version as the forward's, or the highest version
        if there is no such version; `gelu_backward@1` means exactly version 1.
        """
        if entry.backward is None or entry.derives:
            return None
        name, version = split_version(entry.backward)
        number = entry.version if version is None else version
        candidates = (e for e in self.composites if e.name == name and e.version == number)
        exact = next(candidates, None)
        return exact if exact is not None or version is not None else self.get(name)

    def named(self, name: str) -> tuple[Composite, ...]:
        """Return the entries whose name, composite or group is `name`."""
        return tuple(e for e in self.composites if name in (e.name, e.composite, e.group))

    def included(self, items: Sequence[str]) -> tuple[Composite, ...]:
        """Return the entries that a file includes with items of `extends`: the named entries, or
        all entries but those with a minus. Backward entries follow their forwards."""
        named: dict[bool, set[str]] = {True: set(), False: set()}
        for item in items:
            entries = self.named(item.removeprefix("-"))
            backwards = (self.backward_of(entry) for entry in entries)
            both = (*entries, *filter(None, backwards))
            named[item.startswith("-")].update(entry.identity for entry in both)
        left = (entry for entry in self.composites if entry.identity not in named[True])
        return tuple(e for e in left if not named[False] or e.identity in named[False])


def split_version(text: str) -> tuple[str, int | None]:
    """Split `gelu@2` into name and version. A version that is missing or not a number is None."""
    name, at, version = text.rpartition("@")
    if not at or not VERSION.fullmatch(version):
        return text, None
    return name, int(version)
