"""A comparison as a picture: the times of each call as bars, in SVG."""

from dataclasses import dataclass

from ..inspection.page import rendered
from ..inspection.table import cells as composite_cells
from .results import ComparedCall, Comparison
from .table import caption, readable_seconds

_FULL = 400.0  # width of a bar that takes as long as the slower of the two
_ROW = 74
_LINE = 16


@dataclass(frozen=True)
class Bars:
    """One call on the chart."""

    y: int
    label: str
    decomposition: float
    """Width of the bar."""
    kernel: float
    bound: float
    """Distance of the mark."""
    decomposition_label: str
    """The kernel and its error, if nothing was timed."""
    kernel_label: str
    """Why it was refused, if it was."""
    problem: str | None


def comparison_chart(comparison: Comparison) -> str:
    """The times of decompositions and kernels as an SVG picture. Text is escaped.

    The longer bar of each call has the full width, so that short calls can be seen too.
    """
    bars = [_bars(row, number * _ROW) for number, row in enumerate(comparison.calls)]
    lines = caption(comparison).split("; ")
    return rendered(
        __package__,
        "chart.svg.j2",
        title=f"kernels for @{comparison.module or 'module'}",
        caption=caption(comparison),
        lines=lines,
        bars=bars,
        row=_ROW,
        line=_LINE,
        height=40 + len(bars) * _ROW + (len(lines) + 1) * _LINE,
    )


def _bars(row: ComparedCall, y: int) -> Bars:
    name, attributes, types, *_ = composite_cells(row.call)
    label = f"{name} {types}" + (f"  {attributes}" if attributes else "")
    numbers = row.numbers
    if numbers is None:
        return Bars(y, label, 0, 0, 0, "", _without_call(row.problem or ""), row.problem)
    if numbers.kernel_seconds is None or numbers.decomposition_seconds is None:
        return Bars(y, label, 0, 0, 0, f"{row.kernel}, error {numbers.error:.1e}", "", row.problem)
    longest = max(numbers.kernel_seconds, numbers.decomposition_seconds, row.bound_seconds)
    scale = _FULL / longest if longest else 0.0
    return Bars(
        y=y,
        label=label,
        decomposition=numbers.decomposition_seconds * scale,
        kernel=numbers.kernel_seconds * scale,
        bound=row.bound_seconds * scale,
        decomposition_label=f"decomposition {readable_seconds(numbers.decomposition_seconds)}",
        kernel_label=f"{row.kernel} {readable_seconds(numbers.kernel_seconds)}, "
        f"error {numbers.error:.1e}",
        problem=row.problem,
    )


def _without_call(problem: str) -> str:
    """A problem without the call that it starts with, which has a line of its own."""
    return problem.partition(" -> ")[2].partition(": ")[2] or problem
