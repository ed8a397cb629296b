"""Rules of convolutions and their gradients."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from composites.operators import wide_products  # noqa: F401  (composites::convolution)
from lowering.frontends.aten_in_jax.table import rule


def _per_dimension(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def _convolve(
    x: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *,
    wide: Any = None,
) -> Any:
    rank = x.ndim - 2
    stride, padding = _per_dimension(stride, rank), _per_dimension(padding, rank)
    dilation, output_padding = _per_dimension(dilation, rank), _per_dimension(output_padding, rank)
    spatial = "DHW"[-rank:]
    numbers = (f"NC{spatial}", f"OI{spatial}", f"NC{spatial}")
    pads, spread = [(p, p) for p in padding], [1] * rank
    if transposed:
        # The gradient of a convolution: the kernel is reversed, its input and output channels are
        # exchanged within each group, and the operand is dilated.
        inputs, outputs = weight.shape[0] // groups, weight.shape[1]
        sizes = weight.shape[2:]
        kernel = weight.reshape(groups, inputs, outputs, *sizes)
        kernel = jnp.swapaxes(kernel, 1, 2).reshape(groups * outputs, inputs, *sizes)
        weight = lax.rev(kernel, tuple(range(2, 2 + rank)))
        pads = [
            (d * (size - 1) - p, d * (size - 1) - p + more)
            for d, size, p, more in zip(dilation, sizes, padding, output_padding, strict=True)
        ]
        stride, spread = spread, stride
    return lax.conv_general_dilated(
        x, weight, stride, pads, lhs_dilation=spread, rhs_dilation=dilation,
        dimension_numbers=numbers, feature_group_count=groups, preferred_element_type=wide,
    )  # fmt: skip


@rule("aten::convolution", "aten::_convolution", "aten::_convolution.deprecated")
def _convolution(dtype: Any, /, x: Any, weight: Any, bias: Any, *arguments: Any) -> Any:
    result = _convolve(x, weight, *arguments[:6])  # the rest chooses an algorithm
    return result if bias is None else result + bias.reshape(-1, *[1] * (x.ndim - 2))


@rule("composites::convolution")
def _wide_convolution(dtype: Any, /, x: Any, weight: Any, *arguments: Any) -> Any:
    *geometry, _ = arguments
    return _convolve(x, weight, *geometry, wide=dtype)


@rule("aten::convolution_backward")
def _convolution_backward(
    dtypes: Any, /, grad: Any, x: Any, weight: Any, sizes: Any, *rest: Any
) -> Any:
    *geometry, mask = rest
    _, pull = jax.vjp(lambda a, b: _convolve(a, b, *geometry), x, weight)
    grad_x, grad_weight = pull(grad)
    grad_bias = jnp.sum(grad, (0, *range(2, grad.ndim))) if mask[2] else None
    return grad_x if mask[0] else None, grad_weight if mask[1] else None, grad_bias
