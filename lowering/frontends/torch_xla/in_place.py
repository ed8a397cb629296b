"""Writing in place in an order in which XLA copies nothing.

torch_xla (2.9) donates the memory of each argument that is written, and XLA gives it to the results
of the graph: of the arguments and results with the same number of bytes, the first argument's to
the first result, and so on (xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.cc).
Results are ordered by when they were last written. Arguments are in the order of a search through
the graph that starts at the first result and goes from the last operand to the first. A result that
gets the memory of another argument is copied there, and so is the argument before.
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
        renew(gradient)  # it may be a result too, and would be one before the others


def _computed(gradients: Sequence[Tensor]) -> list[Tensor]:
    """The gradients that the graph computes. The others have values since the last sync."""
    needed = _XLAC._check_tensor_need_materialization(list(gradients))
    return [gradient for gradient, need in zip(gradients, needed, strict=True) if need]


def _after_a_backward(written: Sequence[Written]) -> None:
    """Write where the graph holds forward and backward.

    The loss, if it is a result, or else a gradient leads to the parameters, the last one first.
    The state of an optimizer comes after them. Without a loss, the state of the parameter that is
    written first comes before them, so a small one is first.
    """
    parameters: list[tuple[Tensor, Tensor]] = []
    for each in written:
        parameters += [*zip(each.targets, each.values, strict=True)][: each.parameters]
    for target, value in _smallest_first(parameters[::-1], lambda pair: pair[0]):
        assign(target, value)
    for each in _smallest_first(written[::-1], lambda each: each.targets[0]):
        assign_all(each.targets[each.parameters :], each.values[each.parameters :])


def _smallest_first(items: Iterable[T], tensor_of: Callable[[T], Tensor]) -> list[T]:
    """The items in the order of their tensors' bytes; those with equally many stay in their
    order."""
    return sorted(items, key=lambda item: tensor_of(item).nbytes)
