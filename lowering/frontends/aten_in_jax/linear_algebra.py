"""Decompositions of linear algebra into factorizations, in PyTorch.

PyTorch's gradients of determinants take the factors of a matrix or of its transpose, depending on
the order of the matrix in memory, which these decompositions check too.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from composites.registry.operators import overload
from lowering.frontends.errors import ValueReadError

_FULL_RANK = "gels"
"""The driver of `torch.linalg.lstsq` that assumes matrices of full rank, as on CUDA."""


def _keeps_transposed_factors() -> bool:
    """Return whether `aten::_linalg_solve_ex` keeps the factors of the transpose, as in torch 2.9.
    In torch 2.14, it keeps the factors of the matrix."""
    matrix = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    factors = overload("aten::_linalg_solve_ex")(matrix, matrix)[1]
    return bool(factors[0, 0] == 2)  # the first pivot is the largest of a row, not of a column


_SOLVES_TRANSPOSED = _keeps_transposed_factors()


def _factors(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The factors of a matrix, or of its transpose, that the gradient of a determinant takes."""
    matrix = A.mT if A.is_contiguous() and not A.is_complex() else A
    factors, pivots, info = torch.linalg.lu_factor_ex(matrix)
    return factors, pivots, info


def _linalg_solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See aten::_linalg_solve_ex: the solution, and the factors for the gradient."""
    transposed = _SOLVES_TRANSPOSED and A.is_contiguous() and not A.is_complex()
    LU, pivots, info = torch.linalg.lu_factor_ex(A.mT if transposed else A)
    is_vector = B.dim() == 1 or (A.dim() - 1 == B.dim() and A.shape[:-1] == B.shape)
    columns = B.unsqueeze(-1) if is_vector else B
    solution = torch.linalg.lu_solve(LU, pivots, columns, left=left, adjoint=transposed)
    return solution.squeeze(-1) if is_vector else solution, LU, pivots, info


def _linalg_inv_ex(A: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    LU, pivots, info = torch.linalg.lu_factor_ex(A)
    identity = torch.eye(A.size(-1), dtype=A.dtype, device=A.device)
    return torch.linalg.lu_solve(LU, pivots, identity.expand_as(A)), info


def _linalg_lu(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    LU, pivots, _ = torch.linalg.lu_factor_ex(A, pivot=pivot)
    return torch.lu_unpack(LU, pivots)


def _sign_of_exchanges(pivots: Tensor) -> Tensor:
    positions = torch.arange(1, pivots.size(-1) + 1, device=pivots.device)
    return 1 - 2 * ((pivots != positions).sum(-1) % 2)


def _linalg_det(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    LU, pivots, _ = _factors(A)
    sign = _sign_of_exchanges(pivots).to(A.dtype)
    return sign * LU.diagonal(0, -2, -1).prod(-1), LU, pivots


def _linalg_slogdet(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    LU, pivots, _ = _factors(A)
    diagonal = LU.diagonal(0, -2, -1)
    sign = _sign_of_exchanges(pivots).to(A.dtype) * diagonal.sgn().prod(-1)
    return sign, diagonal.abs().log().sum(-1), LU, pivots


def _linalg_pinv(
    A: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """See aten::linalg_pinv.atol_rtol_tensor: values up to a tolerance count as zero."""
    if A.numel() == 0:
        return A.new_zeros((*A.shape[:-2], A.size(-1), A.size(-2)))
    if hermitian:
        values, left = torch.linalg.eigh(A)
        right = left.mH
        sizes = values.abs()
    else:
        left, values, right = torch.linalg.svd(A, full_matrices=False)
        sizes = values
    if rtol is None:
        default = max(A.shape[-2:]) * torch.finfo(A.dtype).eps
        rtol = torch.full((), default, dtype=sizes.dtype, device=A.device)
        rtol = rtol if atol is None else torch.where(atol > 0, 0.0, rtol)
    limit = rtol.unsqueeze(-1) * sizes.amax(-1, keepdim=True)
    if atol is not None:
        limit = torch.maximum(atol.unsqueeze(-1).to(limit.dtype), limit)
    inverse = torch.where(sizes > limit, values.reciprocal(), 0.0).to(A.dtype)
    result: Tensor = (right.mH * inverse.unsqueeze(-2)) @ left.mH
    return result


def linalg_lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See aten::linalg_lstsq: the solution, and the residuals if there are more rows than columns.

    Raises:
        ValueReadError: the driver computes the rank, on which sizes of results depend.
    """
    if driver not in (None, _FULL_RANK):
        raise ValueReadError(
            f"torch.linalg.lstsq with driver={driver!r} has results whose sizes depend on values;"
            f" pass driver={_FULL_RANK!r}, which assumes matrices of full rank"
        )
    rows, columns = A.shape[-2:]
    is_vector = B.dim() == 1 or (A.dim() - 1 == B.dim() and A.shape[:-1] == B.shape)
    right = B.unsqueeze(-1) if is_vector else B
    if rows >= columns:
        Q, R = torch.linalg.qr(A)
        solution = torch.linalg.solve_triangular(R, Q.mH @ right, upper=True)
    else:
        Q, R = torch.linalg.qr(A.mH)
        solution = Q @ torch.linalg.solve_triangular(R.mH, right, upper=False)
    real = solution.real if A.is_complex() else solution
    nothing = real.new_empty(0)
    residuals = nothing
    if rows > columns:
        residuals = (right - A @ solution).abs().square().sum(-2)
    rank = nothing.to(torch.int64)
    return solution.squeeze(-1) if is_vector else solution, residuals, rank, nothing


DECOMPOSITIONS: Mapping[object, Callable[..., object]] = {
    overload("aten::_linalg_det"): _linalg_det,
    overload("aten::_linalg_slogdet"): _linalg_slogdet,
    overload("aten::_linalg_solve_ex"): _linalg_solve_ex,
    overload("aten::linalg_inv_ex"): _linalg_inv_ex,
    overload("aten::linalg_lu"): _linalg_lu,
    overload("aten::linalg_pinv.atol_rtol_tensor"): _linalg_pinv,
}
