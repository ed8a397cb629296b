"""Dimensions of inputs and outputs whose size varies. This module does not need torch.

dimensions batch (1 to 64), seq (2 or more)
input  arg:0  ("batch", "seq", 768)
output out:0  ("batch*seq", 768)
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from composites.errors import ProgramError, did_you_mean

Shape: TypeAlias = tuple[int | str, ...]
"""Sizes: integers, or expressions of the dimensions for sizes that vary, such as `batch` and
`2*batch*seq + 1`. A `?` is a size that only the program determines."""

UNKNOWN = "?"
_SIGNS = re.compile(r"( [+-] )")


@dataclass(frozen=True, slots=True)
class Dimension:
    """A size that is chosen when the program is refined or run."""

    name: str
    min: int
    max: int | None
    """The largest size; None if sizes are unbounded."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"{self.name!r} is not the name of a dimension")
        if self.min < 1 or (self.max is not None and self.max < self.min):
            raise ValueError(f"{self.name} has no sizes: min {self.min}, max {self.max}")

    @property
    def range(self) -> str:
        """The possible sizes, for messages."""
        return f"{self.min} or more" if self.max is None else f"{self.min} to {self.max}"

    def check(self, size: Any) -> int:
        """Return a size as an integer.

        Raises:
            ProgramError: the dimension cannot have the size.
        """
        if isinstance(size, bool) or not isinstance(size, int):
            raise ProgramError(f"the size of {self.name} must be an integer, not {size!r}")
        if size < self.min or (self.max is not None and size > self.max):
            raise ProgramError(
                f"{self.name} is {size}, and this program is for {self.range}; export it again"
                f" with other bounds, as in torch.export.Dim({self.name!r}, min=…, max=…)"
            )
        return size


def symbolic_shape(sizes: Sequence[Any]) -> Shape:
    """Sizes in the form of `Shape`: integers, or expressions."""
    return tuple(
        size if isinstance(size, int) else text if is_expression(text := str(size)) else UNKNOWN
        for size in sizes
    )


def is_expression(text: str) -> bool:
    """Return whether a text is an expression for a size that varies, as in `Shape`."""
    return text == UNKNOWN or all(
        factor.isidentifier() or (factor.isascii() and factor.isdigit() and len(factor) < 19)
        for _, factors in _terms(text)
        for factor in factors
    )


def names_in(shape: Shape) -> set[str]:
    """The dimensions that a shape depends on."""
    texts = [size for size in shape if isinstance(size, str)]
    names = {factor for text in texts for _, factors in _terms(text) for factor in factors}
    return {factor for factor in names if factor.isidentifier()}


def _terms(text: str) -> list[tuple[int, list[str]]]:
    """The sign and the factors of each term of an expression."""
    first, *parts = _SIGNS.split(text.removeprefix("-"))
    following = zip(parts[::2], parts[1::2], strict=True)
    pairs = [("-" if text.startswith("-") else "+", first), *following]
    return [(-1 if "-" in sign else 1, term.split("*")) for sign, term in pairs]


def evaluated(shape: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape at one size of each dimension. The shape has no `?`.

    Raises:
        ProgramError: a size would be negative.
    """
    result = tuple(_evaluated(size, sizes) if isinstance(size, str) else size for size in shape)
    if min(result, default=0) < 0:
        at = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise ProgramError(f"the shape {written(shape)} has a negative size where {at}")
    return result


def _evaluated(text: str, sizes: Mapping[str, int]) -> int:
    return sum(
        sign * prod(sizes[factor] if factor in sizes else int(factor) for factor in factors)
        for sign, factors in _terms(text)
    )


def checked_sizes(dimensions: Sequence[Dimension], sizes: Mapping[str, Any]) -> dict[str, int]:
    """Check the caller's sizes, and return one size for each dimension.

    Raises:
        ProgramError: a size is missing, unknown, or not possible for the dimension.
    """
    names = [dimension.name for dimension in dimensions]
    for name in sizes:
        if name not in names:
            raise ProgramError(
                f"the program has no dimension {name!r}{did_you_mean(name, names)}; it has:"
                f" {', '.join(names) or 'none that varies'}"
            )
    missing = [name for name in names if name not in sizes]
    if missing:
        raise ProgramError(f"sizes are missing: {', '.join(missing)}")
    return {dimension.name: dimension.check(sizes[dimension.name]) for dimension in dimensions}


def infer_sizes(
    dimensions: Sequence[Dimension],
    inputs: Sequence[tuple[str, Shape]],
    shapes: Sequence[tuple[int, ...]],
) -> dict[str, int]:
    """Infer the size of each dimension from the arrays that a program is called with.

    Args:
        inputs: names and shapes of the program's inputs.
        shapes: the shapes of the arrays.

    Raises:
        ProgramError: an array has another rank or size than its input.
    """
    names = {dimension.name for dimension in dimensions}
    actual_sizes: dict[str, int] = {}
    for (name, shape), fixed in zip(inputs, shapes, strict=True):
        if len(shape) != len(fixed):
            raise ProgramError(
                f"{name} has shape {written(shape)}, but its value has shape {fixed}"
            )
        for size, actual in zip(shape, fixed, strict=True):
            if isinstance(size, str) and size in names:
                actual_sizes.setdefault(size, actual)
    sizes = checked_sizes(dimensions, actual_sizes)
    for (name, shape), fixed in zip(inputs, shapes, strict=True):
        if evaluated(shape, sizes) != fixed:
            at = ", ".join(f"{key}={size}" for key, size in sizes.items())
            raise ProgramError(
                f"{name} has shape {written(shape)}, but its value has shape {fixed} where {at}"
            )
    return sizes


def written(shape: Shape) -> str:
    """The text of a shape for messages."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
