"""Other ways to request a matmul with a wider result type: `out=`, in place, `out_dtype`.

Each is rewritten to the overload with `out_dtype`, which PyTorch provides for this purpose.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from composites.errors import InvalidCallError, UnsupportedCallError
from composites.operators import wide_products as products
from composites.torch_internals import resize_out

aten = torch.ops.aten
Product = Callable[..., Tensor]


def int_mm(self: Tensor, mat2: Tensor) -> Tensor:
    """`aten::_int_mm`, which torch_xla computes on the CPU."""
    if self.dtype != mat2.dtype:
        raise UnsupportedCallError("the operands have different dtypes")
    return torch.mm(self, mat2, out_dtype=torch.int32)


# out=


def _with_out(product: Product) -> Product:
    """Make a product with `out=`, whose dtype is the `out_dtype`."""

    def write(*operands: Tensor, out: Tensor, **factors: float) -> Tensor:
        _check_wider(out.dtype, *operands, out=out)
        return _write(out, product(*operands, out_dtype=out.dtype, **factors))

    return write


mm_out = _with_out(torch.mm)
bmm_out = _with_out(torch.bmm)
addmm_out = _with_out(torch.addmm)
baddbmm_out = _with_out(torch.baddbmm)


def matmul_out_as_mm(self: Tensor, other: Tensor, *, out: Tensor) -> Tensor:
    """Rewrite `torch.matmul(out=)` if `other` has no batch: it is a vector or a matrix."""
    _check_wider(out.dtype, self, other, out=out)
    if other.dim() not in (1, 2) or self.dim() == 0:
        raise UnsupportedCallError("an operand is a scalar, or the second one has a batch")
    columns = other.unsqueeze(-1) if other.dim() == 1 else other
    product = torch.mm(_rows(self), columns, out_dtype=out.dtype)
    return _write(out, product.reshape((*self.shape[:-1], *other.shape[1:])))


def matmul_out_as_bmm(self: Tensor, other: Tensor, *, out: Tensor) -> Tensor:
    """Rewrite `torch.matmul(out=)` if `other` has a batch, with broadcasting."""
    _check_wider(out.dtype, self, other, out=out)
    if other.dim() < 3 or self.dim() == 0:
        raise UnsupportedCallError("an operand is a scalar, or the second one has no batch")
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


def _with_dtype_and_out(product: Product) -> Product:
    """Make a product with `out_dtype` and `out=`, which must have this dtype."""

    def write(*arguments: Any, out: Tensor, **factors: float) -> Tensor:
        *operands, out_dtype = arguments
        result = product(*operands, out_dtype=out_dtype, **factors)
        if out.dtype != out_dtype:
            raise InvalidCallError(
                f"Expected out tensor to have dtype {out_dtype}, but got {out.dtype} instead"
            )
        return _write(out, result)

    return write


mm_dtype_out = _with_dtype_and_out(torch.mm)
bmm_dtype_out = _with_dtype_and_out(torch.bmm)
addmm_dtype_out = _with_dtype_and_out(torch.addmm)
baddbmm_dtype_out = _with_dtype_and_out(torch.baddbmm)


# In place


def _in_place(product: Product) -> Product:
    """Make a product that is added to a tensor of its dtype in place."""

    def add(self: Tensor, left: Tensor, right: Tensor, **factors: float) -> Tensor:
        _check_wider(self.dtype, left, right, out=self)
        return self.copy_(product(self, left, right, out_dtype=self.dtype, **factors))

    return add


addmm_ = _in_place(torch.addmm)
baddbmm_ = _in_place(torch.baddbmm)


# Calls of addmm that only accumulate. These rewrites are used if the entry addmm itself is off.


def _accumulation(rewrite: Product) -> Product:
    """Restrict a rewrite to calls that add a product to a tensor of its shape and dtype."""

    def accumulate(
        self: Tensor,
        mat1: Tensor,
        mat2: Tensor,
        *out_dtype: torch.dtype,
        beta: float = 1,
        alpha: float = 1,
        **out: Tensor,
    ) -> Tensor:
        shape = (mat1.shape[0], mat2.shape[-1])
        dtypes = {*out_dtype} or {tensor.dtype for tensor in out.values()} or {self.dtype}
        if self.shape != shape or beta != 1 or alpha != 1 or dtypes != {self.dtype}:
            raise UnsupportedCallError("self is scaled, or not of the product's shape and dtype")
        return rewrite(self, mat1, mat2, *out_dtype, **out)

    return accumulate


accumulate_ = _accumulation(addmm_)
accumulate_out = _accumulation(addmm_out)
accumulate_dtype_out = _accumulation(addmm_dtype_out)


# The higher-order operator `torch.ops.higher_order.out_dtype(aten.mm.default, dtype, a, b)`. The
# call is caught before this operator checks its own list of operators, which lacks bmm and addmm.


def _out_dtype(product: Product, caught: Any, count: int, *, linear: bool = False) -> Product:
    """Rewrite the operator for a product of `count` operands, and for `linear` with as many."""

    def redirect(self: Any, op: Any, output_dtype: torch.dtype, *args: Any) -> Tensor:
        is_linear = linear and op == aten.linear.default
        if len(args) != count or not (is_linear or op == caught):
            raise UnsupportedCallError(f"{op} is not {caught}")
        if not is_linear:
            _check_wider(output_dtype, *args)
            return product(*args, out_dtype=output_dtype)
        input, weight, *bias = args
        _check_wider(output_dtype, *bias, input, weight)
        result = product(*bias, _rows(input), weight.mT, out_dtype=output_dtype)
        return result.reshape(*input.shape[:-1], weight.shape[0])

    return redirect


out_dtype_of_mm = _out_dtype(torch.mm, aten.mm.default, 2, linear=True)
out_dtype_of_bmm = _out_dtype(torch.bmm, aten.bmm.default, 2)
out_dtype_of_addmm = _out_dtype(torch.addmm, aten.addmm.default, 3, linear=True)
out_dtype_of_baddbmm = _out_dtype(torch.baddbmm, aten.baddbmm.default, 3)


def out_dtype_of_convolution(self: Any, op: Any, output_dtype: torch.dtype, *args: Any) -> Tensor:
    if op == aten.conv2d.default:
        arguments = [*args, *(None, (1, 1), (0, 0), (1, 1), 1)[len(args) - 2 :]]
        input, weight, bias, stride, padding, dilation, groups = arguments
        args = (input, weight, bias, stride, padding, dilation, False, (0, 0), groups)
    elif op != aten.convolution.default:
        raise UnsupportedCallError(f"{op} is not a convolution")
    input, weight, bias, *geometry = args
    _check_wider(output_dtype, *(() if bias is None else (bias,)), input, weight)
    if input.dim() != weight.dim():
        raise UnsupportedCallError("the convolution has no batch dimension")
    convolution: Callable[..., Tensor] = products.convolution
    result = convolution(input, weight, *geometry, output_dtype)
    if bias is None:
        return result
    wide_bias: Tensor = bias.to(output_dtype)
    return result + wide_bias.reshape(-1, *[1] * (weight.dim() - 2))


def _rows(tensor: Tensor) -> Tensor:
    """Reshape `[…, K]` to a matrix."""
    if tensor.dim() == 2:
        return tensor
    return tensor.reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1])


def _check_wider(dtype: torch.dtype, *operands: Tensor, out: Tensor | None = None) -> None:
    """Leave a call to the stock lowering if its result has no wider type than its operands, or if
    the stock lowering would reject the call.

    Args:
        dtype: the dtype of the result.
        operands: an optional addend, with the dtype of the factors or of the result, and the
            factors.
        out: the tensor that is written to, which autograd does not support.

    Raises:
        UnsupportedCallError: with the reason.
    """
    *added, self, other = operands
    try:
        products.check_dtypes("product", self, other, dtype)
    except InvalidCallError as error:
        raise UnsupportedCallError(str(error)) from None
    if dtype == self.dtype or any(t.dtype not in (self.dtype, dtype) for t in added):
        raise UnsupportedCallError(f"the result, {dtype}, is not wider than {self.dtype}")
    if out is None or not torch.is_grad_enabled():
        return
    if any(tensor.requires_grad for tensor in (*operands, out)):
        raise UnsupportedCallError("autograd does not support writing to `out`")


def _write(out: Tensor, result: Tensor) -> Tensor:
    resize_out(out, result.shape)
    return out.copy_(result)
