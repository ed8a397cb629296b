"""Rules of matrix factorizations.

`info` is computed from the factors, since JAX does not return it: the position of the first pivot
that is zero or not positive, or 0 if there is no such pivot, as in LAPACK.
"""

from typing import Any

import jax.numpy as jnp
from jax import lax

from lowering.frontends.aten_in_jax.table import NoRuleError, linear_algebra_rule


def diagonal(x: Any) -> Any:
    """The diagonal of each matrix."""
    return jnp.diagonal(x, 0, -2, -1)


def row_order(pivots: Any, rows: int) -> Any:
    """The order of the rows after the exchanges that pivots, counted from 1, describe."""
    if not pivots.size:
        return jnp.broadcast_to(jnp.arange(rows), (*pivots.shape[:-1], rows))
    return lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)


def _first(bad: Any) -> Any:
    """The position, counted from 1, of the first element that is true; 0 if none is."""
    if not bad.shape[-1]:
        return jnp.zeros(bad.shape[:-1], jnp.int32)
    return jnp.where(jnp.any(bad, -1), jnp.argmax(bad, -1) + 1, 0)


@linear_algebra_rule("aten::linalg_cholesky_ex")
def _cholesky_ex(
    dtypes: Any, /, x: Any, *, upper: bool = False, check_errors: bool = False
) -> tuple[Any, Any]:
    """Read one triangle of the operand. A factor that does not exist has NaN on its diagonal."""
    lower = x.mT.conj() if upper else x
    factor = lax.linalg.cholesky(lower, symmetrize_input=False) if x.size else lower
    info = _first(jnp.isnan(diagonal(factor)))
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
    return factors, pivots + 1, _first(diagonal(factors) == 0)


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
        permutation = row_order(pivots, rows)
        order = permutation[..., None, :] == jnp.arange(rows)[:, None]
    return order, left, right


@linear_algebra_rule("aten::linalg_qr")
def _qr(dtypes: Any, /, x: Any, mode: str = "reduced") -> tuple[Any, Any]:
    rows, columns = x.shape[-2:]
    count = rows if mode == "complete" else min(rows, columns)
    if not x.size:
        q = jnp.broadcast_to(jnp.eye(rows, count, dtype=x.dtype), (*x.shape[:-2], rows, count))
        r = jnp.zeros((*x.shape[:-2], count, columns), x.dtype)
    else:
        q, r = lax.linalg.qr(x, full_matrices=mode == "complete")
    return (jnp.zeros(0, x.dtype) if mode == "r" else q), r


@linear_algebra_rule("aten::geqrf")
def _geqrf(dtypes: Any, /, x: Any) -> tuple[Any, Any]:
    if not x.size:
        return x, jnp.zeros((*x.shape[:-2], min(x.shape[-2:])), x.dtype)
    raw, scales = jnp.linalg.qr(x, mode="raw")
    return jnp.swapaxes(raw, -1, -2), scales


@linear_algebra_rule("aten::linalg_householder_product")
def _householder_product(dtype: Any, /, reflectors: Any, scales: Any) -> Any:
    if not reflectors.size:
        return reflectors
    return lax.linalg.householder_product(reflectors, scales)


@linear_algebra_rule("aten::ormqr")
def _ormqr(
    dtype: Any, /, reflectors: Any, scales: Any, other: Any, left: bool = True,
    transpose: bool = False,
) -> Any:  # fmt: skip
    """A product with the whole orthogonal matrix of the reflectors, or its adjoint."""
    if not other.size:
        return other
    rows, count = reflectors.shape[-2], scales.shape[-1]
    widths = [(0, 0)] * (reflectors.ndim - 1) + [(0, rows - count)]
    square = jnp.pad(reflectors[..., :count], widths)
    whole = lax.linalg.householder_product(square, scales)
    whole = whole.mT.conj() if transpose else whole
    return whole @ other if left else other @ whole
