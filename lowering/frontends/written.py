"""Refusing functions that write to their operands, while they are traced."""

from __future__ import annotations

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
                f"writes to its operand {number + 1}; a composite leaves its operands as they"
                " are, so compute a new tensor, as with x * 2 in place of x.mul_(2)"
            )
