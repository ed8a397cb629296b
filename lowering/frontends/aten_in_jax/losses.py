"""Rules of losses whose forward has a result that only the backward takes.

This result differs between PyTorch's devices, and some decompositions of PyTorch read it. These
rules return torch_xla's result, and no backward reads it: a kernel of the forward or the backward
then works with a decomposition of the other, in programs of all frontends.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from composites.operators.aten_enums import MEAN, NO_REDUCTION
from lowering.frontends.aten_in_jax.dtypes import opmath_dtype
from lowering.frontends.aten_in_jax.table import rule, rule_of_package


@rule("aten::log_sigmoid_forward")
def _log_sigmoid(dtypes: Any, /, x: Any) -> tuple[Any, Any]:
    """The result, and the denominator of the sigmoid, `1 + exp(-|x|)`."""
    x = _wide(x)
    exponential = jnp.exp(-jnp.abs(x))
    return jnp.minimum(x, 0) - jnp.log1p(exponential), 1 + exponential


@rule("aten::log_sigmoid_backward")
def _log_sigmoid_backward(dtype: Any, /, grad: Any, x: Any, _: Any) -> Any:
    x = _wide(x)
    exponential = jnp.exp(-jnp.abs(x))
    return grad * jnp.where(x < 0, 1, exponential) / (1 + exponential)


@rule("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def _nll_loss(
    dtypes: Any, /, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int
) -> tuple[Any, Any]:
    """The loss, and 1 in place of the sum of the weights."""
    axis = _classes(x)
    weights = _weights(x, target, weight, ignore_index)
    label = jnp.expand_dims(jnp.where(target == ignore_index, 0, target), axis)
    taken = jnp.take_along_axis(x, label, axis, mode="clip").squeeze(axis)
    # The input of an ignored target may be infinite.
    losses = jnp.where(target == ignore_index, 0, -weights * taken)
    if reduction != NO_REDUCTION:
        losses = losses.sum()
    if reduction == MEAN:
        losses = losses / weights.sum()
    return losses, jnp.ones((), dtypes[1])


@rule("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def _nll_loss_backward(
    dtype: Any, /, grad: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
    _: Any,
) -> Any:  # fmt: skip
    axis = _classes(x)
    weights = _weights(x, target, weight, ignore_index)
    gradients = -weights * grad
    if reduction == MEAN:
        gradients = gradients / weights.sum()
    classes = lax.broadcasted_iota(target.dtype, x.shape, axis)
    is_label = (classes == jnp.expand_dims(target, axis)) & (classes != ignore_index)
    return jnp.where(is_label, jnp.expand_dims(gradients, axis), 0)


@rule_of_package("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction")
def _row_losses(
    dtype: Any, /, x: Any, weight: Any, target: Any, bias: Any, class_weight: Any,
    ignore_index: int, size: int, *_: Any,
) -> Any:  # fmt: skip
    """The cross entropy of each row. The logits of `size` rows exist at once, and a gradient
    computes them again. A target is a class, or the probabilities of all classes."""
    matrix, addend = _wide(weight).T, 0 if bias is None else bias

    def row_loss(row: Any) -> Any:
        logs = jax.nn.log_softmax(_wide(row[0]) @ matrix + addend)
        if target.ndim > 1:
            return -(logs * row[1] * (1 if class_weight is None else class_weight)).sum()
        return _nll_loss([dtype] * 2, logs, row[1], class_weight, NO_REDUCTION, ignore_index)[0]

    return lax.map(jax.checkpoint(row_loss), (x, target), batch_size=size)


@rule_of_package("torch_nn::_linear_cross_entropy_batch_chunked")
def _linear_cross_entropy(
    dtypes: Any, /, x: Any, weight: Any, target: Any, bias: Any, class_weight: Any, reduction: str,
    ignore_index: int, _: float, size: int, *options: Any,
) -> Any:  # fmt: skip
    """The loss, and the gradients of the operands for which the last options request them. PyTorch
    does not call the operator with label smoothing."""
    rest = class_weight, ignore_index, size
    rows = len(x) if target.ndim > 1 else _weights(x, target, *rest[:2]).sum()

    def loss(x: Any, weight: Any, bias: Any) -> Any:
        total = _row_losses(dtypes[0], x, weight, target, bias, *rest).sum()
        return total / rows if reduction == "mean" else total

    addend = jnp.zeros(len(weight), x.dtype) if bias is None else bias
    total, grads = jax.value_and_grad(loss, (0, 1, 2))(x, weight, addend)
    needed = zip(grads, options[-3:], strict=True)
    return (total, *(g if is_needed else jnp.zeros((0,) * g.ndim) for g, is_needed in needed))


def _classes(x: Any) -> int:
    """The dimension of the classes. A single sample may have no batch dimension."""
    return 1 if x.ndim > 1 else 0


def _weights(x: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    """The weight of each target; 0 for an ignored target."""
    dtype = opmath_dtype(x.dtype)
    if weight is None:
        return (target != ignore_index).astype(dtype)
    taken = jnp.take(weight.astype(dtype), target, mode="clip")
    return jnp.where(target == ignore_index, 0, taken)


def _wide(x: Any) -> Any:
    return x.astype(opmath_dtype(x.dtype))
