"""Writes to arguments, which an adapting function returns instead of performing them.

Results of a graph get the memory of its arguments in the order in which they were written. So the
order decides whether a parameter keeps its memory or is copied; the frontend chooses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Written:
    """Tensors and their new values, which one composite computes from them."""

    targets: Sequence[Tensor]
    """The tensors that are written, in the order of the composite's operands, without shared
    memory."""
    values: Sequence[Tensor]
    """The values that are written, of the targets' shapes."""
    parameters: int = 1
    """The number of targets, the first ones, that are parameters. The others are an optimizer's
    state, which no gradient is computed from."""


@dataclass(frozen=True, slots=True)
class InPlace:
    """The writes of an optimizer's step. A function that adapts such a step returns this."""

    written: Sequence[Written]
    gradients: Sequence[Tensor]
    """The gradients that the values are computed from."""


def copy_each(in_place: InPlace) -> None:
    """Copy the new values, for tensors that no lazy graph gives memory to. torch.compile can trace
    this."""
    for written in in_place.written:
        for target, value in zip(written.targets, written.values, strict=True):
            target.copy_(value)
