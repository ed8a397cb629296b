"""The results of `compare`."""

import math
from dataclasses import dataclass

from ..inspection.node_data import NodeData, composite_nodes
from ..inspection.report import CompositeReport, JsonReport, distinct_calls
from ..module import Module
from .timing import Machine


@dataclass(frozen=True)
class Numbers:
    """The results of running a call."""

    inputs: str
    """`normal`, `positive operand N` or `positive` for made operands, or `given`."""
    error: float
    """The error of the kernel against the decomposition."""
    kernel_error: float | None
    """The error of the kernel against the decomposition in f64; None if that is not possible."""
    decomposition_error: float | None
    """The error of the decomposition itself, likewise."""
    why_not_f64: str | None
    """The reason if it is not possible."""
    kernel_seconds: float | None
    """The median wall-clock time of a call; None if nothing was timed."""
    decomposition_seconds: float | None
    """Likewise."""


@dataclass(frozen=True)
class ComparedCall:
    """One distinct call of a composite: its decomposition and a kernel on the same operands."""

    call: CompositeReport
    """Name, version, attributes, types, how often it is called, and its share of the operations."""
    kernel: str
    """The function that was bound or the target that was called."""
    bytes: int
    """Bytes of the operands and results of one call: what any kernel has to move."""
    bound_seconds: float
    """The time of a copy of these bytes."""
    tolerance: float
    """The largest error that counts as equal."""
    numbers: Numbers | None
    """The numbers; None if the kernel was refused or failed."""
    problem: str | None
    """The reason why the kernel is not right; None if it is."""


@dataclass(frozen=True)
class Comparison(JsonReport):
    """The result of `compare`.

    An error is the largest absolute difference of a result, relative to the largest absolute value
    of the expected one; for integers and booleans it is the part of the elements that differ. Times
    are wall-clock times, and shares are of the module's operations, as in `Report`.
    """

    module: str
    """The module's symbol name."""
    machine: Machine
    calls: tuple[ComparedCall, ...]
    """Largest share first."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of the kernels, one line for each call; empty if there are none."""
        return tuple(call.problem for call in self.calls if call.problem is not None)

    def node_data(self, graph: Module) -> tuple[NodeData, NodeData]:
        """The errors and times of kernels in `@main` of the module that was compared, which is
        clean."""
        reports = distinct_calls(graph)
        rows = {
            node: row
            for node, key in composite_nodes(graph)
            for row in self.calls
            if row.call == reports[key]
        }
        errors, seconds = {}, {}
        for node, row in rows.items():
            errors[node] = math.inf if row.numbers is None else row.numbers.error
            if row.numbers is not None and row.numbers.kernel_seconds is not None:
                seconds[node] = row.numbers.kernel_seconds
        wrong = {node: row.problem is not None for node, row in rows.items()}
        return NodeData("error", errors, wrong), NodeData("seconds", seconds)
