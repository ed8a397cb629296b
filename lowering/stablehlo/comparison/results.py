"""The results of `compare`: data, JSON, node data for Model Explorer, and a table."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..inspection.node_data import NodeData, composite_nodes
from ..inspection.report import CompositeReport, JsonReport, distinct_calls
from ..inspection.table import cells, readable_bytes, readable_seconds, report_table
from ..module import Module
from .timing import Machine

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Numbers:
    """The results of running a call."""

    inputs: str
    """`normal`, `positive operand N` or `positive` for made operands, or `given`."""
    error: float
    """The error of the kernel against the decomposition."""
    kernel_error: float | None
    """The error of the kernel against the decomposition in f64; None if f64 is not possible."""
    decomposition_error: float | None
    """The error of the decomposition itself against f64; None if f64 is not possible."""
    why_not_f64: str | None
    """The reason why f64 is not possible."""
    kernel_seconds: float | None
    """The median wall-clock time of the kernel's call; None if nothing was timed."""
    decomposition_seconds: float | None
    """The median wall-clock time of the decomposition's call; None if nothing was timed."""


@dataclass(frozen=True)
class ComparedCall:
    """One distinct call of a composite: its decomposition and a kernel on the same operands."""

    call: CompositeReport
    """Name, version, attributes, types, number of calls, and share of the operations."""
    kernel: str
    """The function that was bound or the target that was called."""
    bytes: int
    """Bytes of the operands and results of one call, which any kernel has to move."""
    bound_seconds: float
    """The time of a copy of these bytes."""
    tolerance: float
    """The largest error that counts as equal."""
    numbers: Numbers | None
    """The numbers; None if the kernel was refused or failed."""
    problem: str | None
    """The reason why the kernel is wrong; None if it is right."""


@dataclass(frozen=True)
class Comparison(JsonReport):
    """The result of `compare`.

    An error is the largest absolute difference of a result, relative to the largest absolute value
    of the expected result; for integers and booleans it is the fraction of the elements that
    differ. Times are wall-clock times, and shares are of the module's operations, as in `Report`.
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
        """The errors and times of kernels in `@main` of `graph`, the compared module after
        `clean`."""
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


def comparison_table(comparison: Comparison) -> "Table":
    """The calls of a comparison, one row each, the largest share first."""
    machine = comparison.machine
    return report_table(
        ("composite", "attributes", "types", "kernel"),
        (
            *("error", "kernel to f64", "decomposition to f64", "kernel time"),
            *("decomposition time", "bound", "bytes", "count", "share"),
        ),
        map(_cells, comparison.calls),
        f"kernels for @{comparison.module or 'module'}",
        f"wall-clock medians on {machine.platform}, of which a call without work takes "
        f"{readable_seconds(machine.call_seconds)}; bound: a copy of the bytes at "
        f"{machine.copy_bandwidth / 1e9:.1f} GB/s; share: of the module's operations",
        [call.problem is not None for call in comparison.calls],
    )


def _cells(row: ComparedCall) -> tuple[str, ...]:
    name, attributes, types, count, _, _, share = cells(row.call)
    numbers = row.numbers
    measured: tuple[str, ...] = ("",) * 5
    if numbers is not None:
        to_f64 = numbers.kernel_error, numbers.decomposition_error
        times = numbers.kernel_seconds, numbers.decomposition_seconds
        measured = (
            f"{numbers.error:.1e}",
            *("no f64" if error is None else f"{error:.1e}" for error in to_f64),
            *("" if seconds is None else readable_seconds(seconds) for seconds in times),
        )
    bound, size = readable_seconds(row.bound_seconds), readable_bytes(row.bytes)
    return (name, attributes, types, row.kernel, *measured, bound, size, count, share)
