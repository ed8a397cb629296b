"""Attention by cuDNN's flash kernels.

`jax.nn.dot_product_attention(implementation="cudnn")` does not fit the composites: it rounds the
logarithms of sums to the type of query, it cannot compute a gradient from saved results, and it
asks for a GPU when it is lowered. So this calls XLA's targets for cuDNN itself, with what jax 0.7.1
to 0.12 writes for them: tests compare both. XLA keeps this form (custom calls of version 2) without
promising to.
"""

from __future__ import annotations

import json
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from composites import UnsupportedCallError
from gpu_kernels.types import check_attention, check_floats

_TYPES = (jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float16))
_NAMES = {jnp.dtype(jnp.bfloat16): "BF16", jnp.dtype(jnp.float16): "F16"}
_LARGEST_HEAD = 128
_BY_HEADS = (0, 2, 1, 3)
"""A layout: `[N, H, L, E]` that lies in memory as `[N, L, H, E]`. Models make heads of such
tensors, so that nothing is moved."""


def attention(
    query: Array,
    key: Array,
    value: Array,
    *mask: Array,
    dropout_p: float,
    is_causal: bool,
    enable_gqa: bool,
    scale: float | None = None,
) -> list[Array]:
    """`ptxla.scaled_dot_product_attention`.

    Args:
        query: `[…, Hq, L, E]`; bf16 or f16.
        key, value: `[…, H, S, E]`; H divides Hq if `enable_gqa`, and otherwise is Hq.

    Returns:
        `[…, Hq, L, E]`, and the logarithms of the sums of exponentials, `[…, Hq, L]`, f32.

    Raises:
        UnsupportedCallError: for dropout, masks, other types and sizes of heads, and causal
            attention with other than as many queries as keys.
    """
    if mask:
        raise UnsupportedCallError("takes no mask, of which a row may leave no key")
    _check(query, key, value, dropout_p, is_causal, enable_gqa)
    q, k, v = map(_rows_first, (query, key, value))
    batch, length, heads, _ = q.shape
    result, sums, _ = _call(
        "__cudnn$fmhaSoftmax",
        [_heads_first(q), jax.ShapeDtypeStruct((batch, heads, length), jnp.float32)],
        [q, k, v],
        _settings(q, k, is_causal, scale) | _PRODUCTS,
    )
    return [result.reshape(query.shape), sums.reshape(query.shape[:-1])]


def attention_backward(
    grad_output: Array,
    query: Array,
    key: Array,
    value: Array,
    *saved: Array,
    dropout_p: float,
    is_causal: bool,
    enable_gqa: bool,
    output_mask: tuple[bool, ...],
    scale: float | None = None,
) -> list[Array]:
    """`ptxla.scaled_dot_product_attention_backward`: the gradients of query, key and value.

    Args:
        grad_output: `[…, Hq, L, E]`.
        saved: the forward's two results.

    Raises:
        UnsupportedCallError: as the forward, and where other gradients are needed.
    """
    if len(saved) != 2:
        raise UnsupportedCallError("takes no mask, of which a row may leave no key")
    if output_mask != (True, True, True, False):
        raise UnsupportedCallError("computes the gradients of query, key and value")
    result, sums = saved
    check_floats(grad_output, query, result, types=_TYPES)
    _check(query, key, value, dropout_p, is_causal, enable_gqa)
    q, k, v, outcome, grad = map(_rows_first, (query, key, value, result, grad_output))
    batch, length, heads, _ = q.shape
    *gradients, _ = _call(
        "__cudnn$fmhaSoftmaxBackward",
        [_heads_first(q), _heads_first(k), _heads_first(v)],
        [q, k, v, sums.reshape(batch, heads, length), grad, outcome],
        _settings(q, k, is_causal, scale) | _PRODUCTS_BACKWARD,
    )
    operands = (query, key, value)
    return [each.reshape(operand.shape) for each, operand in zip(gradients, operands, strict=True)]


def _check(
    query: Array, key: Array, value: Array, dropout_p: float, is_causal: bool, enable_gqa: bool
) -> None:
    check_attention(query, key, value, dropout_p, enable_gqa, _TYPES)
    size = query.shape[-1]
    if size % 8 or size > _LARGEST_HEAD:
        raise UnsupportedCallError(
            f"takes heads of a multiple of 8 numbers, at most {_LARGEST_HEAD}, not {size}"
        )
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise UnsupportedCallError("takes causal attention of as many queries as keys")


