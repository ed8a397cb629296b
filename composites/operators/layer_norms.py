"""Cohere's layer norm, which saves its statistics for its backward.

Ba et al., "Layer Normalization" (2016). A backward with the mean and the reciprocal deviation does
not add the rows of the input again, for which devices that share rows would have to communicate.
`aten::native_layer_norm` also returns both.

Operations and their order are those of the module and of autograd, which gives the same bits.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from composites.operators.norms import reciprocal_root, sum_of_rows


def mean(input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float) -> Tensor:
    """The mean of each row: `[…, 1]` in f32, of `[…, C]`."""
    return input.to(torch.float32).mean(-1, keepdim=True)


def reciprocal_deviation(
    input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float
) -> Tensor:
    """`1 / sqrt(variance + eps)` of each row: `[…, 1]` in f32, of `[…, C]`."""
    wide = input.to(torch.float32)
    return reciprocal_root(wide - wide.mean(-1, keepdim=True), eps)


def cohere_layer_norm_with_statistics(
    input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`composites.operators.norms:cohere_layer_norm` in f32, `mean` and `reciprocal_deviation`.

    Args:
        input: `[…, C]`, f32.
        weight: `[C]`, f32.
    """
    means = input.mean(-1, keepdim=True)
    centred = input - means
    reciprocal = reciprocal_root(centred, eps)
    return weight * (centred * reciprocal), means, reciprocal


def cohere_layer_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    mean: Tensor,
    reciprocal_deviation: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients of input and weight.

    Args:
        grad_output, input: `[…, C]`, f32.
        mean, reciprocal_deviation: `[…, 1]`.
    """
    size = input.shape[-1]
    centred = input - mean
    grad_normed = grad_output * weight
    grad_reciprocal = (grad_normed * centred).sum(-1, keepdim=True)
    grad_variance = -0.5 * grad_reciprocal * reciprocal_deviation.pow(3)
    grad_centred = grad_normed * reciprocal_deviation
    grad_squares = grad_variance.expand_as(input) / size * (2.0 * centred)
    grad_mean = (-grad_centred).sum(-1, keepdim=True) + (-grad_squares).sum(-1, keepdim=True)
    grad_input = grad_centred + grad_squares + grad_mean.expand_as(input) / size
    return grad_input, sum_of_rows(grad_output * (centred * reciprocal_deviation))
