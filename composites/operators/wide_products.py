"""Operators for matmuls and convolutions with a wider result type than their operands.

In PyTorch 2.9, `mm(…, out_dtype=)` has neither an XLA kernel nor a derivative, and torch_xla cannot
express a product with a wider result type. The two operators of this module can be traced, compiled
and differentiated like any other. On XLA each is one HLO instruction
(`lowering.frontends.torch_xla.wide_products`):

- `composites::matmul(self, other, out_dtype)`: `[*B, M, K]` @ `[*B, K, N]`, without broadcasting.
- `composites::convolution(…, out_dtype)`: aten::convolution without bias.

Gradients have the dtypes of the operands. The gradient of the result is first rounded to this
dtype, so that the products that follow have narrow operands.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from composites.errors import InvalidCallError

_library = torch.library.Library("composites", "FRAGMENT")
_library.define("matmul(Tensor self, Tensor other, ScalarType out_dtype) -> Tensor")
_library.define(
    "convolution(Tensor input, Tensor weight, int[] stride, int[] padding, int[] dilation,"
    " bool transposed, int[] output_padding, int groups, ScalarType out_dtype) -> Tensor"
)


def matmul(self: Tensor, other: Tensor, out_dtype: torch.dtype) -> Tensor:
    """Multiply two matrices, or two batches of the same size, with an accumulator of `out_dtype`.

    Args:
        self: `[*B, M, K]`, floating point or integer.
        other: `[*B, K, N]`, of the same dtype.
        out_dtype: of the same kind (float or integer), and as wide or wider.

    Returns:
        `[*B, M, N]` of dtype `out_dtype`.
    """
    result: Tensor = torch.ops.composites.matmul.default(self, other, out_dtype)
    return result


def convolution(
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    out_dtype: torch.dtype,
) -> Tensor:
    """Convolution with an accumulator of `out_dtype`. For the other arguments see
    aten::convolution."""
    result: Tensor = torch.ops.composites.convolution.default(
        input, weight, stride, padding, dilation, transposed, output_padding, groups, out_dtype
    )
    return result


def check_dtypes(operator: str, self: Tensor, other: Tensor, out_dtype: torch.dtype) -> None:
    """Check that a product of two operands can have a result of `out_dtype`.

    Raises:
        InvalidCallError: the operands' dtypes differ, or `out_dtype` is of another kind or
            narrower.
    """
    dtype = self.dtype
    if other.dtype != dtype:
        raise InvalidCallError(
            f"{operator}: expected operands of one dtype, but got {dtype} and {other.dtype}"
        )
    if dtype == torch.bool or dtype.is_complex:
        raise InvalidCallError(f"{operator}: out_dtype is not implemented for {dtype} operands")
    if dtype.is_floating_point != out_dtype.is_floating_point or out_dtype.is_complex:
        raise InvalidCallError(
            f"{operator}: out_dtype {out_dtype} is not of the same kind as the operands' dtype"
            f" {dtype}"
        )
    if torch.promote_types(dtype, out_dtype) != out_dtype:
        raise InvalidCallError(
            f"{operator}: out_dtype {out_dtype} cannot hold every value of the operands' dtype"
            f" {dtype}; it must be as wide or wider"
        )


# Kernels for backends without their own kernels: operands are converted to `out_dtype` first, which
# gives the same product.


def _matmul(self: Tensor, other: Tensor, out_dtype: torch.dtype) -> Tensor:
    return torch.matmul(self.to(out_dtype), other.to(out_dtype))


def _convolution(input: Tensor, weight: Tensor, *arguments: Any) -> Tensor:
    *geometry, out_dtype = arguments
    convolution: Any = torch.ops.aten.convolution.default
    result: Tensor = convolution(input.to(out_dtype), weight.to(out_dtype), None, *geometry)
    return result


_library.impl("matmul", _matmul, "CompositeExplicitAutograd")
_library.impl("convolution", _convolution, "CompositeExplicitAutograd")


# Derivatives.


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.geometry = inputs[2:-1]


def _matmul_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    self, other = ctx.saved_tensors
    narrow = grad.to(self.dtype)
    needed = ctx.needs_input_grad
    return (
        torch.matmul(narrow, other.mT) if needed[0] else None,
        torch.matmul(self.mT, narrow) if needed[1] else None,
        None,
    )


def _convolution_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    input, weight = ctx.saved_tensors
    mask = [*ctx.needs_input_grad[:2], False]
    gradients = torch.ops.aten.convolution_backward.default(
        grad.to(input.dtype), input, weight, None, *ctx.geometry, mask
    )
    return (gradients[0], gradients[1], *[None] * (len(ctx.geometry) + 1))


torch.library.register_autograd(
    "composites::matmul", _matmul_backward, setup_context=_save, lib=_library
)
torch.library.register_autograd(
    "composites::convolution", _convolution_backward, setup_context=_save, lib=_library
)
