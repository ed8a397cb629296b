"""Rules of products of matrices. Operands of a float type are multiplied in it, and summed in at
least f32, as XLA does for PyTorch programs."""

from __future__ import annotations

import string
from typing import Any

import jax.numpy as jnp

from composites.operators import wide_products  # noqa: F401  (it defines composites::matmul)
from lowering.frontends.aten_in_jax.elementwise import as_type
from lowering.frontends.aten_in_jax.table import rule, rule_without_dtype

rule_without_dtype(jnp.matmul, "aten::mm", "aten::bmm", "aten::matmul", "aten::mv", "aten::dot")


@rule("aten::mm.dtype", "aten::bmm.dtype", "composites::matmul")
def _wide_product(dtype: Any, /, a: Any, b: Any, out_dtype: Any) -> Any:
    return jnp.matmul(a, b, preferred_element_type=dtype)


def _added(dtype: Any, addend: Any, product: Any, beta: Any, alpha: Any) -> Any:
    scaled = product if alpha == 1 else product * as_type(alpha, dtype)
    if beta == 0:
        return scaled
    return scaled + (addend if beta == 1 else addend * as_type(beta, dtype))


@rule("aten::addmm", "aten::baddbmm", "aten::addmv")
def _addmm(dtype: Any, /, addend: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _added(dtype, addend, jnp.matmul(a, b), beta, alpha)


@rule("aten::addmm.dtype", "aten::baddbmm.dtype")
def _wide_addmm(
    dtype: Any, /, addend: Any, a: Any, b: Any, out_dtype: Any, beta: Any = 1, alpha: Any = 1
) -> Any:
    product = jnp.matmul(a, b, preferred_element_type=dtype)
    return _added(dtype, as_type(addend, dtype), product, beta, alpha)


@rule("aten::_trilinear")
def _trilinear(dtype: Any, /, one: Any, two: Any, three: Any, *expanded_and_summed: Any) -> Any:
    """The sum of products of three arrays, as of `torch.nn.Bilinear`. What follows lists the
    dimensions of the product that each array lacks, and those that are summed."""
    *expanded, summed = expanded_and_summed[:4]
    arrays = (one, two, three)
    rank = one.ndim + len(expanded[0])
    letters = string.ascii_letters[:rank]
    has = ["".join(x for n, x in enumerate(letters) if n not in lacks) for lacks in expanded]
    kept = "".join(x for n, x in enumerate(letters) if n not in summed)
    return jnp.einsum(f"{','.join(has)}->{kept}", *arrays)
