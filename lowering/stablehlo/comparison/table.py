"""A comparison as a table for the terminal."""

from typing import TYPE_CHECKING

from ..inspection.table import cells as composite_cells
from ..inspection.table import readable_bytes, report_table
from .results import ComparedCall, Comparison

if TYPE_CHECKING:
    from rich.table import Table

TEXT_HEADINGS = ("composite", "attributes", "types", "kernel")
NUMBER_HEADINGS = (
    "error",
    "kernel to f64",
    "decomposition to f64",
    "kernel time",
    "decomposition time",
    "bound",
    "bytes",
    "count",
    "share",
)


def comparison_table(comparison: Comparison) -> "Table":
    """The calls of a comparison, one row each, the largest share first."""
    return report_table(
        TEXT_HEADINGS,
        NUMBER_HEADINGS,
        map(cells, comparison.calls),
        f"kernels for @{comparison.module or 'module'}",
        caption(comparison),
        [call.problem is not None for call in comparison.calls],
    )


def caption(comparison: Comparison) -> str:
    """The caption that explains the columns."""
    machine = comparison.machine
    return (
        f"wall-clock medians on {machine.platform}, of which a call without work takes "
        f"{readable_seconds(machine.call_seconds)}; bound: a copy of the bytes at "
        f"{machine.copy_bandwidth / 1e9:.1f} GB/s; share: of the module's operations"
    )


def cells(row: ComparedCall) -> tuple[str, ...]:
    """One call as text, in the order of the table's columns."""
    name, attributes, types, count, _, _, share = composite_cells(row.call)
    return (
        name,
        attributes,
        types,
        row.kernel,
        *_measured(row),
        readable_seconds(row.bound_seconds),
        readable_bytes(row.bytes),
        count,
        share,
    )


def _measured(row: ComparedCall) -> tuple[str, ...]:
    numbers = row.numbers
    if numbers is None:
        return ("", "", "", "", "")
    return (
        f"{numbers.error:.1e}",
        _readable_error(numbers.kernel_error),
        _readable_error(numbers.decomposition_error),
        _readable_time(numbers.kernel_seconds),
        _readable_time(numbers.decomposition_seconds),
    )


def _readable_time(seconds: float | None) -> str:
    return "" if seconds is None else readable_seconds(seconds)


def _readable_error(value: float | None) -> str:
    return "no f64" if value is None else f"{value:.1e}"


def readable_seconds(seconds: float) -> str:
    """A time with a unit, such as 1.5 ms."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"
