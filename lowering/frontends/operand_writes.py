"""Refusing functions that write to their operands, while they are traced."""

from collections.abc import Sequence

import torch

from composites import torch_internals
from lowering.frontends.protocols import WrittenOperandError


def refuse_writes(operands: Sequence[torch.Tensor | None]) -> None:
    """Check that a function has left its placeholders as they were.

    Raises:
        WrittenOperandError: it has written to one.
    """
    for number, operand in enumerate(operands):
        if operand is not None and torch_internals.was_written(operand):
            raise WrittenOperandError(
                f"writes to its operand {number + 1}; a composite cannot write to its operands, so"
                " compute a new tensor, such as x * 2 instead of x.mul_(2)"
            )
