"""The results of `diagnose`: data, JSON, node data for Model Explorer, and a table."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..comparison.difference import Difference
from ..inspection.node_data import NodeData
from ..inspection.report import CompositeReport, report_json
from ..inspection.table import cells, report_table

if TYPE_CHECKING:
    from rich.table import Table

OUTSIDE = "operations outside composites"
"""The name of the row of all other operations."""

_TEXTS = ("composite", "attributes", "types", "kernel", "verdict")
_NUMBERS = (
    *("calls", "wrong", "worst", "error", "allowed", "adds up to", "largest", "ulps", "pcc"),
    *("nan", "inf"),
)
_CAPTION = (
    "of the worst call, on the reference's operands; error: relative to the largest value; adds up"
    " to: the largest error where the device has computed the operands"
)


@dataclass(frozen=True)
class Call:
    """One call of a composite, or the operations between two calls."""

    number: int
    """The number among the composites of the program, from 1; of operations outside, that of the
    composite before them."""
    node: int
    """The number of the operation in `@main`, as Model Explorer counts."""
    own: Difference | None
    """The difference from the reference on the reference's operands; None if the device failed."""
    added: Difference | None
    """The difference where the device has computed the operands too. After a part that it failed
    on, it goes on with the reference's numbers."""
    problem: str | None
    """The reason why it is wrong; None if it is right."""

    @property
    def rank(self) -> tuple[bool, float]:
        """Wrong calls come before right ones, and large errors before small ones."""
        return self.problem is not None, math.inf if self.own is None else self.own.error


@dataclass(frozen=True)
class DiagnosedComposite:
    """The calls of a composite that differ in nothing but their place."""

    call: CompositeReport
    kernel: str | None
    """The kernel, or why there is none; None if no kernels were asked for."""
    tolerance: float
    """The largest error that counts as equal."""
    calls: tuple[Call, ...]
    """In the order of the program."""

    @property
    def worst(self) -> Call:
        return max(self.calls, key=lambda call: call.rank)

    @property
    def rank(self) -> tuple[bool, float]:
        """The rank of the worst call, with its error in multiples of the tolerance."""
        is_wrong, error = self.worst.rank
        return is_wrong, error / self.tolerance if self.tolerance else math.inf * bool(error)


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`."""

    module: str
    """The module's symbol name."""
    composites: tuple[DiagnosedComposite, ...]
    """Composites that bring errors in come first."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The problem of each composite's worst call; empty if all are right."""
        return tuple(each.worst.problem for each in self.composites if each.worst.problem)

    def to_json(self) -> str:
        """The diagnosis as JSON. Infinities and NaN are written as text."""
        return report_json(self)

    def node_data(self) -> NodeData:
        """The errors of composites in the graph of `@main`."""
        calls = [c for each in self.composites if each.call.name != OUTSIDE for c in each.calls]
        values = {call.node: call.rank[1] for call in calls}
        return NodeData("error", values, {call.node: call.problem is not None for call in calls})

    def table(self) -> "Table":
        """A row for each composite."""
        title = f"errors of @{self.module or 'module'}"
        wrong = [each.worst.problem is not None for each in self.composites]
        return report_table(_TEXTS, _NUMBERS, map(_cells, self.composites), title, _CAPTION, wrong)


def _cells(row: DiagnosedComposite) -> tuple[str, ...]:
    name, attributes, types, *_ = cells(row.call)
    worst = row.worst
    added = [call.added.error for call in row.calls if call.added is not None]
    own = ("", "", "", "", "", "")
    if worst.own is not None:
        pcc = "" if worst.own.pcc is None else f"{worst.own.pcc:.6f}"
        numbers = (f"{worst.own.absolute:.1e}", f"{worst.own.ulps:.3g}", pcc)
        own = (f"{worst.own.error:.1e}", *numbers, str(worst.own.nans), str(worst.own.infinities))
    error, *others = own
    return (
        *(name, attributes, "" if row.call.name == OUTSIDE else types, row.kernel or ""),
        "failed" if worst.own is None else "wrong" if worst.problem else "right",
        str(len(row.calls)),
        str(sum(call.problem is not None for call in row.calls)),
        str(worst.number),
        error,
        f"{row.tolerance:.0e}",
        f"{max(added):.1e}" if added else "",
        *others,
    )
