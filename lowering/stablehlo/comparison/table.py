"""A comparison as a table for the terminal."""

from typing import TYPE_CHECKING

from ..inspection.table import cells as composite_cells
from ..inspection.table import readable_bytes, report_table
from .results import ComparedCall, Comparison

if TYPE_CHECKING:
    from rich.table import Table


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
    name, attributes, types, count, _, _, share = composite_cells(row.call)
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


def readable_seconds(seconds: float) -> str:
    """A time with a unit, such as 1.5 ms."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"
