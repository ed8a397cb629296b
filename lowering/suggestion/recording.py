"""One step on placeholders, with a label on each call of a Python function and of an operator.

Each instruction of the step's HLO then names the innermost call that it comes from. Nothing is run.
`sys.setprofile` reports the functions that the thread of the step calls, and a dispatch mode the
operators. A backward belongs to the function in which autograd made its node.
"""

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import FrameType
from typing import Any

from composites import torch_internals
from lowering.emission import hlo_proto
from lowering.export.tracing import Traced
from lowering.frontends.protocols import Labels
from lowering.hlo.work import read_work
from lowering.suggestion.callees import LOSS, Callee, begin_callee


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCall:
    """A call of a Python function, or of an operator below autograd."""

    callee: Callee
    caller: int | None
    """The number of the function call, forward or backward, that this call is part of."""


@dataclass(slots=True, eq=False)
class StepRecord:
    """A step: its calls, and the instructions of its HLO that come from them."""

    labels: Labels
    calls: dict[int, RecordedCall] = field(default_factory=dict)
    """The calls by number, in the order in which they began."""
    work: Counter[int | None] = field(default_factory=Counter)
    """Instructions outside composites, by the number of the operator's call; None for instructions
    that come from no call."""
    composites: int = 0
    _numbers: Iterator[int] = field(default_factory=count)
    _callees: dict[Hashable, Callee | None] = field(default_factory=dict)
    _running: list[tuple[FrameType, int, int, AbstractContextManager[None]]] = field(
        default_factory=list
    )
    """Running functions: frame, number, first node of autograd that they can make, label."""
    _makers: dict[int, int] = field(default_factory=dict)
    """The numbers of the innermost calls that made nodes of autograd, by node."""

    @property
    def outside(self) -> int:
        """Instructions outside composites."""
        return self.work.total()

    def worked(self, *, functions: bool) -> list[Callee]:
        """Functions, or operators, with work outside composites, the best first."""
        callees = {call.callee for call in self.calls.values() if call.callee.instructions}
        return sorted((c for c in callees if c.is_function == functions), key=lambda c: c.rank)

    def within(self, number: int | None) -> Iterator[int]:
        """The number of a call, and the numbers of the calls around it."""
        while number is not None:
            yield number
            number = self.calls[number].caller

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A context in which the calls of this thread are kept."""
        before = sys.getprofile()
        sys.setprofile(self._event)
        try:
            with torch_internals.calls_through(self._operator):
                yield
        finally:
            sys.setprofile(before)
            while self._running:  # an error has ended the step
                self._leave()

    def _begin(self, callee: Callee, caller: int | None) -> int:
        number = next(self._numbers)  # a backward has other threads
        self.calls[number] = RecordedCall(callee, caller)
        callee.invocations.add(number)
        return number

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            node = torch_internals.sequence_number()
            if frame.f_code not in self._callees:
                self._callees[frame.f_code] = begin_callee(frame)
            callee = self._callees[frame.f_code]
            if callee is not None:
                number = self._begin(callee, self._innermost())
                label = self.labels.label(str(number))
                label.__enter__()
                self._running.append((frame, number, node, label))
        elif event == "return" and self._running and self._running[-1][0] is frame:
            self._leave().returns(argument)

    def _leave(self) -> Callee:
        _, number, first, label = self._running.pop()
        label.__exit__(None, None, None)
        for node in range(first, torch_internals.sequence_number()):
            self._makers.setdefault(node, number)  # inner calls have ended before
        return self.calls[number].callee

    def _innermost(self) -> int | None:
        """The number of the innermost running call of a function."""
        return self._running[-1][1] if self._running else None

    def _operator(
        self, overload: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        """Make a call of an operator, with a label."""
        schema = getattr(overload, "_schema", None)
        if schema is None:  # a higher-order operator
            return overload(*arguments, **keywords)
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        callee = self._callees.setdefault(name, Callee(name, is_function=False))
        assert callee is not None
        node = torch_internals.running_node()
        caller = self._innermost() if node is None else self._makers.get(node)
        number = self._begin(callee, caller)
        with self.labels.label(str(number)), self.labels.refusing_reads():
            return overload(*arguments, **keywords)

    def add_work(self, module: Any) -> None:
        """Count the instructions of the step's HLO for the calls that they come from."""
        for item in read_work(module):
            label = self.labels.find_label(item.top_level)
            number = None if label is None else int(label)
            around = list(dict.fromkeys(self.calls[n].callee for n in self.within(number)))
            if any(callee.name == LOSS for callee in around):
                continue
            if item.is_composite:
                self.composites += 1
                for callee in around:
                    callee.composites += 1
            elif number is None or around[0].is_function:
                self.work[None] += item.is_counted
            else:
                self.work[number] += item.is_counted
                for callee in around:
                    callee.add(number, item.is_product)


def record(trace: Callable[[], Traced], labels: Labels) -> StepRecord:
    """Record a step, which `trace` runs on placeholders."""
    recorded = StepRecord(labels)
    with labels.kept(), recorded.watched():
        traced = trace()
    graph = labels.hlo([output.tensor for output in traced.outputs])
    recorded.add_work(hlo_proto.Module.FromString(graph))
    return recorded
