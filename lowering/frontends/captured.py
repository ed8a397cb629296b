"""Refuse traced functions that compute with a tensor that is neither an operand nor made by the
function, or that write to their operands.

A frontend makes a constant of such a tensor if it is on the CPU (torch_xla if it has no
dimensions). For a traced tensor, it copies the operations that compute it into the composite. The
composite would keep the value after the tensor has changed, and would have no gradient for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from composites import torch_internals
from composites.torch_internals import pytree
from lowering.frontends.protocols import WrittenOperandError


class CapturedTensorError(RuntimeError):
    """A traced function computes with a tensor that is neither an operand nor made by itself."""


class CapturedTensorsRefused(TorchFunctionMode):
    """Within this context, no traced tensor is made of a tensor that existed before.

    Only calls that return a traced tensor count: a function may look at the dtype of a tensor.

    Args:
        is_captured: returns True for a tensor of the frontend that existed before the call and is
            not an operand.
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
    """Check that a function has not written to its placeholders.

    Raises:
        WrittenOperandError: the function has written to a placeholder.
    """
    for number, operand in enumerate(operands):
        if operand is not None and torch_internals.version_of(operand) > 0:
            raise WrittenOperandError(
                f"writes to its operand {number + 1}; a composite cannot write to its operands, so"
                " compute a new tensor, such as x * 2 instead of x.mul_(2)"
            )
