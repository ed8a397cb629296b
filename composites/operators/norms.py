"""Norms as models write them in Python, batch norm in training, and weight norm."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import UnsupportedCallError
from composites.operators.opmath import opmath_type
from composites.torch_internals import assign_all

Values = TypeVar("Values", Tensor, Tensor | None)


def llama_rms_norm(
    input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float
) -> Tensor:
    """`weight * (x / sqrt(mean(x^2) + eps))` over the last dimension, with the norm in f32.

    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019), with the roundings of Llama:
    the normalized value is rounded to the dtype of `input` before it is multiplied by `weight`.

    Args:
        input: any shape `[…, C]`, floating point.
        weight: `[C]`.
        normalized_shape: `[C]`.
    """
    wide = input.to(torch.float32)
    return weight * (wide * reciprocal_root(wide, eps)).to(input.dtype)


def t5_rms_norm(
    input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float
) -> Tensor:
    """The norm of `llama_rms_norm` with the roundings of T5: f32 up to the reciprocal root, then
    promoted with `input`.

    Args:
        input: any shape `[…, C]`, floating point.
        weight: `[C]`.
        normalized_shape: `[C]`.
    """
    normed = input * reciprocal_root(input.to(torch.float32), eps)
    if weight.dtype in (torch.float16, torch.bfloat16):
        normed = normed.to(weight.dtype)
    return weight * normed


def olmo2_rms_norm(
    input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float
) -> Tensor:
    """The norm of `llama_rms_norm` with the rounding of OLMo 2 and gpt-oss: all arithmetic in f32,
    then rounded to the dtype of `input`.

    Args:
        input: any shape `[…, C]`, floating point.
        weight: `[C]`.
        normalized_shape: `[C]`.
    """
    wide = input.to(torch.float32)
    return (weight * (wide * reciprocal_root(wide, eps))).to(input.dtype)


def weightless_rms_norm(input: Tensor, *, normalized_shape: Sequence[int], eps: float) -> Tensor:
    """The RMS norm without a weight, in f32.

    Args:
        input: any shape `[…, C]`, floating point.
        normalized_shape: `[C]`.
    """
    wide = input.float()
    return (wide * reciprocal_root(wide, eps)).type_as(input)


def weightless_of_module(
    composite: Callable[..., Tensor], module: Any, hidden_states: Tensor
) -> Tensor:
    """Adapt the `forward` of a norm without weight."""
    return composite(hidden_states, normalized_shape=[hidden_states.shape[-1]], eps=module.eps)


def gemma_rms_norm(
    input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float
) -> Tensor:
    """`(1 + weight) * (x / sqrt(mean(x^2) + eps))` over the last dimension, in f32.

    Gemma Team, "Gemma" (2024): a weight of zero leaves the normalized value as it is.

    Args:
        input: any shape `[…, C]`, floating point.
        weight: `[C]`.
        normalized_shape: `[C]`.
    """
    wide = input.float()
    normed = wide * reciprocal_root(wide, eps)
    return (normed * (1.0 + weight.float())).type_as(input)


def gemma_of_module(composite: Callable[..., Tensor], module: Any, x: Tensor) -> Tensor:
    """Adapt the `forward` of Gemma's norm to the composite's operands and attributes."""
    weight = _weight_of(module, x)
    return composite(x, weight, normalized_shape=list(weight.shape), eps=module.eps)


def global_response_norm(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Scale channels by their norms: Woo et al., "ConvNeXt V2" (2023), section 3.

    Args:
        input: `[N, H, W, C]`, floating point.
        weight, bias: `[1, 1, 1, C]`.
    """
    norms: Tensor = torch.linalg.vector_norm(input, ord=2, dim=(1, 2), keepdim=True)
    relative = norms / (norms.mean(dim=-1, keepdim=True) + 1e-6)
    return weight * (input * relative) + bias + input


