"""Losses of optax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from composites.errors import UnsupportedCallError


@dataclass(frozen=True)
class _InRows:
    """A loss as a function of logits with two dimensions."""

    function: Callable[..., Any]
    shape: tuple[int, ...]
    """Of the labels."""

    def __call__(self, logits: Any, labels: Any) -> Any:
        losses = self.function(
            logits.reshape(*self.shape, logits.shape[-1]), labels.reshape(self.shape)
        )
        return losses.reshape(-1)


def with_integer_labels(
    composite: Any, logits: Any, labels: Any, axis: Any = -1, where: Any = None
) -> Any:
    """`optax.softmax_cross_entropy_with_integer_labels`, the loss of each row."""
    if where is not None:
        raise UnsupportedCallError("`where` is given")
    if axis not in (-1, logits.ndim - 1):
        raise UnsupportedCallError("classes are not the last dimension")
    if labels.shape != logits.shape[:-1]:
        raise UnsupportedCallError("labels and logits are broadcast")
    losses = composite(
        logits.reshape(-1, logits.shape[-1]),
        labels.reshape(-1),
        reduction=0,
        decomposition=_InRows(composite.original, tuple(labels.shape)),
        many="merged",
    )
    return losses.reshape(labels.shape)
