"""Rules of matrix factorizations, of systems of linear equations with factors, of eigenvalues and
singular values, and of the matrix exponential.

`info` is computed from the factors, since JAX does not return it: the position of the first pivot
that is zero or not positive, or 0 if there is no such pivot, as in LAPACK.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lowering.frontends.aten_in_jax.dtypes import opmath_dtype
from lowering.frontends.aten_in_jax.table import NoRuleError, linear_algebra_rule


def _diagonal(x: Any) -> Any:
    """The diagonal of each matrix."""
    return jnp.diagonal(x, 0, -2, -1)


def _row_order(pivots: Any, rows: int) -> Any:
    """The order of the rows after the exchanges that pivots, counted from 1, describe."""
    if not pivots.size:
        return jnp.broadcast_to(jnp.arange(rows), (*pivots.shape[:-1], rows))
    return lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)


def _first(bad: Any) -> Any:
    """The position, counted from 1, of the first element that is true; 0 if none is."""
    if not bad.shape[-1]:
        return jnp.zeros(bad.shape[:-1], jnp.int32)
    return jnp.where(jnp.any(bad, -1), jnp.argmax(bad, -1) + 1, 0)


def _identities(shape: tuple[int, ...], dtype: Any) -> Any:
    return jnp.broadcast_to(jnp.eye(shape[-2], shape[-1], dtype=dtype), shape)


@linear_algebra_rule("aten::linalg_cholesky_ex")
def _cholesky_ex(
    dtypes: Any, /, x: Any, *, upper: bool = False, check_errors: bool = False
) -> tuple[Any, Any]:
    """Read one triangle of the operand. A factor that does not exist has NaN on its diagonal."""
    lower = x.mT.conj() if upper else x
    factor = lax.linalg.cholesky(lower, symmetrize_input=False) if x.size else lower
    info = _first(jnp.isnan(_diagonal(factor)))
    return (factor.mT.conj() if upper else factor), info


@linear_algebra_rule("aten::linalg_lu_factor_ex")
def _lu_factor_ex(
    dtypes: Any, /, x: Any, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Any, Any, Any]:
    if not pivot:
        raise NoRuleError(
            "aten::linalg_lu_factor_ex has a rule in JAX only with pivoting; pass pivot=True"
        )
    if not x.size:
        count = min(x.shape[-2:])
        blank = jnp.broadcast_to(jnp.arange(1, count + 1), (*x.shape[:-2], count))
        return x, blank, jnp.zeros(x.shape[:-2], jnp.int32)
    factors, pivots, _ = lax.linalg.lu(x)
    return factors, pivots + 1, _first(_diagonal(factors) == 0)


@linear_algebra_rule("aten::lu_unpack")
def _lu_unpack(
    dtypes: Any, /, factors: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Any, Any, Any]:
    rows, columns = factors.shape[-2:]
    count = min(rows, columns)
    left = right = order = jnp.zeros(0, factors.dtype)
    if unpack_data:
        left = jnp.tril(factors[..., :count], -1) + jnp.eye(rows, count, dtype=factors.dtype)
        right = jnp.triu(factors[..., :count, :])
    if unpack_pivots:
        permutation = _row_order(pivots, rows)
        order = permutation[..., None, :] == jnp.arange(rows)[:, None]
    return order, left, right


@linear_algebra_rule("aten::linalg_qr")
def _qr(dtypes: Any, /, x: Any, mode: str = "reduced") -> tuple[Any, Any]:
    rows, columns = x.shape[-2:]
    count = rows if mode == "complete" else min(rows, columns)
    if not x.size:
        q = _identities((*x.shape[:-2], rows, count), x.dtype)
        r = jnp.zeros((*x.shape[:-2], count, columns), x.dtype)
    else:
        q, r = lax.linalg.qr(x, full_matrices=mode == "complete")
    return (jnp.zeros(0, x.dtype) if mode == "r" else q), r


@linear_algebra_rule("aten::geqrf")
def _geqrf(dtypes: Any, /, x: Any) -> tuple[Any, Any]:
    raw, scales = jnp.linalg.qr(x, mode="raw")
    return jnp.swapaxes(raw, -1, -2), scales


linear_algebra_rule("aten::linalg_householder_product")(
    lambda dtype, /, *operands: lax.linalg.householder_product(*operands)
)


@linear_algebra_rule("aten::ormqr")
def _ormqr(
    dtype: Any, /, reflectors: Any, scales: Any, other: Any, left: bool = True,
    transpose: bool = False,
) -> Any:  # fmt: skip
    """A product with the whole orthogonal matrix of the reflectors, or its adjoint."""
    rows, count = reflectors.shape[-2], scales.shape[-1]
    widths = [(0, 0)] * (reflectors.ndim - 1) + [(0, rows - count)]
    square = jnp.pad(reflectors[..., :count], widths)
    whole = lax.linalg.householder_product(square, scales)
    whole = whole.mT.conj() if transpose else whole
    return whole @ other if left else other @ whole


@linear_algebra_rule("aten::linalg_solve_triangular")
def _triangular(
    dtype: Any, /, factor: Any, b: Any, *, upper: bool, left: bool = True, transpose: bool = False,
    conjugate: bool = False, unitriangular: bool = False,
) -> Any:  # fmt: skip
    """The solution of a triangular system. Batches are broadcast."""
    batch = jnp.broadcast_shapes(factor.shape[:-2], b.shape[:-2])
    factor = jnp.broadcast_to(factor, (*batch, *factor.shape[-2:]))
    b = jnp.broadcast_to(b, (*batch, *b.shape[-2:]))
    if not b.size:
        return b
    return lax.linalg.triangular_solve(
        factor,
        b,
        left_side=left,
        lower=not upper,
        transpose_a=transpose or conjugate,
        conjugate_a=conjugate,
        unit_diagonal=unitriangular,
    )


@linear_algebra_rule("aten::triangular_solve")
def _triangular_solve(
    dtypes: Any, /, b: Any, factor: Any, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """The solution, and a copy of the factor."""
    solution = _triangular(
        None, factor, b, upper=upper, transpose=transpose, unitriangular=unitriangular
    )
    return solution, jnp.broadcast_to(factor, (*solution.shape[:-2], *factor.shape[-2:]))


@linear_algebra_rule("aten::cholesky_solve")
def _cholesky_solve(dtype: Any, /, b: Any, factor: Any, upper: bool = False) -> Any:
    first = _triangular(None, factor, b, upper=upper, conjugate=upper)
    return _triangular(None, factor, first, upper=upper, conjugate=not upper)


@linear_algebra_rule("aten::cholesky_inverse")
def _cholesky_inverse(dtype: Any, /, factor: Any, upper: bool = False) -> Any:
    return _cholesky_solve(dtype, jnp.eye(factor.shape[-1], dtype=factor.dtype), factor, upper)


@linear_algebra_rule("aten::linalg_lu_solve")
def _lu_solve(
    dtype: Any, /, factors: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False
) -> Any:
    if left:
        return _solved(factors, pivots, b, adjoint)
    return _solved(factors, pivots, b.mT.conj(), not adjoint).mT.conj()


def _solved(factors: Any, pivots: Any, b: Any, transposed: bool) -> Any:
    permutation = _row_order(pivots, factors.shape[-1])
    batch = jnp.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    permutation = jnp.broadcast_to(permutation, (*batch, permutation.shape[-1]))[..., None]
    b = jnp.broadcast_to(b, (*batch, *b.shape[-2:]))
    if transposed:
        first = _triangular(None, factors, b, upper=True, conjugate=True)
        last = _triangular(None, factors, first, upper=False, conjugate=True, unitriangular=True)
        return jnp.take_along_axis(last, jnp.argsort(permutation, -2), -2)
    first = jnp.take_along_axis(b, permutation, -2)
    last = _triangular(None, factors, first, upper=False, unitriangular=True)
    return _triangular(None, factors, last, upper=True)


@linear_algebra_rule("aten::_linalg_eigh")
def _eigh(dtypes: Any, /, x: Any, UPLO: str = "L", compute_v: bool = True) -> tuple[Any, Any]:
    """Read one triangle of the operand. Eigenvalues ascend."""
    vectors, values = lax.linalg.eigh(x, lower=UPLO.upper() == "L", symmetrize_input=False)
    return values, vectors if compute_v else jnp.zeros(0, x.dtype)


@linear_algebra_rule("aten::_linalg_svd")
def _svd(
    dtypes: Any, /, x: Any, full_matrices: bool = False, compute_uv: bool = True, *,
    driver: str | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Singular values descend. `driver` selects a routine of CUDA, and has no effect in JAX."""
    rows, columns = x.shape[-2:]
    count = min(rows, columns)
    batch = x.shape[:-2]
    nothing = jnp.zeros(0, x.dtype)
    if not x.size:
        left = _identities((*batch, rows, rows if full_matrices else count), x.dtype)
        right = _identities((*batch, columns if full_matrices else count, columns), x.dtype)
        values = jnp.zeros((*batch, count), dtypes[1])
        return (left, values, right) if compute_uv else (nothing, values, nothing)
    if not compute_uv:
        return nothing, lax.linalg.svd(x, compute_uv=False), nothing
    return tuple(lax.linalg.svd(x, full_matrices=full_matrices))


@linear_algebra_rule("aten::linalg_matrix_exp")
def _matrix_exponential(dtype: Any, /, x: Any) -> Any:
    return jax.scipy.linalg.expm(x.astype(opmath_dtype(dtype))).astype(dtype)
