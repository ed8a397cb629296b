"""Results of `composites suggest`, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.suggestion.attribution import Amount


@dataclass(frozen=True, slots=True)
class Row:
    """A Python function, with its forward and backward, or an operator, by its overload."""

    name: str
    """`package.module:Class.method` or `aten::mean.dim`."""
    calls: int
    amount: Amount
    """What is outside composites in it and in what it calls."""
    left: Amount
    """What of it is not in functions of the draft."""
    products: int
    """Its dots and convolutions."""
    tensors_in: int
    """The tensors that a function reads. Of operators, this and the next are 0."""
    tensors_out: int
    entry: str
    """The entry of the draft that catches it, or nothing."""
    note: str
    """Which entry of a registry names it, or why there is none in the draft."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Calls that an entry that is on did not claim."""

    entry: str
    operands: str
    reason: str
    calls: int


@dataclass(frozen=True, slots=True)
class Known:
    """An entry that is off, and would catch calls of the step."""

    entry: str
    calls: int
    instructions: int
    """How many fewer would be outside."""
    operators: tuple[str, ...]
    """Of which operators these are."""
    functions: tuple[str, ...]
    """In which functions these are."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Entries for what no entry catches."""

    text: str
    """A registry file."""
    entries: tuple[str, ...]
    before: int
    """Instructions that are outside, with the entries that are on and those that are `known`."""
    outside: int
    """Instructions that are outside with the draft too."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a step is made of outside composites."""

    on: tuple[str, ...]
    """The entries that were on."""
    stock: int | None
    """Instructions with nothing on; None if stock torch_xla cannot record the step."""
    outside: Amount
    composites: int
    functions: tuple[Row, ...]
    operators: tuple[Row, ...]
    missed: tuple[Missed, ...]
    known: tuple[Known, ...]
    draft: Draft | None

    @property
    def inside(self) -> float | None:
        """The share of stock's instructions that is inside composites."""
        return None if not self.stock else 1 - self.outside.instructions / self.stock
