"""The contents of a lock, as frozen values."""

from dataclasses import dataclass, field
from typing import ClassVar

Scalar = bool | int | float | str
_List = tuple[Scalar, ...]
_Lists = tuple[Scalar | _List, ...]
Constant = Scalar | tuple[Scalar | tuple[Scalar | _Lists, ...], ...]
"""A number, text, or a list. Lists can be nested three deep (`attribute_types.DEEPEST`)."""

GRADIENTS = "gradients"
"""The first operand of a derived backward: a list with the gradients of the forward's
results."""
OUTPUT_MASK = "output_mask"
"""The attribute of a derived backward with a boolean for each operand of the forward: True if the
operand needs a gradient. Also the parameter of an alternative's backward with a tuple of booleans,
one for each of its `gradients`."""
SEED = "tensor<i64>"
"""The type of the last operand of a composite that draws random numbers: the generator's state."""


class Strict:
    """A value that pydantic checks strictly when it reads a lock: no unknown fields, no
    conversions."""

    __slots__ = ()
    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}


@dataclass(frozen=True, slots=True)
class Operand(Strict):
    """One operand of a composite: a tensor, or a list of tensors."""

    name: str
    optional: bool = False
    variadic: bool = False
    """True if the operand is a list of tensors, which can have any length."""


@dataclass(frozen=True, slots=True)
class AttributeSpec(Strict):
    """One attribute of a composite: its type, and the argument or constant that it comes from.
    Entries and locks share this class."""

    name: str
    type: str | None = None
    """A name from `composites.attribute_types`. If it is None, the value itself determines the
    type: bool, int (i64), float (f32), str, or a list."""
    optional: bool = False
    """True if the attribute is left out when its value is None."""
    normalize: bool = False
    """True if a negative dimension is counted from the front, using the rank of the first
    operand."""
    argument: str | None = None
    """The operator's argument; None for a constant."""
    value: Constant | None = None
    """The constant, if `argument` is None."""


@dataclass(frozen=True, slots=True)
class Conditions(Strict):
    """Conditions under which a call becomes the composite."""

    values: dict[str, tuple[Scalar, ...]] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call(Strict):
    """A canonical call: types and attributes as MLIR text, and the hash of its decomposition.

    The call and the hashed text are the same in every process.
    """

    operands: tuple[str, ...]
    attributes: str
    results: tuple[str, ...]
    decomposition: str
    """`sha256:` and the hash of the decomposition's StableHLO, without locations."""


@dataclass(frozen=True, slots=True)
class Contract(Strict):
    """One version of a composite, as one entry produces it."""

    entry: str
    """The entry's name with its namespace."""
    composite: str
    """The composite's name in StableHLO. It ends in `_backward` if the backward is derived."""
    version: int
    decomposition: str
    """The decomposition as in the registry: `native`, or the name of a function."""
    operands: tuple[Operand, ...]
    operator: str | None = None
    functions: tuple[str, ...] = ()
    attributes: tuple[AttributeSpec, ...] = ()
    results: tuple[str, ...] | None = None
    """The results; None if they depend on the call, as for a Python function or a list."""
    saved: tuple[str, ...] = ()
    """Further results of the forward if a backward follows."""
    when: Conditions = field(default_factory=Conditions)
    calls: tuple[Call, ...] = ()
    no_call: str | None = None
    """The reason why the contract has no canonical call."""

    @property
    def label(self) -> str:
        """The contract's name in messages."""
        return f"{self.composite} version {self.version} (entry {self.entry})"


@dataclass(frozen=True, slots=True)
class Retired(Strict):
    """A version that no entry has any more. Its number must not be reused."""

    entry: str
    composite: str
    version: int


@dataclass(frozen=True, slots=True)
class Lock:
    """The contracts of a registry, and the package versions that traced the decompositions."""

    namespace: str
    made_with: dict[str, str]
    """The device, and the versions of packages that hashes depend on. Empty if nothing was
    lowered."""
    contracts: tuple[Contract, ...]
    retired: tuple[Retired, ...] = ()
    source: str = field(default="", compare=False)
    """The file, for messages."""
