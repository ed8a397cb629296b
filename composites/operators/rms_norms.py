"""RMS norms that save the reciprocal root for their backward.

Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019). A backward with the root does not
add the rows of the input again, for which devices that share rows would have to communicate.
PyTorch's own fused operator, `aten::_fused_rms_norm`, also returns the root.

The operations and their order are the same as in the stock lowering and in autograd, so the results
have the same bits.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from composites.operators.norms import (
    gated,
    in_groups,
    last_dimensions,
    reciprocal_root,
    sum_of_rows,
)
from composites.operators.opmath import opmath_type


def inverse_rms(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """The value that `aten::rms_norm` saves: `1 / sqrt(mean(input^2) + eps)`.

    Args:
        input: `[…, *normalized_shape]`, floating point.
        eps: by default the epsilon of f32, or of f64 for f64.

    Returns:
        `[…, 1, …]` with as many dimensions as `input`, f32 or wider.
    """
    wide = input.to(opmath_type(input.dtype))
    if eps is None:
        eps = torch.finfo(wide.dtype).eps
    squares = wide.pow(2).mean(last_dimensions(input, normalized_shape), keepdim=True)
    return torch.rsqrt(squares + eps)


def inverse_rms_of_model(
    input: Tensor, weight: Tensor | None = None, *, normalized_shape: Sequence[int], eps: float
) -> Tensor:
    """The value that norms of models save, which they compute in f32.

    Args:
        input: `[…, C]`, floating point.

    Returns:
        `[…, 1]`, f32.
    """
    return reciprocal_root(input.to(torch.float32), eps)


def rms_norm_with_root(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> tuple[Tensor, Tensor]:
    """`aten::rms_norm` and `inverse_rms`, with the bits of the stock lowering.

    Args:
        input: `[…, *normalized_shape]`, f32 or f64.
        weight: `normalized_shape`, of the dtype of `input`.
    """
    root = inverse_rms(input, normalized_shape, weight, eps)
    normed = input * root
    return (normed if weight is None else normed * weight), root


def rms_norm_of_model_with_root(
    input: Tensor, weight: Tensor | None = None, *, normalized_shape: Sequence[int], eps: float
) -> tuple[Tensor, Tensor]:
    """The norm of models in f32, which is the same for all models, and `inverse_rms_of_model`.

    Args:
        input: `[…, C]`, f32.
        weight: `[C]`, f32.
    """
    root = inverse_rms_of_model(input, weight, normalized_shape=normalized_shape, eps=eps)
    normed = input * root
    return (normed if weight is None else weight * normed), root


def gemma_rms_norm_with_root(
    input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float
) -> tuple[Tensor, Tensor]:
    """Gemma's norm in f32, whose weight is added to 1, and `inverse_rms_of_model`.

    Args:
        input: `[…, C]`, f32.
        weight: `[C]`, f32.
    """
    root = inverse_rms_of_model(input, weight, normalized_shape=normalized_shape, eps=eps)
    return input * root * (1.0 + weight), root


def inverse_rms_of_groups(
    input: Tensor, weight: Tensor, gate: Tensor | None = None, *, group_size: int, eps: float
) -> Tensor:
    """The value that Mamba 2's norm saves, which it computes in f32 for each group.

    Args:
        input: `[…, C]`, floating point.
        gate: of the shape of `input`.

    Returns:
        `[…, C / group_size, 1]`, f32.
    """
    return reciprocal_root(in_groups(gated(input, gate), group_size), eps)


def rms_norm_gated_with_root(
    input: Tensor, weight: Tensor, gate: Tensor | None = None, *, group_size: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Mamba 2's norm in f32, and `inverse_rms_of_groups`.

    Args:
        input: `[…, C]`, f32.
        weight: `[C]`, f32.
        gate: of the shape of `input`, f32.
    """
    grouped = in_groups(gated(input, gate), group_size)
    root = reciprocal_root(grouped, eps)
    return weight * (grouped * root).view(input.shape), root


def rms_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor | None,
    inverse_rms: Tensor,
    normalized_shape: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """The gradients of an RMS norm for input and weight, with the bits of autograd.

    Args:
        grad_output, input: `[…, *normalized_shape]`, f32 or f64.
        inverse_rms: `[…, 1, …]`.
    """
    dims = last_dimensions(input, normalized_shape)
    count = math.prod(input.shape[dim] for dim in dims)
    grad_normed = grad_output if weight is None else grad_output * weight
    grad_root = (grad_normed * input).sum(dims, keepdim=True)
    grad_squares = (-0.5 * grad_root * inverse_rms.pow(3)).expand_as(input) / count
    grad_input = grad_normed * inverse_rms + grad_squares * (2.0 * input)
    grad_weight = grad_output * (input * inverse_rms)
    if dims[0]:
        grad_weight = grad_weight.sum(list(range(dims[0])))
    return grad_input, grad_weight


def weightless_rms_norm_backward(
    grad_output: Tensor, input: Tensor, inverse_rms: Tensor, normalized_shape: Sequence[int]
) -> Tensor:
    """The gradient of an RMS norm without a weight for its input."""
    return rms_norm_backward(grad_output, input, None, inverse_rms, normalized_shape)[0]


def gemma_rms_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    inverse_rms: Tensor,
    normalized_shape: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """The gradients of `gemma_rms_norm_with_root`. The gradients of `weight` and `1 + weight` are
    equal."""
    return rms_norm_backward(grad_output, input, 1.0 + weight, inverse_rms, normalized_shape)


def rms_norm_gated_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    gate: Tensor | None,
    inverse_rms: Tensor,
    group_size: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `rms_norm_gated_with_root`. Without a gate, ignore the third gradient."""
    grouped = in_groups(gated(input, gate), group_size)
    grad_normed = in_groups(grad_output * weight, group_size)
    grad_grouped, _ = rms_norm_backward(grad_normed, grouped, None, inverse_rms, [group_size])
    grad_gated = grad_grouped.view(input.shape)
    grad_weight = sum_of_rows(grad_output * (grouped * inverse_rms).view(input.shape))
    if gate is None:
        return grad_gated, grad_weight, grad_gated
    grad_gate = torch.ops.aten.silu_backward(grad_gated * input, gate)
    return grad_gated * functional.silu(gate), grad_weight, grad_gate
