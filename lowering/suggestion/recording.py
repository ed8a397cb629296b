"""One step on placeholders, with a label on each call of an operator.

Each instruction of the step's HLO then names the call that it comes from, and each call the Python
functions that it was made in. Nothing is run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from composites import torch_internals
from lowering.emission import hlo_proto
from lowering.export.tracing import Traced
from lowering.frontends.protocols import Labels
from lowering.suggestion.functions import FUNCTION, Functions
from lowering.suggestion.values import describe

_OPERATOR = "o"
"""The beginning of the labels of calls of operators."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A call of an operator, below autograd."""

    operator: str
    """`aten::mean.dim`."""
    invocation: int | None
    """The call of a function that it is part of, forward or backward."""


@dataclass(slots=True, eq=False)
class Recorded:
    """A step as HLO, and the calls that it comes from."""

    labels: Labels
    functions: Functions
    module: Any = None
    """An `hlo_proto.Module`."""
    calls: list[OperatorCall] = field(default_factory=list)
    examples: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Descriptions of the arguments of the first call of each operator, by name."""
    overloads: dict[str, Any] = field(default_factory=dict)
    """PyTorch's operators by name."""
    _lock: threading.Lock = field(default_factory=threading.Lock)  # a backward has other threads

    def call_of(self, instruction: Any) -> int | None:
        """The number of the call of an operator that an instruction comes from."""
        return self._number(instruction, _OPERATOR)

    def invocation_of(self, instruction: Any) -> int | None:
        """The number of the call of a function that an instruction comes from."""
        call = self.call_of(instruction)
        return self._number(instruction, FUNCTION) if call is None else self.made_in(call)

    def made_in(self, call: int | None) -> int | None:
        """The number of the call of a function that a call of an operator is part of."""
        return None if call is None else self.calls[call].invocation

    def _number(self, instruction: Any, kind: str) -> int | None:
        label = self.labels.label_of(instruction)
        return int(label[1:]) if label is not None and label.startswith(kind) else None

    def call(self, overload: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Make a call of an operator, with a label."""
        schema = getattr(overload, "_schema", None)
        if schema is None:  # a higher-order operator
            return overload(*arguments, **keywords)
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        node = torch_internals.running_node()
        functions = self.functions
        invocation = functions.current if node is None else functions.of_node(node)
        with self._lock:
            number = len(self.calls)
            self.calls.append(OperatorCall(name, invocation))
            if name not in self.examples:
                named = dict(zip((a.name for a in schema.arguments), arguments, strict=False))
                self.examples[name] = {n: describe(v) for n, v in (named | dict(keywords)).items()}
                self.overloads[name] = overload
        with self.labels.label(f"{_OPERATOR}{number}"), self.labels.refusing_reads():
            return overload(*arguments, **keywords)


def record(trace: Callable[[], Traced], labels: Labels) -> Recorded:
    """Record a step.

    Args:
        trace: runs the step on placeholders.
    """
    recorded = Recorded(labels, Functions(labels))
    with (
        labels.kept(),
        torch_internals.calls_through(recorded.call),
        recorded.functions.watched(),
    ):
        traced = trace()
    graph = labels.hlo([output.tensor for output in traced.outputs])
    recorded.module = hlo_proto.Module.FromString(graph)
    return recorded
