"""Other ways to ask for a product wider than its operands: `out=`, in place, `out_dtype`.

Each is rewritten as the overload with `out_dtype`, which PyTorch provides for this purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from composites.errors import InvalidCallError, UnsupportedCallError
from composites.operators import wide_products as products
from composites.torch_internals import resize_out

aten = torch.ops.aten


def int_mm(self: Tensor, mat2: Tensor) -> Tensor:
    """`aten::_int_mm`, which torch_xla computes on the CPU."""
    return torch.mm(self, mat2, out_dtype=torch.int32)


# out=


def mm_out(self: Tensor, mat2: Tensor, *, out: Tensor) -> Tensor:
    _check_wider(out.dtype, self, mat2, out=out)
    return _write(out, torch.mm(self, mat2, out_dtype=out.dtype))


def bmm_out(self: Tensor, mat2: Tensor, *, out: Tensor) -> Tensor:
    _check_wider(out.dtype, self, mat2, out=out)
    return _write(out, torch.bmm(self, mat2, out_dtype=out.dtype))


def addmm_out(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor
) -> Tensor:
    _check_wider(out.dtype, mat1, mat2, out=out, added=self)
    return _write(out, torch.addmm(self, mat1, mat2, out.dtype, beta=beta, alpha=alpha))


def baddbmm_out(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor
) -> Tensor:
    _check_wider(out.dtype, batch1, batch2, out=out, added=self)
    return _write(out, torch.baddbmm(self, batch1, batch2, out.dtype, beta=beta, alpha=alpha))


def matmul_out_as_mm(self: Tensor, other: Tensor, *, out: Tensor) -> Tensor:
    """Products without a batch on the right: `other` is a vector or a matrix."""
    _check_wider(out.dtype, self, other, out=out)
    if other.dim() not in (1, 2) or self.dim() == 0:
        raise UnsupportedCallError("this is a product of batches")
    columns = other.unsqueeze(-1) if other.dim() == 1 else other
    product = torch.mm(_rows(self), columns, out_dtype=out.dtype)
    return _write(out, product.reshape((*self.shape[:-1], *other.shape[1:])))


def matmul_out_as_bmm(self: Tensor, other: Tensor, *, out: Tensor) -> Tensor:
    """The other products: a batch on the right, with broadcasting."""
    _check_wider(out.dtype, self, other, out=out)
    if other.dim() < 3 or self.dim() == 0:
        raise UnsupportedCallError("this is not a product of batches")
    left = self.unsqueeze(0) if self.dim() == 1 else self
    batch = torch.broadcast_shapes(left.shape[:-2], other.shape[:-2])  # type: ignore[no-untyped-call]
    count = math.prod(batch)
    product = torch.bmm(
        left.expand(*batch, *left.shape[-2:]).reshape(count, *left.shape[-2:]),
        other.expand(*batch, *other.shape[-2:]).reshape(count, *other.shape[-2:]),
        out_dtype=out.dtype,
    )
    rows = left.shape[-2:-1] if self.dim() > 1 else ()
    return _write(out, product.reshape((*batch, *rows, other.shape[-1])))


# out= together with out_dtype


def mm_dtype_out(self: Tensor, mat2: Tensor, out_dtype: torch.dtype, *, out: Tensor) -> Tensor:
    return _write(_of_dtype(out, out_dtype), torch.mm(self, mat2, out_dtype=out_dtype))


def bmm_dtype_out(self: Tensor, mat2: Tensor, out_dtype: torch.dtype, *, out: Tensor) -> Tensor:
    return _write(_of_dtype(out, out_dtype), torch.bmm(self, mat2, out_dtype=out_dtype))


def addmm_dtype_out(
    self: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    out_dtype: torch.dtype,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Tensor,
) -> Tensor:
    result = torch.addmm(self, mat1, mat2, out_dtype, beta=beta, alpha=alpha)
    return _write(_of_dtype(out, out_dtype), result)


def baddbmm_dtype_out(
    self: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    out_dtype: torch.dtype,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Tensor,
) -> Tensor:
    result = torch.baddbmm(self, batch1, batch2, out_dtype, beta=beta, alpha=alpha)
    return _write(_of_dtype(out, out_dtype), result)


# In place


def addmm_(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    _check_wider(self.dtype, mat1, mat2, out=self)
    return self.copy_(torch.addmm(self, mat1, mat2, self.dtype, beta=beta, alpha=alpha))


def baddbmm_(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    _check_wider(self.dtype, batch1, batch2, out=self)
    return self.copy_(torch.baddbmm(self, batch1, batch2, self.dtype, beta=beta, alpha=alpha))


# Calls of addmm that only accumulate. These are used if the entry addmm itself is off.


def _accumulates(self: Tensor, mat1: Tensor, mat2: Tensor, beta: float, alpha: float) -> None:
    shape = (mat1.shape[0], mat2.shape[-1])
    if self.shape != shape or beta != 1 or alpha != 1:
        raise UnsupportedCallError("this is not an accumulation")


def accumulate_(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    _accumulates(self, mat1, mat2, beta, alpha)
    return addmm_(self, mat1, mat2)


def accumulate_out(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor
) -> Tensor:
    _accumulates(self, mat1, mat2, beta, alpha)
    if self.dtype != out.dtype:
        raise UnsupportedCallError("this is not an accumulation")
    return addmm_out(self, mat1, mat2, out=out)


def accumulate_dtype_out(
    self: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    out_dtype: torch.dtype,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Tensor,
) -> Tensor:
    _accumulates(self, mat1, mat2, beta, alpha)
    if self.dtype != out_dtype:
        raise UnsupportedCallError("this is not an accumulation")
    return addmm_dtype_out(self, mat1, mat2, out_dtype, out=out)


# The higher-order operator `torch.ops.higher_order.out_dtype(aten.mm.default, dtype, a, b)`. The
# call is caught before the operator checks its list of operators, which lacks bmm and addmm.


def out_dtype_of_mm(self: Any, op: Any, output_dtype: torch.dtype, *args: Any) -> Tensor:
    if op == aten.linear.default and len(args) == 2:
        input, weight = args
        _check_wider(output_dtype, input, weight)
        product = torch.mm(_rows(input), weight.mT, out_dtype=output_dtype)
        return product.reshape(*input.shape[:-1], weight.shape[0])
    return _redirected(torch.mm, aten.mm.default, op, output_dtype, args, first=0)


def out_dtype_of_bmm(self: Any, op: Any, output_dtype: torch.dtype, *args: Any) -> Tensor:
    return _redirected(torch.bmm, aten.bmm.default, op, output_dtype, args, first=0)


def out_dtype_of_addmm(self: Any, op: Any, output_dtype: torch.dtype, *args: Any) -> Tensor:
    if op == aten.linear.default and len(args) == 3:
        input, weight, bias = args
        _check_wider(output_dtype, input, weight, added=bias)
        product = torch.addmm(bias, _rows(input), weight.mT, output_dtype)
        return product.reshape(*input.shape[:-1], weight.shape[0])
    return _redirected(torch.addmm, aten.addmm.default, op, output_dtype, args, first=1)


def out_dtype_of_baddbmm(self: Any, op: Any, output_dtype: torch.dtype, *args: Any) -> Tensor:
    return _redirected(torch.baddbmm, aten.baddbmm.default, op, output_dtype, args, first=1)


def out_dtype_of_convolution(self: Any, op: Any, output_dtype: torch.dtype, *args: Any) -> Tensor:
    if op == aten.conv2d.default:
        given = [*args, *(None, (1, 1), (0, 0), (1, 1), 1)[len(args) - 2 :]]
        input, weight, bias, stride, padding, dilation, groups = given
        args = (input, weight, bias, stride, padding, dilation, False, (0, 0), groups)
    elif op != aten.convolution.default:
        raise UnsupportedCallError(f"{op} is not a convolution")
    input, weight, bias, *geometry = args
    _check_wider(output_dtype, input, weight, added=bias)
    if input.dim() != weight.dim():
        raise UnsupportedCallError("the convolution has no batch dimension")
    convolution: Callable[..., Tensor] = products.convolution
    result = convolution(input, weight, *geometry, output_dtype)
    if bias is None:
        return result
    wide_bias: Tensor = bias.to(output_dtype)
    return result + wide_bias.reshape(-1, *[1] * (weight.dim() - 2))


def _redirected(
    target: Callable[..., Tensor],
    caught: Any,
    op: Any,
    dtype: torch.dtype,
    args: tuple[Any, ...],
    *,
    first: int,
) -> Tensor:
    """Call `target` with the same arguments. `args[first:first + 2]` are the factors; an addend may
    precede them."""
    if op != caught or len(args) != first + 2:
        raise UnsupportedCallError(f"{op} is not {caught}")
    _check_wider(dtype, *args[first:], added=args[0] if first else None)
    return target(*args, out_dtype=dtype)


def _rows(tensor: Tensor) -> Tensor:
    """Reshape `[…, K]` to a matrix."""
    if tensor.dim() == 2:
        return tensor
    return tensor.reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1])


def _check_wider(
    dtype: torch.dtype,
    self: Tensor,
    other: Tensor,
    *,
    out: Tensor | None = None,
    added: Tensor | None = None,
) -> None:
    """Leave a call to the stock lowering if its result is not wider than its operands, or if the
    stock lowering would refuse it.

    Args:
        dtype: of the result.
        self, other: the factors.
        out: the tensor that is written to; autograd does not support this.
        added: a further operand, of the dtype of the factors or of the result.

    Raises:
        UnsupportedCallError: with the reason.
    """
    try:
        products.check_dtypes("product", (self, other), dtype)
    except InvalidCallError as error:
        raise UnsupportedCallError(str(error)) from None
    addable = added is None or added.dtype in (self.dtype, dtype)
    if dtype == self.dtype or not addable:
        raise UnsupportedCallError(f"the result, {dtype}, is not wider than {self.dtype}")
    tensors = [t for t in (self, other, out, added) if t is not None]
    if out is not None and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise UnsupportedCallError("autograd does not support writing to `out`")


def _of_dtype(out: Tensor, dtype: torch.dtype) -> Tensor:
    if out.dtype != dtype:
        raise InvalidCallError(
            f"Expected out tensor to have dtype {dtype}, but got {out.dtype} instead"
        )
    return out


def _write(out: Tensor, result: Tensor) -> Tensor:
    resize_out(out, result.shape)
    return out.copy_(result)
