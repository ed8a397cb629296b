"""Refuse functions that are traced and compute with a tensor that they were not given and did not
make, or that write to their operands.

A frontend makes a constant of such a tensor if it is on the CPU (torch_xla if it has no
dimensions), and copies the operations into the composite that a tensor of its own is computed from.
The composite would keep the value after the tensor has changed, and would have no gradient for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from composites import torch_internals
from composites.torch_internals import pytree
from lowering.frontends.protocols import WrittenOperandError


class CapturedTensorError(RuntimeError):
    """A function that is traced computes with a tensor that it was not given and did not make."""


class CapturedTensorsRefused(TorchFunctionMode):
    """Within this context, no traced tensor is made of a tensor that existed before.

    Only calls that return a traced tensor count: a function may look at the dtype of a tensor.

    Args:
        is_captured: whether a tensor of the frontend existed before and is not an operand.
    """

    def __init__(self, is_captured: Callable[[torch.Tensor], bool]) -> None:
        super().__init__()
        self._is_captured = is_captured
        self._made: dict[int, torch.Tensor] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        captured = [
            leaf
            for leaf in pytree.tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor)
            and (id(leaf) not in self._made if leaf.is_cpu else self._is_captured(leaf))
        ]
        result = func(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(result):
            if not isinstance(leaf, torch.Tensor):
                continue
            if not captured:
                self._made[id(leaf)] = leaf
            elif not leaf.is_cpu:
                tensor = captured[0]
                kind = "CPU" if tensor.is_cpu else "traced"
                raise CapturedTensorError(
                    f"the decomposition reads a {kind} tensor that is not an operand"
                    f" ({tensor.dtype}, shape {list(tensor.shape)}); pass it as an argument"
                    + (", or use a number" if tensor.is_cpu else "")
                )
        return result


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
