"""Operators that take a tensor for its shape only: the graph does not read the tensor.

A program then has no input for a buffer that a module only overwrites.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from composites.registry.operators import overload
from lowering.frontends.fx import capture
from lowering.frontends.fx.capture import TracedTensor
from lowering.frontends.protocols import Kernel


def _full(shape: Sequence[int], value: Any, dtype: torch.dtype) -> Any:
    described = torch.empty(tuple(shape), dtype=dtype, device="meta")
    arguments = (list(shape), value)
    return capture.node(torch.ops.aten.full.default, arguments, {"dtype": dtype}, described)


def _full_like(self: Any, value: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return _full(self.shape, value, dtype or self.dtype)


def _new_full(
    self: Any, size: Sequence[int], value: Any, *, dtype: torch.dtype | None = None, **_: Any
) -> Any:
    return _full(size, value, dtype or self.dtype)


def _fill(self: Any, value: Any) -> Any:
    """See aten::fill, with a number or a 0-d tensor."""
    if isinstance(value, torch.Tensor):
        return _copy(self, value)
    return _full(self.shape, value, self.dtype)


def _copy(self: Any, source: Any, non_blocking: bool = False) -> Any:
    """See aten::copy: the source with the shape and dtype of `self`."""
    if source.dtype != self.dtype:
        source = overload("aten::_to_copy")(source, dtype=self.dtype)
    if source.shape != self.shape:
        return torch.ops.aten.expand_copy.default(source, list(self.shape))
    if isinstance(source, TracedTensor):
        return TracedTensor(self.described, source.node)
    return capture.constant(source)


_OPERATORS: dict[str, Kernel] = {
    "zeros_like": partial(_full_like, value=0),
    "ones_like": partial(_full_like, value=1),
    "empty_like": partial(_full_like, value=0),
    "full_like": _full_like,
    "new_zeros": partial(_new_full, value=0),
    "new_ones": partial(_new_full, value=1),
    "new_empty": partial(_new_full, value=0),
    "new_empty_strided": lambda self, size, stride, **_: _new_full(self, size, 0, **_),
    "new_full": _new_full,
    "fill.Scalar": _fill,
    "fill.Tensor": _fill,
    "zero": partial(_full_like, value=0),
    "copy": _copy,
}
capture.FUNCTIONS.update({overload(f"aten::{name}"): f for name, f in _OPERATORS.items()})
