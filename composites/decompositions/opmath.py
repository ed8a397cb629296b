"""The precision that PyTorch's kernels compute in."""

from __future__ import annotations

import torch


def opmath_type(dtype: torch.dtype) -> torch.dtype:
    """f32 for f16 and bf16, else the dtype itself (`at::opmath_type`)."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def check_same_dtype(*tensors: torch.Tensor) -> None:
    """Refuse tensors of several dtypes, as CPU kernels without type promotion do.

    Raises:
        RuntimeError: naming both dtypes.
    """
    first, *others = tensors
    for other in others:
        if other.dtype != first.dtype:
            raise RuntimeError(f"expected all tensors to be {first.dtype}, found {other.dtype}")
