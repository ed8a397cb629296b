"""Rules of operators that solve systems of linear equations with factors."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from lowering.frontends.aten_in_jax.factorizations import row_order
from lowering.frontends.aten_in_jax.table import linear_algebra_rule


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
    permutation = row_order(pivots, factors.shape[-1])
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
