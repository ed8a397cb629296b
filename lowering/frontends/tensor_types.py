"""The types of PyTorch's tensors, by their names in StableHLO."""

from collections.abc import Collection

import torch

from composites.element_types import PYTORCH_NAMES
from composites.errors import UnsupportedCallError
from lowering.emission.types import TensorType

DTYPE_OF: dict[str, torch.dtype] = {
    element: getattr(torch, name) for element, name in PYTORCH_NAMES.items()
}
ELEMENT_TYPE_OF = {dtype: element for element, dtype in DTYPE_OF.items()}


def tensor_type(tensor: torch.Tensor, owner: str, missing: Collection[str] = ()) -> TensorType:
    """Element type and shape of a tensor.

    Args:
        owner: the frontend or format that lacks other dtypes, for the error.
        missing: further element types that `owner` lacks.

    Raises:
        UnsupportedCallError: the dtype has no element type.
    """
    element = ELEMENT_TYPE_OF.get(tensor.dtype)
    if element is None or element in missing:
        raise UnsupportedCallError(f"{owner} has no tensors of {tensor.dtype}")
    return TensorType(element, tuple(tensor.shape))


def description(tensor: torch.Tensor) -> str:
    """The text of a tensor without values."""
    size = tuple(tensor.shape)
    return f"tensor(..., device='{tensor.device}', size={size}, dtype={tensor.dtype})"


def layout_refusal(tensor: torch.Tensor) -> str | None:
    """The reason why no graph has a tensor, and the remedy; None for a dense tensor."""
    if torch.nn.parameter.is_lazy(tensor):
        return "has no shape yet; call the module once"
    if tensor.is_nested:
        return "is nested; pad it with torch.nested.to_padded_tensor"
    if tensor.layout is not torch.strided:
        return f"has the layout {tensor.layout}; make it dense with .to_dense()"
    return None
