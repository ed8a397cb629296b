"""Writing in place, in an order for which XLA makes no copies.

torch_xla (2.9) donates the memory of each argument that is written, and XLA gives it to the results
of the graph: among arguments and results with the same number of bytes, the first argument's to the
first result, and so on (xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.cc).
Results are ordered by the time of their last write. Arguments are in the order of a search through
the graph that starts at the first result and goes from the last operand to the first. A result that
gets the memory of another argument is copied to it, and before that the argument is copied.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch_xla
from torch import Tensor

from composites.in_place import InPlace, Written
from composites.torch_internals import assign, assign_all, renew

_XLAC = torch_xla._XLAC
T = TypeVar("T")


def write(in_place: InPlace) -> None:
    """Give the tensors their new values."""
    computed = _computed(in_place.gradients)
    if not computed:
        for written in in_place.written:
            assign_all(written.targets, written.values)
        return
    _after_a_backward(in_place.written)
    for gradient in computed:
        renew(gradient)  # it may be a result too, which would precede the other results


def _computed(gradients: Sequence[Tensor]) -> list[Tensor]:
    """The gradients that the graph computes. Other gradients have values since the last sync."""
    needed = _XLAC._check_tensor_need_materialization(list(gradients))
    return [gradient for gradient, need in zip(gradients, needed, strict=True) if need]


def _after_a_backward(written: Sequence[Written]) -> None:
    """Write to tensors if the graph holds forward and backward.

    The search reaches the parameters from the loss, if it is a result, or else from a gradient, in
    reverse order, and the state of an optimizer after them. Without a loss, it reaches the state of
    the parameter that is written first before them, so a small parameter is written first.
    """
    parameters: list[tuple[Tensor, Tensor]] = []
    for update in written:
        parameters += [*zip(update.targets, update.values, strict=True)][: update.parameters]
    for target, value in _smallest_first(parameters[::-1], lambda pair: pair[0]):
        assign(target, value)
    for update in _smallest_first(written[::-1], lambda update: update.targets[0]):
        assign_all(update.targets[update.parameters :], update.values[update.parameters :])


def _smallest_first(items: Iterable[T], find_tensor: Callable[[T], Tensor]) -> list[T]:
    """Sort items by the number of bytes of their tensors, stably."""
    return sorted(items, key=lambda item: find_tensor(item).nbytes)
