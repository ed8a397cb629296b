"""Losses of optax."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from composites.errors import UnsupportedCallError
from composites.operators.aten_enums import NO_REDUCTION
from lowering.jax_programs.functions.arguments import floats, is_array, number

_NO_LABEL = -(2**31)
"""The class whose rows PyTorch ignores. Negative labels of optax count from the last class, and no
logits have as many classes."""


@dataclass(frozen=True)
class _InRows:
    """A loss as a function of logits with two dimensions."""

    function: Callable[..., Any]
    shape: tuple[int, ...]
    """The shape of the labels."""

    def __call__(self, logits: Any, labels: Any) -> Any:
        losses = self.function(
            logits.reshape(*self.shape, logits.shape[-1]), labels.reshape(self.shape)
        )
        return losses.reshape(-1)


def with_integer_labels(
    composite: Any, logits: Any, labels: Any, axis: Any = -1, where: Any = None
) -> Any:
    """`optax.softmax_cross_entropy_with_integer_labels`, the loss of each row."""
    from jax.numpy import int32, int64

    if where is not None:
        raise UnsupportedCallError("`where` is given")
    _check_floats(logits)
    if not is_array(labels) or labels.dtype not in (int32, int64):
        raise UnsupportedCallError("the labels are not an array of i32 or i64, as in PyTorch")
    if not isinstance(axis, int) or axis not in (-1, logits.ndim - 1):
        raise UnsupportedCallError("classes are not the last dimension")
    if logits.shape[-1:] in ((), (0,)):
        raise UnsupportedCallError("there are no classes")
    if labels.shape != logits.shape[:-1]:
        raise UnsupportedCallError("labels and logits are broadcast")
    losses = composite(
        logits.reshape(-1, logits.shape[-1]),
        labels.reshape(-1),
        reduction=NO_REDUCTION,
        ignore_index=_NO_LABEL,
        decomposition=_InRows(composite.original, tuple(labels.shape)),
        many="merged",
    )
    return losses.reshape(labels.shape)


def squared_error(composite: Any, predictions: Any, targets: Any = None) -> Any:
    """`optax.squared_error`, and `optax.l2_loss`, which is half of it."""
    _check_alike(predictions, targets)
    return composite(predictions, targets, reduction=NO_REDUCTION)


def huber_loss(composite: Any, predictions: Any, targets: Any = None, *, delta: Any = 1.0) -> Any:
    """`optax.huber_loss`."""
    _check_alike(predictions, targets)
    if number(delta, "delta") <= 0:
        raise UnsupportedCallError("delta is not above 0, which PyTorch refuses")
    return composite(predictions, targets, reduction=NO_REDUCTION, delta=float(delta))


def sigmoid_binary_cross_entropy(composite: Any, logits: Any, labels: Any) -> Any:
    """`optax.sigmoid_binary_cross_entropy`, which takes labels of all types."""
    from jax.numpy import asarray, iscomplexobj

    _check_floats(logits)
    if not is_array(labels) or iscomplexobj(labels):
        raise UnsupportedCallError("the labels are not an array of real numbers")
    labels = asarray(labels, logits.dtype)
    _check_alike(logits, labels)
    return composite(logits, labels, reduction=NO_REDUCTION, decomposition=composite.original)


def _check_alike(predictions: Any, targets: Any) -> None:
    """Check that both arguments are arrays of floats, of one shape and type."""
    _check_floats(predictions)
    floats(targets)
    if (predictions.shape, predictions.dtype) != (targets.shape, targets.dtype):
        raise UnsupportedCallError("predictions and targets have different shapes or types")


def _check_floats(x: Any) -> None:
    """Check that a value is a JAX array of floats: with numpy arrays, numpy computes itself."""
    from jax import Array

    if not isinstance(floats(x), Array):
        raise UnsupportedCallError("the predictions are an array of numpy")
