"""Tensors of torch_xla: their types and values, and placeholders without data."""

from __future__ import annotations

from typing import Any

import torch
import torch_xla

from composites.element_types import PYTORCH_NAMES
from lowering.emission.types import TensorType
from lowering.frontends.torch_xla.value_guard import values_readable
from lowering.stablehlo.dtypes import numpy_dtype

_XLAC = torch_xla._XLAC

DEVICE_TYPE = "xla"

_DTYPE_OF: dict[str, torch.dtype] = {
    element: getattr(torch, name) for element, name in PYTORCH_NAMES.items()
}
_ELEMENT_TYPE_OF = {dtype: element for element, dtype in _DTYPE_OF.items()}


class XlaTensors:
    """See `lowering.frontends.protocols.Tensors`."""

    device_type = DEVICE_TYPE

    @staticmethod
    def owns(tensor: torch.Tensor) -> bool:
        return tensor.is_xla  # type: ignore[attr-defined,no-any-return]

    @staticmethod
    def type_of(tensor: torch.Tensor) -> TensorType:
        return TensorType(_ELEMENT_TYPE_OF[tensor.dtype], tuple(tensor.shape))

    @staticmethod
    def dtype(element_type: str) -> torch.dtype:
        return _DTYPE_OF[element_type]

    @staticmethod
    def placeholder(like: torch.Tensor) -> torch.Tensor:
        from torch_xla.core.xla_builder import create_placeholder_tensor

        return create_placeholder_tensor(tuple(like.shape), like.dtype)  # type: ignore[no-any-return]


def values_of(tensor: torch.Tensor) -> Any:
    """The values of a tensor with data, as numpy."""
    type_ = XlaTensors.type_of(tensor)
    with values_readable():
        bits = tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return bits.view(numpy_dtype(type_.element_type)).reshape(type_.shape)
