"""Decompositions of norms, in PyTorch.

PyTorch's own decompositions compute mean and variance by `aten::var_mean`, which is a separate
composite. A norm is one composite, without nested composites. The unbiased variance of batch norm's
moving average is computed from the biased variance in the order of
`composites.operators.norms.train_batch_norm`, so that composites have the same bits.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from composites.operators.norms import (
    affine,
    biased_share,
    centered_statistics,
    channel_statistics,
    last_dimensions,
    moving_average,
    per_channel,
)
from composites.operators.opmath import opmath_type
from composites.registry.operators import overload


def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """See aten::native_layer_norm: the result, and mean and reciprocal deviation."""
    dims = last_dimensions(input, normalized_shape)
    centered, mean, variance = centered_statistics(input.to(opmath_type(input.dtype)), dims)
    reciprocal = torch.rsqrt(variance + eps)
    result = affine(centered * reciprocal, weight, bias)
    return result.to(input.dtype), mean, reciprocal


def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """See aten::native_group_norm: the result, and mean and reciprocal deviation of each group."""
    wide = input.to(opmath_type(input.dtype)).reshape(N, group, C // group * HxW)
    centered, mean, variance = centered_statistics(wide, [2])
    reciprocal = torch.rsqrt(variance + eps)
    result = (centered * reciprocal).reshape(input.shape)
    parameters = per_channel(weight, input), per_channel(bias, input)
    result = affine(result, *parameters).to(input.dtype)
    return result, mean.squeeze(2).to(input.dtype), reciprocal.squeeze(2).to(input.dtype)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """See aten::native_batch_norm: the result, and mean and reciprocal deviation of the batch. In
    training, the moving averages are written."""
    parameters = per_channel(weight, input), per_channel(bias, input)
    if not training:
        assert running_mean is not None
        assert running_var is not None
        wide = input.to(opmath_type(input.dtype))
        reciprocal = torch.rsqrt(running_var.to(wide.dtype) + eps)
        centered = wide - per_channel(running_mean, input)
        result = affine(centered * per_channel(reciprocal, input), *parameters)
        nothing = wide.new_zeros(0)
        return result.to(input.dtype), nothing, nothing
    centered, mean, variance = channel_statistics(input)
    reciprocal = torch.rsqrt(variance + eps)
    result = affine(centered * reciprocal, *parameters).to(input.dtype)
    if running_mean is not None:
        running_mean.copy_(moving_average(running_mean, mean.flatten(), momentum))
    if running_var is not None:
        share = biased_share(input)
        average = moving_average(running_var * share, variance.flatten(), momentum)
        running_var.copy_(average / share)
    return result, mean.flatten(), reciprocal.flatten()


def batch_norm_in_one_type(
    input: Tensor, *arguments: Tensor | float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """`native_batch_norm` with statistics in the input's type, as in torch_xla."""
    result, mean, reciprocal = native_batch_norm(input, *arguments)  # type: ignore[arg-type]
    return result, mean.to(input.dtype), reciprocal.to(input.dtype)


FOR_GRAPHS: Mapping[object, Callable[..., object]] = {
    overload("aten::native_layer_norm"): native_layer_norm,
    overload("aten::native_group_norm"): native_group_norm,
    overload("aten::native_batch_norm"): native_batch_norm,
}
"""For the fx frontend. Statistics of a bf16 input are in f32, as in PyTorch's meta kernels."""
FOR_ENTRIES: Mapping[object, Callable[..., object]] = {
    overload("aten::native_batch_norm"): batch_norm_in_one_type,
}
"""For entries as JAX functions, for which PyTorch's own decompositions of the other two norms agree
with torch_xla."""
