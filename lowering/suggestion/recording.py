"""One step on placeholders, with a label on each call of a Python function and of an operator.

Each instruction of the step's HLO then names the innermost call that it comes from. Nothing is run.
`sys.setprofile` reports the functions that the thread of the step calls, and a dispatch mode the
operators. A backward belongs to the function in which autograd made its node.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from composites import torch_internals
from lowering.emission import hlo_proto
from lowering.export.tracing import Traced
from lowering.frontends.protocols import Labels
from lowering.suggestion.functions import Callee, function_of
from lowering.suggestion.values import describe


@dataclass(slots=True, eq=False)
class Call:
    """A call of a Python function, or of an operator below autograd."""

    callee: Callee
    caller: int | None
    """The number of the call of a function that it is part of, forward or backward."""
    nodes: range = range(0)
    """The numbers of the nodes of autograd that were made in it."""


@dataclass(slots=True, eq=False)
class Recorded:
    """A step as HLO, and the calls that it comes from, in the order in which they began."""

    labels: Labels
    module: Any = None
    """An `hlo_proto.Module`."""
    calls: list[Call] = field(default_factory=list)
    _callees: dict[Hashable, Callee | None] = field(default_factory=dict)
    _running: list[tuple[FrameType, Call, int, AbstractContextManager[None]]] = field(
        default_factory=list
    )
    _of_node: dict[int, int] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)  # a backward has other threads

    def call_of(self, instruction: Any) -> int | None:
        """The number of the innermost call that an instruction comes from."""
        label = self.labels.label_of(instruction)
        return None if label is None else int(label)

    def within(self, number: int | None) -> Iterator[int]:
        """The number of a call, and of those that it is in."""
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

    def _begin(self, call: Call) -> int:
        with self._lock:
            self.calls.append(call)
            return len(self.calls) - 1

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            first = torch_internals.sequence_number()
            if frame.f_code not in self._callees:
                self._callees[frame.f_code] = function_of(frame)
            callee = self._callees[frame.f_code]
            if callee is not None:
                call = Call(callee, self._innermost(), range(first, first))
                number = self._begin(call)
                label = self.labels.label(str(number))
                label.__enter__()
                self._running.append((frame, call, number, label))
                self._of_node = None
        elif event == "return" and self._running and self._running[-1][0] is frame:
            self._leave().callee.returns(argument)

    def _leave(self) -> Call:
        _, call, _, label = self._running.pop()
        label.__exit__(None, None, None)
        call.nodes = range(call.nodes.start, torch_internals.sequence_number())
        return call

    def _innermost(self) -> int | None:
        """The number of the innermost call of a function that runs."""
        return self._running[-1][2] if self._running else None

    def _made(self, node: int) -> int | None:
        """The number of the innermost call in which autograd made a node."""
        if self._of_node is None:
            # Callers come before what they call, which is written over them.
            self._of_node = {n: i for i, call in enumerate(self.calls) for n in call.nodes}
        return self._of_node.get(node)

    def _operator(
        self, overload: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        """Make a call of an operator, with a label."""
        schema = getattr(overload, "_schema", None)
        if schema is None:  # a higher-order operator
            return overload(*arguments, **keywords)
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        callee = self._callees.get(name)
        if callee is None:
            named = dict(zip((a.name for a in schema.arguments), arguments, strict=False))
            described = {n: describe(v) for n, v in (named | dict(keywords)).items()}
            callee = self._callees[name] = Callee(name, overload, described)
        node = torch_internals.running_node()
        caller = self._innermost() if node is None else self._made(node)
        number = self._begin(Call(callee, caller))
        with self.labels.label(str(number)), self.labels.refusing_reads():
            return overload(*arguments, **keywords)


def record(trace: Callable[[], Traced], labels: Labels) -> Recorded:
    """Record a step.

    Args:
        trace: runs the step on placeholders.
    """
    recorded = Recorded(labels)
    with labels.kept(), recorded.watched():
        traced = trace()
    graph = labels.hlo([output.tensor for output in traced.outputs])
    recorded.module = hlo_proto.Module.FromString(graph)
    return recorded
