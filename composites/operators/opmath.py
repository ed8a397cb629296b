"""The precision of PyTorch's kernels."""

import torch

from composites.errors import UnsupportedCallError


def opmath_type(dtype: torch.dtype) -> torch.dtype:
    """Return f32 for f16 and bf16, and any other dtype itself (`at::opmath_type`)."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def check_same_dtype(*tensors: torch.Tensor) -> None:
    """Leave a call with several dtypes to the stock lowering, which handles it as PyTorch does.

    Raises:
        UnsupportedCallError: two tensors have different dtypes; the message names both.
    """
    first, *rest = tensors
    for other in rest:
        if other.dtype != first.dtype:
            raise UnsupportedCallError(f"operands are {first.dtype} and {other.dtype}")