def response_norm_of_module(composite: Callable[..., Tensor], module: Any, x: Tensor) -> Tensor:
    """Adapt `ConvNextV2GRN.forward`."""
    return composite(x, module.weight, module.bias)


def layer_scale(input: Tensor, scale: Tensor) -> Tensor:
    """Scale each channel: Touvron et al., "Going Deeper with Image Transformers" (2021).

    Args:
        input: any shape `[…, C]`, floating point.
        scale: `[C]`.
    """
    return input * scale


def scale_of_module(composite: Callable[..., Tensor], module: Any, x: Tensor) -> Tensor:
    """Adapt `Dinov2LayerScale.forward`."""
    return composite(x, module.lambda1)


def reciprocal_root(wide: Tensor, eps: float) -> Tensor:
    """`1 / sqrt(mean(wide^2) + eps)` over the last dimension, which is kept with size 1."""
    return torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)


def gated(input: Tensor, gate: Tensor | None) -> Tensor:
    """`input * silu(gate)` in f32, or the input if there is no gate."""
    wide = input.to(torch.float32)
    return wide if gate is None else wide * functional.silu(gate.to(torch.float32))


def in_groups(x: Tensor, size: int) -> Tensor:
    """View `[…, C]` as `[…, C / size, size]`."""
    return x.view(*x.shape[:-1], x.shape[-1] // size, size)


def cohere_layer_norm(
    input: Tensor, weight: Tensor, *, normalized_shape: Sequence[int], eps: float
) -> Tensor:
    """Layer norm without a bias, in f32: Ba et al., "Layer Normalization" (2016).

    Args:
        input: any shape `[…, C]`, floating point.
        weight: `[C]`.
        normalized_shape: `[C]`.
    """
    wide = input.to(torch.float32)
    mean = wide.mean(-1, keepdim=True)
    variance = (wide - mean).pow(2).mean(-1, keepdim=True)
    normed = (wide - mean) * torch.rsqrt(variance + eps)
    return (weight.to(torch.float32) * normed).to(input.dtype)


def rms_norm_gated(
    input: Tensor, weight: Tensor, gate: Tensor | None = None, *, group_size: int, eps: float
) -> Tensor:
    """The RMS norm of `input * silu(gate)` over groups of the last dimension, with the roundings of
    Llama.

    Args:
        input: `[…, C]`, floating point.
        weight: `[C]`.
        gate: of the shape of `input`.
        group_size: divides C.
    """
    wide = gated(input, gate)
    grouped = in_groups(wide, group_size)
    normed = (grouped * reciprocal_root(grouped, eps)).view(wide.shape)
    return weight * normed.to(input.dtype)


def gated_of_module(
    composite: Callable[..., Tensor],
    module: Any,
    hidden_states: Tensor,
    gate: Tensor | None = None,
) -> Tensor:
    """Adapt the `forward` of Mamba 2's norm to the composite's operands and attributes."""
    if hidden_states.shape[-1] % module.group_size:
        raise UnsupportedCallError("the groups do not divide the last dimension")
    return composite(
        hidden_states,
        _weight_of(module, hidden_states),
        gate,
        group_size=module.group_size,
        eps=module.variance_epsilon,
    )


def of_module(composite: Callable[..., Tensor], module: Any, hidden_states: Tensor) -> Tensor:
    """Adapt a norm module's `forward` to the composite's operands and attributes."""
    weight = _weight_of(module, hidden_states)
    return composite(
        hidden_states, weight, normalized_shape=list(weight.shape), eps=module.variance_epsilon
    )


def _weight_of(module: Any, input: Tensor) -> Tensor:
    """Return the weight of a norm over the last dimension, or refuse the call: Python code would
    also broadcast it, and a subclass may have none."""
    weight = module.weight
    if not isinstance(weight, Tensor):
        raise UnsupportedCallError(f"weight is {weight}")
    if weight.shape != input.shape[-1:]:
        raise UnsupportedCallError(
            f"weight has the shape {list(weight.shape)}, and the input {list(input.shape)}"
        )
    return weight


def frozen_batch_norm(
    input: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor
) -> Tensor:
    """Batch norm with fixed statistics, as in DETR's backbones: eps is 1e-5.

    Args:
        input: `[N, C, H, W]`, floating point.
        weight, bias, running_mean, running_var: `[C]`.
    """
    weight, bias, running_var, running_mean = (
        tensor.reshape(1, -1, 1, 1) for tensor in (weight, bias, running_var, running_mean)
    )
    scale = weight * (running_var + 1e-5).rsqrt()
    return input * scale + (bias - running_mean * scale)


def frozen_batch_norm_of_module(composite: Callable[..., Tensor], module: Any, x: Tensor) -> Tensor:
    """Adapt the `forward` of a frozen batch norm to the composite's operands."""
    return composite(x, module.weight, module.bias, module.running_mean, module.running_var)


def batch_norm_training(
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch norm with the statistics of the batch, and the updated moving averages of these
    statistics.

    Ioffe and Szegedy, "Batch Normalization" (2015). Each average is `(1 - momentum) * running +
    momentum * batch`. Both the result and the average use the biased variance, as in torch_xla.

    Args:
        input: `[N, C, …]`, floating point.
        running_mean, running_var: `[C]`, the old averages, which are not modified.
        weight, bias: `[C]`.

    Returns:
        The result, of the shape and dtype of `input`, and both averages, `[C]`.
    """
    mean, variance = running_mean.clone(), running_var.clone()
    result = torch.native_batch_norm(input, weight, bias, mean, variance, True, momentum, eps)[0]
    if input.device.type != "xla":  # `native_batch_norm` averages the unbiased variance
        with torch.no_grad():
            biased = channel_statistics(input)[2].flatten()
            variance = moving_average(running_var, biased, momentum)
    return result, mean, variance


def channel_statistics(input: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The centered values, the mean, and the biased variance of each channel of `[N, C, …]`, in f32
    or wider. Reduced dimensions are kept with size 1."""
    return centered_statistics(input.to(opmath_type(input.dtype)), [0, *range(2, input.dim())])


def centered_statistics(input: Tensor, dims: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The input minus its mean, the mean, and the biased variance, with kept dimensions."""
    mean = input.mean(dims, keepdim=True)
    centered = input - mean
    return centered, mean, (centered * centered).mean(dims, keepdim=True)


def moving_average(running: Tensor, batch: Tensor, momentum: float) -> Tensor:
    """`(1 - momentum) * running + momentum * batch`, in the dtype of `running`."""
    return ((1 - momentum) * running + momentum * batch).to(running.dtype)


def biased_share(input: Tensor) -> float:
    """The ratio of the biased to the unbiased variance of each channel of `[N, C, …]`."""
    count = input.numel() // input.shape[1]
    return (count - 1) / count


def train_batch_norm(
    composite: Callable[..., tuple[Tensor, Tensor, Tensor]],
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Adapt aten::batch_norm, which updates the averages in place although its schema does not say
    so. PyTorch averages the unbiased variance, torch_xla 2.9 and the composite the biased variance.
    """
    if not training or running_mean is None or running_var is None:
        raise UnsupportedCallError("the call has no moving averages to update")
    if input.numel() == 0:
        raise UnsupportedCallError("an empty batch has no statistics")
    share = 1.0 if input.device.type == "xla" else biased_share(input)
    if share == 0:
        raise UnsupportedCallError("one value for each channel has no unbiased variance")
    result, mean, variance = composite(
        input,
        running_mean,
        running_var if share == 1 else running_var * share,
        weight,
        bias,
        momentum=momentum,
        eps=eps,
    )
    with torch.no_grad():
        averages = (mean, variance if share == 1 else variance / share)
        assign_all((running_mean, running_var), averages)
    return result


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float
) -> Tensor:
    """Normalize each channel of each sample by its mean and biased variance.

    Ulyanov, Vedaldi and Lempitsky, "Instance Normalization" (2016).

    Args:
        input: `[N, C, …]`, floating point.
        weight, bias: `[C]`.
    """
    return torch.instance_norm(input, weight, bias, None, None, True, 0.0, eps, False)


def adapt_instance_norm(
    composite: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Adapt aten::instance_norm without moving averages. With them, PyTorch calls batch norm, which
    is another composite in training."""
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise UnsupportedCallError("the call has moving averages")
    return composite(input, weight, bias, eps=eps)


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """`g * v / norm(v)`, with one Euclidean norm for each index along `dim`.

    Salimans and Kingma, "Weight Normalization" (2016). Half precision is computed in f32, as in
    PyTorch's kernels.

    Args:
        v: floating point.
        g: of size 1 in every dimension but `dim`.
        dim: the dimension to keep, the first or the last.

    Returns:
        A tensor of the shape and dtype of `v`.
    """
    opmath = opmath_type(v.dtype)
    return (v.to(opmath) * (g.to(opmath) / weight_norms(v, g, dim))).to(v.dtype)


def weight_norms(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """The norms by which `v` is divided, of the shape of `g`, in f32 or wider."""
    return torch.norm_except_dim(v.to(opmath_type(v.dtype)), 2, dim)


# ---- norms for graphs that several devices share ----
# torch_xla's norms are batch norms whose channels are all rows, all groups or all channels of all
# samples: two dimensions are merged, and a tensor that is sharded along the second is gathered.
# These norms keep dimensions separate. Backwards use saved values, to avoid further collectives.


def layer_norm_apart(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`aten::native_layer_norm`, without merging dimensions.

    Args:
        input: `[…, *normalized_shape]`, f32 or f64.

    Returns:
        The result, and mean and reciprocal deviation, `[…, 1, …]`.
    """
    mean, reciprocal = _statistics(input, last_dimensions(input, normalized_shape), eps)
    return affine((input - mean) * reciprocal, weight, bias), mean, reciprocal


def layer_norm_backward_apart(
    grad_output: Tensor | None,
    grad_output_1: Tensor | None,
    grad_output_2: Tensor | None,
    input: Tensor,
    weight: Tensor | None,
    result_1: Tensor,
    result_2: Tensor,
    normalized_shape: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `layer_norm_apart` for input, weight and bias.

    Args:
        grad_output_1, grad_output_2: gradients of mean and reciprocal deviation; must be None.
        result_1, result_2: mean and reciprocal deviation.
    """
    grad = _only(grad_output, grad_output_1, grad_output_2)
    dims = last_dimensions(input, normalized_shape)
    centered = input - result_1
    grad_input = _gradient_of_norm(affine(grad, weight, None), centered, result_2, dims)
    grad_weight, grad_bias = grad * (centered * result_2), grad
    if dims[0]:
        rows = list(range(dims[0]))
        return grad_input, grad_weight.sum(rows), grad_bias.sum(rows)
    return grad_input, grad_weight, grad_bias.clone()


def group_norm_apart(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`aten::native_group_norm`, with samples and groups in separate dimensions.

    Args:
        input: `[N, C, …]`, f32 or f64.

    Returns:
        The result, and mean and reciprocal deviation, `[N, group]`.
    """
    grouped = input.reshape(N, group, C // group, *input.shape[2:])
    mean, reciprocal = _statistics(grouped, list(range(2, grouped.dim())), eps)
    normed = ((grouped - mean) * reciprocal).reshape(input.shape)
    weight, bias = per_channel(weight, input), per_channel(bias, input)
    return affine(normed, weight, bias), mean.reshape(N, group), reciprocal.reshape(N, group)


def group_norm_backward_apart(
    grad_output: Tensor | None,
    grad_output_1: Tensor | None,
    grad_output_2: Tensor | None,
    input: Tensor,
    weight: Tensor | None,
    result_1: Tensor,
    result_2: Tensor,
    N: int,
    C: int,
    group: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `group_norm_apart`; see `layer_norm_backward_apart`."""
    grad = _only(grad_output, grad_output_1, grad_output_2)
    grouped = input.reshape(N, group, C // group, *input.shape[2:])
    statistics = (N, group, *[1] * (grouped.dim() - 2))
    mean, reciprocal = result_1.reshape(statistics), result_2.reshape(statistics)
    return _gradients_per_channel(input, weight, grad, grouped - mean, reciprocal)


def instance_norm_apart(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float
) -> Tensor:
    """`instance_norm`, with samples and channels in separate dimensions.

    Args:
        input: `[N, C, …]`, f32 or f64.
    """
    mean, reciprocal = _statistics(input, list(range(2, input.dim())), eps)
    weight, bias = per_channel(weight, input), per_channel(bias, input)
    return affine((input - mean) * reciprocal, weight, bias)


def instance_norm_backward_apart(
    grad_output: Tensor, input: Tensor, weight: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `instance_norm_apart` for input, weight and bias."""
    mean, reciprocal = _statistics(input, list(range(2, input.dim())), eps)
    return _gradients_per_channel(input, weight, grad_output, input - mean, reciprocal)


def last_dimensions(input: Tensor, shape: Sequence[int]) -> list[int]:
    """Return the dimensions of `input` that a norm with this `normalized_shape` reduces."""
    return list(range(input.dim() - len(shape), input.dim()))


def sum_of_rows(x: Tensor) -> Tensor:
    """Sum `[…, C]` to `[C]`."""
    return x.sum(list(range(x.dim() - 1))) if x.dim() > 1 else x


def per_channel(values: Values, input: Tensor) -> Values:
    """Reshape one value per channel to the rank of an input `[N, C, …]`."""
    return values if values is None else values.reshape(1, -1, *[1] * (input.dim() - 2))


def affine(normed: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """`normed * weight + bias`. A weight or bias that is None is left out."""
    scaled = normed if weight is None else normed * weight
    return scaled if bias is None else scaled + bias


def _only(grad: Tensor | None, *statistics: Tensor | None) -> Tensor:
    if grad is None or any(gradient is not None for gradient in statistics):
        raise UnsupportedCallError("the statistics have gradients")
    return grad


def _statistics(input: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal deviation. The variance is the mean of the squares minus the square of
    the mean, as in XLA, so that one collective adds both sums."""
    count = math.prod(input.shape[dim] for dim in dims)
    mean = input.sum(dims, keepdim=True) / count
    variance = (input * input).sum(dims, keepdim=True) / count - mean * mean
    return mean, torch.rsqrt(variance + eps)


def _gradient_of_norm(
    weighted: Tensor, centered: Tensor, reciprocal: Tensor, dims: list[int]
) -> Tensor:
    """The gradient for the input of a norm over `dims`. `weighted` is for the normalized values."""
    count = math.prod(centered.shape[dim] for dim in dims)
    sums = weighted.sum(dims, keepdim=True)
    products = (weighted * centered).sum(dims, keepdim=True)
    slope = products * reciprocal * reciprocal / count
    return (weighted - sums / count - centered * slope) * reciprocal


def _gradients_per_channel(
    input: Tensor, weight: Tensor | None, grad: Tensor, centered: Tensor, reciprocal: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients for input, weight and bias of a norm over all but the first two dimensions of
    `centered`, with one weight per channel of the input."""
    weighted = affine(grad, per_channel(weight, input), None).reshape(centered.shape)
    dims = list(range(2, centered.dim()))
    grad_input = _gradient_of_norm(weighted, centered, reciprocal, dims).reshape(input.shape)
    normed = (centered * reciprocal).reshape(input.shape)
    reduced = [0, *range(2, input.dim())]
    return grad_input, (grad * normed).sum(reduced), grad.sum(reduced)
