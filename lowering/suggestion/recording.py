"""One step on placeholders, with a label on each call of an operator.

Each instruction of the step's HLO then names the call that it comes from, and each call the Python
functions that it was made in. Nothing is run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from composites import torch_internals
from lowering.emission import hlo_proto
from lowering.export.tracing import Traced
from lowering.frontends.protocols import Labels
from lowering.suggestion.functions import Functions
from lowering.suggestion.values import Described, describe

_OPERATOR, _FUNCTION = "o", "f"
"""Beginnings of labels."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A call of an operator, below autograd."""

    operator: str
    """`aten::mean.dim`."""
    invocation: int | None
    """The call of a function that it is part of, forward or backward."""
    is_backward: bool


@dataclass(slots=True, eq=False)
class Calls:
    """The calls of a step."""

    labels: Labels
    functions: Functions = field(init=False)
    made: list[OperatorCall] = field(default_factory=list)
    examples: dict[str, Mapping[str, Described]] = field(default_factory=dict)
    """The arguments of the first call of each operator, by name."""
    overloads: dict[str, Any] = field(default_factory=dict)
    """PyTorch's operators by name."""
    _lock: threading.Lock = field(default_factory=threading.Lock)  # a backward has other threads

    def __post_init__(self) -> None:
        self.functions = Functions(lambda number: self.labels.label(f"{_FUNCTION}{number}"))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A context in which calls are kept."""
        with (
            self.labels.kept(),
            torch_internals.calls_through(self._call),
            self.functions.watched(),
        ):
            yield

    def _call(self, overload: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        schema = getattr(overload, "_schema", None)
        if schema is None:  # a higher-order operator
            return overload(*arguments, **keywords)
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        node = torch_internals.running_node()
        of_function = self.functions
        invocation = of_function.current if node is None else of_function.of_node(node)
        with self._lock:
            number = len(self.made)
            self.made.append(OperatorCall(name, invocation, node is not None))
            if name not in self.examples:
                named = dict(zip((a.name for a in schema.arguments), arguments, strict=False))
                self.examples[name] = {n: describe(v) for n, v in (named | dict(keywords)).items()}
                self.overloads[name] = overload
        with self.labels.label(f"{_OPERATOR}{number}"), self.labels.refusing_reads():
            return overload(*arguments, **keywords)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step as HLO, and the calls that it comes from."""

    module: Any
    """An `hlo_proto.Module`."""
    calls: Calls

    def call_of(self, instruction: Any) -> int | None:
        """The number of the call of an operator that an instruction comes from."""
        return self._number(instruction, _OPERATOR)

    def invocation_of(self, instruction: Any) -> int | None:
        """The number of the call of a function that an instruction comes from."""
        call = self.call_of(instruction)
        if call is not None:
            return self.calls.made[call].invocation
        return self._number(instruction, _FUNCTION)

    def _number(self, instruction: Any, kind: str) -> int | None:
        label = self.calls.labels.label_of(instruction)
        return int(label[1:]) if label is not None and label.startswith(kind) else None


def record(trace: Callable[[], Traced], labels: Labels) -> Recorded:
    """Record a step.

    Args:
        trace: runs the step on placeholders.
    """
    calls = Calls(labels)
    with calls.watched():
        traced = trace()
    graph = labels.hlo([output.tensor for output in traced.outputs])
    return Recorded(hlo_proto.Module.FromString(graph), calls)
