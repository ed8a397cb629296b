"""Cross entropy of logits and classes, alone and with the linear layer before it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, check_shape, same


def cross_entropy_loss(
    logits: Array,
    target: Array,
    weight: Array | None = None,
    *,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> list[Array]:
    """`ptxla.cross_entropy_loss`.

    Args:
        logits: `[N, C]`; f32, bf16 or f16.
        target: `[N]` classes, i64. One that is neither a class nor `ignore_index` is an error of
            the step.
        weight: `[C]`, f32, with logits of f32.

    Returns:
        The loss, and for each row the maximum and the logarithm of its sum of
        exp(logit - maximum), in f32.

    Raises:
        UnsupportedCallError: for probabilities as target, and logits of other ranks.
    """
    _check(logits, target, weight)
    attributes = _attributes(reduction, ignore_index, label_smoothing)
    register("losses")
    row = jax.ShapeDtypeStruct(target.shape, np.float32)
    loss = same(logits, target.shape if reduction == 0 else ())
    call = jax.ffi.ffi_call("cpu_kernels_cross_entropy", (loss, row, row))
    operands = [logits, target] if weight is None else [logits, target, weight]
    return list(call(*operands, **attributes))


def cross_entropy_loss_backward(
    grad_output: Array,
    logits: Array,
    target: Array,
    *saved: Array,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
    output_mask: tuple[bool, ...],
) -> Array:
    """`ptxla.cross_entropy_loss_backward`: the gradient of the logits.

    Args:
        saved: the weights if there are some, and what the forward has kept.

    Raises:
        UnsupportedCallError: as the forward, and where the gradient of the weights is needed too.
    """
    if output_mask != (True, False, False):
        raise UnsupportedCallError("computes the gradient of the logits only")
    attributes = _attributes(reduction, ignore_index, label_smoothing)
    return _of_logits(grad_output, logits, target, *saved, **attributes)


def _of_logits(
    grad_output: Array,
    logits: Array,
    target: Array,
    *saved: Array,
    in_place: bool = False,
    **attributes: np.generic,
) -> Array:
    """The gradient of the logits; written over them if `in_place`, for which nothing else may read
    them."""
    weight = saved[0] if len(saved) == 3 else None
    _check(logits, target, weight)
    check_floats(grad_output, logits)
    check_shape("a gradient", grad_output, target.shape if attributes["reduction"] == 0 else ())
    for name, row in zip(("maxima", "logarithms of sums"), saved[-2:], strict=True):
        check_shape(name, row, target.shape)
        if row.dtype != np.float32:
            raise UnsupportedCallError(f"takes {name} of f32, not of {row.dtype}")
    register("losses")
    call = jax.ffi.ffi_call(
        "cpu_kernels_cross_entropy_backward",
        same(logits),
        input_output_aliases={1: 0} if in_place else None,
    )
    return call(grad_output, logits, target, *saved, **attributes)


def linear_cross_entropy(
    input: Array,
    weight: Array,
    target: Array,
    bias: Array | None = None,
    *,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> tuple[Array, Array, Array]:
    """`ptxla.linear_cross_entropy`: the loss of `linear(input, weight, bias)`.

    Args:
        input: `[…, H]`, f32; `weight`: `[C, H]`; `bias`: `[C]`.
        target: `[…]` classes, i64.

    Returns:
        As `cross_entropy_loss`; what is of a row has the shape of `target`.

    Raises:
        UnsupportedCallError: for other types than f32.
    """
    loss, maxima, log_sums = cross_entropy_loss(
        _logits(input, weight, bias),
        target.reshape(-1),
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )
    loss = loss.reshape(target.shape) if reduction == 0 else loss
    return loss, maxima.reshape(target.shape), log_sums.reshape(target.shape)


def linear_cross_entropy_backward(
    grad_output: Array,
    input: Array,
    weight: Array,
    target: Array,
    *saved: Array,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
    output_mask: tuple[bool, ...],
) -> list[Array]:
    """`ptxla.linear_cross_entropy_backward`: the gradients of input, weight and bias that
    `output_mask` wants. The logits are computed once more.

    Args:
        saved: the bias if there is one, and what the forward has kept.

    Raises:
        UnsupportedCallError: as the forward.
    """
    bias = saved[0] if len(saved) == 3 else None
    maxima, log_sums = saved[-2:]
    gradient = _of_logits(
        grad_output.reshape(-1) if reduction == 0 else grad_output,
        _logits(input, weight, bias),
        target.reshape(-1),
        maxima.reshape(-1),
        log_sums.reshape(-1),
        in_place=True,
        **_attributes(reduction, ignore_index, label_smoothing),
    )
    gradients = []
    of_input, of_weight, _, of_bias = output_mask
    if of_input:
        gradients.append((gradient @ weight).reshape(input.shape))
    if of_weight:
        gradients.append(gradient.T @ input.reshape(-1, input.shape[-1]))
    if of_bias:
        gradients.append(gradient.sum(0))
    return gradients


def _logits(input: Array, weight: Array, bias: Array | None) -> Array:
    operands = [input, weight] if bias is None else [input, weight, bias]
    if any(operand.dtype != np.float32 for operand in operands):
        raise UnsupportedCallError("takes f32")
    logits = jnp.matmul(input.reshape(-1, input.shape[-1]), weight.T)
    return logits if bias is None else logits + bias


def _check(logits: Array, target: Array, weight: Array | None) -> None:
    check_floats(logits)
    if logits.ndim != 2 or target.ndim != 1 or target.dtype != np.int64:
        raise UnsupportedCallError("takes logits of two dimensions, and classes")
    if 0 in logits.shape:
        raise UnsupportedCallError("takes at least one logit")
    check_shape("classes", target, logits.shape[:1])
    if weight is None:
        return
    check_shape("weights", weight, logits.shape[1:])
    if weight.dtype != np.float32:
        raise UnsupportedCallError("takes weights of f32")


def _attributes(reduction: int, ignore_index: int, label_smoothing: float) -> dict[str, np.generic]:
    if reduction not in (0, 1, 2):
        raise UnsupportedCallError(f"takes a reduction of 0, 1 or 2, not {reduction}")
    if not 0 <= label_smoothing <= 1:
        raise UnsupportedCallError(f"takes a label_smoothing from 0 to 1, not {label_smoothing:g}")
    return {
        "reduction": np.int64(reduction),
        "ignore_index": np.int64(ignore_index),
        "label_smoothing": np.float32(label_smoothing),
    }
