"""Rules of products of matrices. Floats are multiplied in the operands' type, and summed in at
least f32, as XLA does for PyTorch programs."""

import string
from typing import Any

import jax
import jax.numpy as jnp

from composites.operators import wide_products  # noqa: F401  (it defines composites::matmul)
from lowering.frontends.aten_in_jax.dtypes import opmath_dtype
from lowering.frontends.aten_in_jax.elementwise import as_type
from lowering.frontends.aten_in_jax.table import rule, rule_of_package, rule_without_dtype

rule_without_dtype(jnp.matmul, "aten::mm", "aten::bmm", "aten::matmul", "aten::mv", "aten::dot")


@rule("aten::mm.dtype", "aten::bmm.dtype", "aten::_int_mm", "composites::matmul")
def _wide_product(dtype: Any, /, a: Any, b: Any, out_dtype: Any = None) -> Any:
    return jnp.matmul(a, b, preferred_element_type=dtype)


def _added(dtype: Any, addend: Any, product: Any, beta: Any, alpha: Any) -> Any:
    scaled = product if alpha == 1 else product * as_type(alpha, dtype)
    if beta == 0:
        return scaled
    return scaled + (addend if beta == 1 else addend * as_type(beta, dtype))


@rule("aten::addmm", "aten::baddbmm", "aten::addmv")
def _addmm(dtype: Any, /, addend: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    if alpha == 1 and beta in (0, 1):
        return _added(dtype, addend, jnp.matmul(a, b), beta, alpha)
    wide = opmath_dtype(dtype)  # as in PyTorch, the sum is rounded once
    product = jnp.matmul(a, b, preferred_element_type=wide)
    return _added(wide, as_type(addend, wide), product, beta, alpha).astype(dtype)


@rule("aten::addmm.dtype", "aten::baddbmm.dtype")
def _wide_addmm(
    dtype: Any, /, addend: Any, a: Any, b: Any, out_dtype: Any, beta: Any = 1, alpha: Any = 1
) -> Any:
    product = jnp.matmul(a, b, preferred_element_type=dtype)
    return _added(dtype, as_type(addend, dtype), product, beta, alpha)


@rule("aten::_grouped_mm")
def _grouped_product(
    dtype: Any, /, a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Products of groups of rows (`a`), of columns (`b`), or of the summed dimension (both). `offs`
    has the end of each group."""
    product: dict[str, Any] = {"preferred_element_type": dtype}
    if offs is None:
        return jnp.matmul(a, b, **product)
    if (a.ndim, b.ndim) == (2, 3):
        return jax.lax.ragged_dot(a, b, jnp.diff(offs, prepend=0), **product)
    if (a.ndim, b.ndim) == (2, 2):
        groups = _groups(offs, a.shape[1])  # NaN of one group must not reach others
        a, b = jnp.where(groups[:, None], a, 0), jnp.where(groups[..., None], b, 0)
        return jnp.matmul(a, b, **product)
    columns = _groups(offs, b.shape[1])[:, None]
    return jnp.where(columns, jnp.matmul(a, b, **product), 0).sum(0, dtype=dtype)


def _groups(ends: Any, size: int) -> Any:
    """For each group, a mask of its positions. A group begins at the end of the group before it."""
    positions = jnp.arange(size, dtype=ends.dtype)
    starts = jnp.concatenate([jnp.zeros_like(ends[:1]), ends[:-1]])
    return (starts[:, None] <= positions) & (positions < ends[:, None])


# Rows that are sorted by experts, by the matrix of each expert (transformers 5.23).
rule_of_package("transformers::grouped_mm_fallback")(_grouped_product)


@rule_of_package("transformers::grouped_mm_fallback_backward")
def _gradients_of_experts(
    dtypes: Any, /, rows: Any, weights: Any, ends: Any, gradient: Any
) -> tuple[Any, Any]:
    """The gradients of `rows` and `weights`."""
    rows_dtype, weights_dtype = dtypes
    return (
        _grouped_product(rows_dtype, gradient, weights.swapaxes(1, 2), ends),
        _grouped_product(weights_dtype, rows.T, gradient, ends),
    )


@rule("aten::_trilinear")
def _trilinear(dtype: Any, /, a: Any, b: Any, c: Any, *expanded_and_summed: Any) -> Any:
    """The sum of products of three arrays, as in `torch.nn.Bilinear`. Further arguments list the
    dimensions of the product that each array lacks, and the dimensions that are summed."""
    *expanded, summed = expanded_and_summed[:4]
    arrays = (a, b, c)
    rank = a.ndim + len(expanded[0])
    letters = string.ascii_letters[:rank]
    has = ["".join(x for n, x in enumerate(letters) if n not in lacks) for lacks in expanded]
    kept = "".join(x for n, x in enumerate(letters) if n not in summed)
    return jnp.einsum(f"{','.join(has)}->{kept}", *arrays)
