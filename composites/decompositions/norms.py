"""Root-mean-square norms as models write them in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError


def llama_rms_norm(
    input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float
) -> Tensor:
    """`weight * (x / sqrt(mean(x^2) + eps))` over the last dimension, the norm in f32.

    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019), with the roundings of
    Llama: the normed value is rounded to the dtype of `input` before it meets `weight`.

    Args:
        input: any shape `[…, C]`, floating point.
        weight: `[C]`.
        normalized_shape: `[C]`.
    """
    wide = input.to(torch.float32)
    variance = wide.pow(2).mean(-1, keepdim=True)
    return weight * (wide * torch.rsqrt(variance + eps)).to(input.dtype)


def t5_rms_norm(
    input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float
) -> Tensor:
    """The same with the roundings of T5: f32 up to the reciprocal root, then promoted with `input`.

    Args:
        input: any shape `[…, C]`, floating point.
        weight: `[C]`.
        normalized_shape: `[C]`.
    """
    variance = input.to(torch.float32).pow(2).mean(-1, keepdim=True)
    normed = input * torch.rsqrt(variance + eps)
    if weight.dtype in (torch.float16, torch.bfloat16):
        normed = normed.to(weight.dtype)
    return weight * normed


def of_module(composite: Callable[..., Tensor], module: Any, hidden_states: Tensor) -> Tensor:
    """From a norm module's `forward` to the composite's operands and attributes."""
    weight = module.weight
    if weight.dim() != 1:
        raise UnsupportedCallError(f"weight has {weight.dim()} dimensions")
    return composite(
        hidden_states, weight, normalized_shape=list(weight.shape), eps=module.variance_epsilon
    )
