"""The results of `diagnose`: data, JSON, node data for Model Explorer, and a table."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..comparison.difference import Difference
from ..inspection.node_data import NodeData
from ..inspection.report import CompositeReport, JsonReport
from ..inspection.table import cells, readable_seconds, report_table
from .clock import Peaks, Time

if TYPE_CHECKING:
    from rich.table import Table

OUTSIDE = "operations outside composites"
"""The name of the row of all other operations."""

_TEXTS = ("composite", "attributes", "types", "kernel", "verdict")
_NUMBERS = (
    *("calls", "wrong", "worst", "error", "allowed", "adds up to", "largest", "ulps", "pcc"),
    *("nan", "inf"),
)
_TIMES = ("time", "bound", "could win")
_CAPTION = (
    "of the worst call, on the reference's operands; error: relative to the largest value; adds up"
    " to: the largest error where the device has computed the operands"
)


@dataclass(frozen=True)
class DiagnosedCall:
    """One call of a composite, or the operations between two calls."""

    number: int
    """The number among the composites of the program, from 1. Operations outside composites have
    the number of the composite before them."""
    node: int
    """The number of the operation in `@main`, as Model Explorer counts."""
    own: Difference | None
    """The difference from the reference on the reference's operands, in the worse of two runs; None
    if the device failed."""
    added: Difference | None
    """The difference if the device has computed the operands too. After a part that fails, the
    device continues with the reference's numbers."""
    repeats: bool
    """True if both runs gave the same bits, or the device failed."""
    problem: str | None
    """The reason why the call is wrong; None if it is right."""
    in_loop: bool = False
    """True for the first iteration of a loop; further iterations are not examined."""

    @property
    def verdict(self) -> str:
        """The problem in a word; `varies` if the same operands gave other results."""
        if self.own is None:
            return "failed"
        return "varies" if not self.repeats else "wrong" if self.problem else "right"

    @property
    def rank(self) -> tuple[bool, float]:
        """A key that sorts wrong calls after right calls, and large errors after small errors."""
        return self.problem is not None, math.inf if self.own is None else self.own.error


@dataclass(frozen=True)
class DiagnosedComposite:
    """The calls of a composite that differ in nothing but their position."""

    call: CompositeReport
    kernel: str | None
    """The kernel, or the reason why there is none; None if no kernels were requested."""
    tolerance: float
    """The largest error that counts as equal."""
    calls: tuple[DiagnosedCall, ...]
    """In the order of the program."""
    time: Time | None = None
    """The time of all calls on the device; None if it was not requested, or the device failed."""
    gain: float | None = None
    """The share of the time of all parts that a kernel as fast as the bound would save."""

    @property
    def worst(self) -> DiagnosedCall:
        return max(self.calls, key=lambda call: call.rank)

    @property
    def rank(self) -> tuple[bool, float]:
        """The rank of the worst call, with its error in multiples of the tolerance."""
        is_wrong, error = self.worst.rank
        return is_wrong, error / self.tolerance if self.tolerance else math.inf * bool(error)


@dataclass(frozen=True)
class Diagnosis(JsonReport):
    """The result of `diagnose`."""

    module: str
    """The module's symbol name."""
    composites: tuple[DiagnosedComposite, ...]
    """The composites, those that introduce errors first."""
    left_out: tuple[str, ...] = ()
    """The calls that were not examined, such as `acme.gelu in stablehlo.case`."""
    peaks: Peaks | None = None
    """The rates that were measured on the device; None without times."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The problem of each composite's worst call; empty if all are right."""
        return tuple(c.worst.problem for c in self.composites if c.worst.problem)

    def asked(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data without times, if these were not requested."""
        for part in () if self.peaks is not None else (data, *data["composites"]):
            for name in part.keys() & {"peaks", "time", "gain"}:
                del part[name]
        return data

    def node_data(self) -> list[NodeData]:
        """The errors of composites in the graph of `@main`, and their times if measured."""
        composites = [row for row in self.composites if row.call.name != OUTSIDE]
        calls = [call for row in composites for call in row.calls]
        values = {call.node: call.rank[1] for call in calls}
        wrong = {call.node: call.problem is not None for call in calls}
        seconds = {
            call.node: row.time.seconds / sum(not c.in_loop for c in row.calls)
            for row in composites
            if row.time is not None
            for call in row.calls
            if not call.in_loop
        }
        times = [] if self.peaks is None else [NodeData("seconds", seconds)]
        return [NodeData("error", values, wrong), *times]

    def table(self) -> "Table":
        """A row for each composite."""
        title = f"errors of @{self.module or 'module'}"
        wrong = [row.worst.problem is not None for row in self.composites]
        numbers: tuple[str, ...] = _NUMBERS
        rows, caption = list(map(_cells, self.composites)), _CAPTION
        if self.peaks is not None:
            numbers, caption = (*numbers, *_TIMES), f"{caption}\n{_about_times(self.peaks)}"
            times = map(_time_cells, self.composites)
            rows = [(*row, *more) for row, more in zip(rows, times, strict=True)]
        if any(row.worst.in_loop for row in self.composites):
            caption += "\n*: in a loop, whose first iteration was looked at, if it runs or not"
        if self.left_out:
            listed = ", ".join(dict.fromkeys(self.left_out))
            caption += f"\nnot looked at, in branches and conditions of loops: {listed}"
        return report_table(_TEXTS, numbers, rows, title, caption, wrong)


def _about_times(peaks: Peaks) -> str:
    rates = ", ".join(
        f"{rate / 1e9:.0f} GFLOP/s in {type_}" for type_, rate in peaks.product_rates.items()
    )
    return (
        f"time: of all calls outside of loops, less {readable_seconds(peaks.call_seconds)} each"
        f" for a call without work; could win: the share of it that a kernel at the bound would"
        f" save\n"
        f"bound: a copy of the bytes at {peaks.copy_bandwidth / 1e9:.1f} GB/s, or a product of"
        f" matrices at {rates}, as measured"
    )


def _time_cells(row: DiagnosedComposite) -> tuple[str, ...]:
    if row.time is None:
        return ("", "", "")
    gain = "" if row.gain is None else f"{row.gain:.1%}"
    return readable_seconds(row.time.seconds), readable_seconds(row.time.bound_seconds), gain


def _cells(row: DiagnosedComposite) -> tuple[str, ...]:
    name, attributes, types, *_ = cells(row.call)
    worst = row.worst
    added = [call.added.error for call in row.calls if call.added is not None]
    own = ("", "", "", "", "", "")
    if worst.own is not None:
        pcc = "" if worst.own.pcc is None else f"{worst.own.pcc:.6f}"
        numbers = (f"{worst.own.absolute:.1e}", f"{worst.own.ulps:.3g}", pcc)
        own = (f"{worst.own.error:.1e}", *numbers, str(worst.own.nans), str(worst.own.infinities))
    error, *remaining = own
    return (
        *(name, attributes, "" if row.call.name == OUTSIDE else types, row.kernel or ""),
        worst.verdict,
        str(len(row.calls)),
        str(sum(call.problem is not None for call in row.calls)),
        f"{worst.number}{'*' * worst.in_loop}",
        error,
        f"{row.tolerance:.0e}",
        f"{max(added):.1e}" if added else "",
        *remaining,
    )
