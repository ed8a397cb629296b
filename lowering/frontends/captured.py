"""Raise an exception if a function that is traced computes with a CPU tensor that it did not make.

A frontend makes a constant of such a tensor (torch_xla if it has no dimensions). A composite would
keep its value after the tensor has changed. The frontends' own tensors need no such guard: they are
parameters of the graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from composites.torch_internals import pytree


class CapturedTensorError(RuntimeError):
    """A function that is traced computes with a CPU tensor that it did not make."""


class CapturedTensorsRefused(TorchFunctionMode):
    """Within this context, no traced tensor is made of a CPU tensor that existed before.

    Only calls that return a traced tensor count: a function may look at the dtype of a CPU tensor.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, torch.Tensor] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        captured = [
            leaf
            for leaf in pytree.tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor) and leaf.is_cpu and id(leaf) not in self._made
        ]
        result = func(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(result):
            if not isinstance(leaf, torch.Tensor):
                continue
            if not captured:
                self._made[id(leaf)] = leaf
            elif not leaf.is_cpu:
                tensor = captured[0]
                raise CapturedTensorError(
                    f"the decomposition reads a CPU tensor that is not an operand ({tensor.dtype},"
                    f" shape {list(tensor.shape)}); pass it as an argument, or use a number"
                )
        return result
