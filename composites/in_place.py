"""Writes to arguments. An adapting function returns them instead of performing them.

Results of a graph get the memory of its arguments in the order in which the arguments were written.
So the order decides whether a parameter keeps its memory or is copied; the frontend chooses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Written:
    """Tensors, and their new values, which one composite computes from the tensors."""

    targets: Sequence[Tensor]
    """The tensors that are written, in the order of the composite's operands. They share no
    memory."""
    values: Sequence[Tensor]
    """The new values, of the same shapes as the targets."""
    parameters: int = 1
    """The number of targets that are parameters; they come first. The remaining targets are an
    optimizer's state, from which no gradient is computed."""


@dataclass(frozen=True, slots=True)
class InPlace:
    """The writes of an optimizer's step, as the function that adapts the step returns them."""

    written: Sequence[Written]
    gradients: Sequence[Tensor]
    """The gradients from which the values are computed."""


def copy_each(in_place: InPlace) -> None:
    """Copy the new values to their targets, if no lazy graph assigns memory to the targets.
    torch.compile can trace this function."""
    for written in in_place.written:
        for target, value in zip(written.targets, written.values, strict=True):
            target.copy_(value)
