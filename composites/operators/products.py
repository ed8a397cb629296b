"""Matmuls with a wider result type than their operands. Each is one `dot_general`."""

import torch
from torch import Tensor

from composites.errors import InvalidCallError
from composites.operators.wide_products import check_dtypes, matmul


def mm(self: Tensor, mat2: Tensor, out_dtype: torch.dtype) -> Tensor:
    """`self @ mat2` in `out_dtype`.

    Args:
        self: `[M, K]`, bf16, f16, f32 or integer.
        mat2: `[K, N]`, of the same dtype.
        out_dtype: of the same kind (float or integer), and as wide or wider.

    Returns:
        `[M, N]` of dtype `out_dtype`.

    Raises:
        InvalidCallError: shapes or dtypes do not match.
    """
    return _product("mm", 2, ("self", self), ("mat2", mat2), out_dtype)


def bmm(self: Tensor, mat2: Tensor, out_dtype: torch.dtype) -> Tensor:
    """Batched `mm`, of `[B, M, K]` and `[B, K, N]`."""
    return _product("bmm", 3, ("self", self), ("mat2", mat2), out_dtype)


def addmm(
    self: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    out_dtype: torch.dtype,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> Tensor:
    """`beta * self + alpha * (mat1 @ mat2)` in `out_dtype`. `self` is not read if beta is 0.

    Args:
        self: broadcast to `[M, N]`; of the dtype of the matrices, or of `out_dtype`.
        mat1, mat2: as for `mm`.

    Returns:
        `[M, N]` of dtype `out_dtype`.

    Raises:
        InvalidCallError: shapes or dtypes do not match.
    """
    product = _product("addmm", 2, ("mat1", mat1), ("mat2", mat2), out_dtype)
    return _added("addmm", self, product, mat1.dtype, beta, alpha)


def baddbmm(
    self: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    out_dtype: torch.dtype,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> Tensor:
    """Batched `addmm`, of `[B, M, K]` and `[B, K, N]`."""
    product = _product("baddbmm", 3, ("batch1", batch1), ("batch2", batch2), out_dtype)
    return _added("baddbmm", self, product, batch1.dtype, beta, alpha)


def _product(
    operator: str,
    rank: int,
    left: tuple[str, Tensor],
    right: tuple[str, Tensor],
    out_dtype: torch.dtype,
) -> Tensor:
    for name, tensor in (left, right):
        if tensor.dim() != rank:
            raise InvalidCallError(
                f"{operator}: {name} must be a {rank}-D tensor, got {tensor.dim()}-D"
            )
    (_, a), (_, b) = left, right
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise InvalidCallError(
            f"{operator}: shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied"
        )
    check_dtypes(operator, a, b, out_dtype)
    return matmul(a, b, out_dtype)


def _added(
    operator: str, self: Tensor, product: Tensor, dtype: torch.dtype, beta: float, alpha: float
) -> Tensor:
    if self.dtype not in (dtype, product.dtype):
        raise InvalidCallError(
            f"{operator}: self must be of the matrices' dtype {dtype} or of out_dtype"
            f" {product.dtype}, but got {self.dtype}"
        )
    try:
        addend = self.expand(product.shape)
    except RuntimeError as error:
        raise InvalidCallError(f"{operator}: {error}") from None
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    wide = addend.to(product.dtype)
    return (wide if beta == 1 else wide * beta) + scaled