def _rows_first(x: Array) -> Array:
    """`[N, L, H, E]` of `[…, H, L, E]`."""
    return jnp.swapaxes(x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:]), 1, 2)


def _heads_first(x: Array) -> jax.ShapeDtypeStruct:
    batch, length, heads, size = x.shape
    return jax.ShapeDtypeStruct((batch, heads, length, size), x.dtype)


def _call(
    target: str, results: list[Any], operands: list[Array], settings: dict[str, Any]
) -> list[Array]:
    """Call cuDNN. The last result is memory that XLA lends it."""
    workspace = jax.ShapeDtypeStruct((0,), jnp.uint8)
    layouts = [_BY_HEADS if len(each.shape) == 4 else None for each in results]
    function = jax.ffi.ffi_call(
        target,
        [*results, workspace],
        output_layouts=[*layouts, None],
        custom_call_api_version=2,
        legacy_backend_config=json.dumps(
            {"operation_queue_id": "0", "cudnn_fmha_backend_config": settings}
        ),
    )
    return list(function(*operands))


# ---- settings: XLA's CudnnfMHABackendConfig, of xla/service/gpu/backend_configs.proto ----


def _settings(q: Array, k: Array, is_causal: bool, scale: float | None) -> dict[str, Any]:
    """Block sizes of forward and backward."""
    batch, queries, heads, size = q.shape
    layout = {
        "dim_level_types": [],
        "dim_unique": [],
        "dim_ordered": [],
        "minor_to_major": ["3", "2", "1", "0"],
        "tiles": [],
        "element_size_in_bits": "0",
        "memory_space": "0",
        "index_primitive_type": "PRIMITIVE_TYPE_INVALID",
        "pointer_primitive_type": "PRIMITIVE_TYPE_INVALID",
        "dynamic_shape_metadata_prefix_bytes": "0",
    }
    return {
        "algorithm": {
            "algo_id": "0",
            "math_type": "TENSOR_OP_MATH",
            "tuning_knobs": {"17": "1", "24": "0"},
            "is_cudnn_frontend": True,
            "workspace_size": "0",
        },
        "fmha_scale": 1 / math.sqrt(size) if scale is None else scale,
        "intermediate_tensor_shape": {
            "element_type": _NAMES[q.dtype],
            "dimensions": [str(n) for n in (batch, heads, queries, k.shape[1])],
            "tuple_shapes": [],
            "layout": layout,
            "is_dynamic_dimension": [False] * 4,
        },
        "is_flash_attention": True,
        "mask_type": "CAUSAL" if is_causal else "NO_MASK",
        "dropout_rate": 0.0,
        "seed": 42,
        "sliding_window_length": 0,
        "max_seg_per_batch": 1,
        "is_paged_attention": False,
    }


def _product(
    contracted: tuple[int, int], batch: tuple[tuple[int, int], tuple[int, int]]
) -> dict[str, list[str]]:
    """Dimensions of a product of two operands."""
    left, right = batch
    return {
        "lhs_contracting_dimensions": [str(contracted[0])],
        "rhs_contracting_dimensions": [str(contracted[1])],
        "lhs_batch_dimensions": [str(n) for n in left],
        "rhs_batch_dimensions": [str(n) for n in right],
    }


_ROWS, _SCORES = (0, 2), (0, 1)
"""Dimensions of batch and heads: of `[N, L, H, E]`, and of scores `[N, H, L, S]`."""
_PRODUCTS = {
    "bmm1_dot_dimension_numbers": _product((3, 3), (_ROWS, _ROWS)),
    "bmm2_dot_dimension_numbers": _product((3, 1), (_SCORES, _ROWS)),
}
_PRODUCTS_BACKWARD = {
    "bmm1_grad_gemm1_dot_dimension_numbers": _product((2, 1), (_SCORES, _ROWS)),
    "bmm1_grad_gemm2_dot_dimension_numbers": _product((3, 1), (_SCORES, _ROWS)),
    "bmm2_grad_gemm1_dot_dimension_numbers": _product((2, 1), (_SCORES, _ROWS)),
    "bmm2_grad_gemm2_dot_dimension_numbers": _product((3, 3), (_ROWS, _ROWS)),
}
