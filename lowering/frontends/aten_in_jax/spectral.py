"""Rules of eigenvalues and singular values of matrices, and of the matrix exponential."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lowering.frontends.aten_in_jax.table import linear_algebra_rule


def _identities(shape: tuple[int, ...], dtype: Any) -> Any:
    return jnp.broadcast_to(jnp.eye(shape[-2], shape[-1], dtype=dtype), shape)


@linear_algebra_rule("aten::_linalg_eigh")
def _eigh(dtypes: Any, /, x: Any, UPLO: str = "L", compute_v: bool = True) -> tuple[Any, Any]:
    """Read one triangle of the operand. Eigenvalues ascend."""
    if not x.size:
        return jnp.zeros(x.shape[:-1], dtypes[0]), x if compute_v else jnp.zeros(0, x.dtype)
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
def _matrix_exp(dtype: Any, /, x: Any) -> Any:
    return jax.scipy.linalg.expm(x) if x.size else x
