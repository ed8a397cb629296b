"""Rules of losses whose forward has a result that only the backward takes.

It differs between PyTorch's devices, and some decompositions of PyTorch read it. Here it equals
torch_xla's, and no backward reads it: a kernel of the forward or of the backward then works beside
a decomposition of the other, in programs of all frontends.
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
    # Where a target is ignored, the input may be infinite.
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
    of_each = -weights * grad
    if reduction == MEAN:
        of_each = of_each / weights.sum()
    classes = lax.broadcasted_iota(target.dtype, x.shape, axis)
    is_label = (classes == jnp.expand_dims(target, axis)) & (classes != ignore_index)
    return jnp.where(is_label, jnp.expand_dims(of_each, axis), 0)


@rule_of_package("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction")
def _row_losses(
    dtype: Any, /, x: Any, weight: Any, target: Any, bias: Any, class_weight: Any,
    ignore_index: int, size: int, *_: Any,
) -> Any:  # fmt: skip
    """The cross entropy of each row. The logits of `size` rows are held, which a gradient computes
    again. A target is a class, or has the probability of each."""
    matrix, addend = _wide(weight).T, 0 if bias is None else bias

    def of_row(row: Any) -> Any:
        logs = jax.nn.log_softmax(_wide(row[0]) @ matrix + addend)
        if target.ndim > 1:
            return -(logs * row[1] * (1 if class_weight is None else class_weight)).sum()
        return _nll_loss([dtype] * 2, logs, row[1], class_weight, NO_REDUCTION, ignore_index)[0]

    return lax.map(jax.checkpoint(of_row), (x, target), batch_size=size)


@rule_of_package("torch_nn::_linear_cross_entropy_batch_chunked")
def _linear_cross_entropy(
    dtypes: Any, /, x: Any, weight: Any, target: Any, bias: Any, class_weight: Any, reduction: str,
    ignore_index: int, _: float, size: int, *options: Any,
) -> Any:  # fmt: skip
    """The loss, and the gradients of the operands that need them, as the last options say. PyTorch
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
    """The dimension of the classes. One sample may have no batch."""
    return 1 if x.ndim > 1 else 0


def _weights(x: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    """The weight of each target, which is 0 where it is ignored."""
    dtype = opmath_dtype(x.dtype)
    if weight is None:
        return (target != ignore_index).astype(dtype)
    taken = jnp.take(weight.astype(dtype), target, mode="clip")
    return jnp.where(target == ignore_index, 0, taken)


def _wide(x: Any) -> Any:
    return x.astype(opmath_dtype(x.dtype))
