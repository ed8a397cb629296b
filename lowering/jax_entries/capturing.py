"""One call of an entry, as its generated hook sees it.

Hooks are written for tensors. They get stand-ins with the shapes and dtypes of the arrays, without
values, and pass on which of them are operands, in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from composites.registry.model import Composite
from lowering.dispatch.autograd.function import Arguments
from lowering.dispatch.backend import condition_holds
from lowering.dispatch.decomposition import Call
from lowering.dispatch.operand_lists import Groups, grouped, ungrouped


@dataclass(frozen=True, slots=True)
class Captured:
    """A call, with lists of tensors taken apart."""

    operands: tuple[torch.Tensor | None, ...]
    """Stand-ins in the composite's order."""
    unmet: str | None
    """The condition of the entry that the call does not meet."""
    attributes: Callable[[], Mapping[str, str | None]]
    """Returns the attributes as MLIR text. It raises `UnsupportedValueError`."""
    call: Call
    groups: Groups | None
    """What was a list among the operands; None if nothing was, or for an operator."""
    values: Mapping[str, Any]
    """The arguments that are not operands, by name, for an explicit backward."""


class _Reached(Exception):
    """A hook has passed on its call. It ends the hook."""

    def __init__(self, captured: Captured) -> None:
        super().__init__()
        self.captured = captured


@dataclass(frozen=True, slots=True)
class _Capture:
    """What hooks take for an `EntryLowering`, or for a `CompositeFunction`."""

    entry: Composite
    kernels: dict[Any, Any] = field(default_factory=dict)

    def lower(
        self,
        key: Any,
        *,
        operands: Sequence[Any],
        call: Call,
        unmet: str | None = None,
        attributes: Callable[[], Mapping[str, str | None]] = dict,
    ) -> NoReturn:
        flat, groups = ungrouped(operands)
        raise _Reached(Captured(flat, unmet, attributes, grouped(groups, call), None, {}))

    def __call__(self, arguments: Arguments) -> NoReturn:
        flat = arguments if arguments.is_flat else arguments.flat()
        captured = Captured(
            tuple(flat.operands),
            flat.unmet(),
            flat.attributes,
            flat.call,
            flat.groups,
            flat.values(),
        )
        raise _Reached(captured)

    def holds(self, text: str, condition: Callable[[], Any]) -> bool:
        return condition_holds(self.entry, text, condition)


def capture(
    entry: Composite,
    hook: Callable[..., Any],
    keyed: bool,
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Captured:
    """What the hook of an entry makes of a call.

    Args:
        keyed: whether the hook takes dispatch keys first.

    Raises:
        LoweringError: a condition of the entry cannot be evaluated for the call.
    """
    first = (None,) if keyed else ()
    try:
        hook(_Capture(entry), *first, *positional, **keywords)
    except _Reached as reached:
        return reached.captured
    raise AssertionError("a hook passes its call on")
