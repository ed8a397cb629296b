"""Dtypes of PyTorch and of JAX."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import torch

from composites.element_types import PYTORCH_NAMES
from composites.errors import UnsupportedCallError
from lowering.stablehlo.dtypes import numpy_dtype

_NUMPY = {getattr(torch, name): numpy_dtype(type_) for type_, name in PYTORCH_NAMES.items()}
_TORCH: dict[Any, torch.dtype] = {dtype: torch_name for torch_name, dtype in _NUMPY.items()}


def jax_dtype(dtype: torch.dtype) -> Any:
    """The dtype of JAX's arrays for a dtype of PyTorch; of 32 bits if JAX has no 64-bit types.

    Raises:
        UnsupportedCallError: JAX does not have the dtype.
    """
    if dtype not in _NUMPY:
        raise UnsupportedCallError(f"JAX arrays cannot have the type {dtype}")
    return jax.dtypes.canonicalize_dtype(_NUMPY[dtype])


def torch_dtype(dtype: Any) -> torch.dtype:
    """The dtype that PyTorch sees for the dtype of an array.

    Without 64-bit types, JAX has i32 in place of i64, which PyTorch's operators require for
    indices.

    Raises:
        TypeError: PyTorch does not have the dtype.
    """
    mapped = _TORCH.get(jnp.dtype(dtype))
    if mapped is None:
        raise TypeError(f"PyTorch has no tensors of {jnp.dtype(dtype).name}")
    if mapped is torch.int32 and not jax.config.jax_enable_x64:
        return torch.int64
    return mapped


def common_dtype(a: Any, b: Any) -> Any:
    """The dtype in which PyTorch computes with two arrays or numbers."""
    return jax_dtype(_result_type(_description(a), _description(b)))


def _description(value: Any) -> Any:
    """The type of a number, or the dtype of an array and whether it has dimensions."""
    if hasattr(value, "dtype") and hasattr(value, "ndim"):
        return torch_dtype(value.dtype), min(value.ndim, 1)
    return type(value)


@cache
def _result_type(*described: Any) -> torch.dtype:
    a, b = (
        torch.empty((0,) * kind[1], dtype=kind[0], device="meta")
        if isinstance(kind, tuple)
        else kind(1)
        for kind in described
    )
    return torch.result_type(a, b)


def opmath_dtype(dtype: Any) -> Any:
    """The type in which PyTorch's kernels compute: at least f32 for floats."""
    is_narrow = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32
    return jnp.float32 if is_narrow else dtype
