"""A diagnosis as a table for the terminal."""

from typing import TYPE_CHECKING

from ..inspection.table import readable_types, readable_value, report_table
from .results import OUTSIDE, DiagnosedPart, Diagnosis

if TYPE_CHECKING:
    from rich.table import Table

_TEXTS = ("composite", "attributes", "types", "kernel", "verdict")
_NUMBERS = (
    "calls",
    "wrong",
    "worst call",
    "error",
    "allowed",
    "adds up to",
    "largest",
    "ulps",
    "pcc",
    "nan",
    "inf",
)


def diagnosis_table(diagnosis: Diagnosis) -> "Table":
    """One row for calls that differ in their place only; who brings the error in is first."""
    from rich.text import Text

    groups = diagnosis.groups
    caption = (
        "of the worst call, with the reference's operands; error: relative to the largest value;"
        " adds up to: the largest error of these calls where the device has computed the operands"
    )
    if diagnosis.in_regions:
        caption += f"; {diagnosis.in_regions} composites in loops count as {OUTSIDE}"
    table = report_table(
        _TEXTS,
        _NUMBERS,
        map(_cells, groups),
        Text(f"errors of @{diagnosis.module or 'module'}"),
        Text(caption),
    )
    for row, group in zip(table.rows, groups, strict=True):
        row.style = None if group[0].problem is None else "red"
    return table


def _cells(group: tuple[DiagnosedPart, ...]) -> tuple[str, ...]:
    worst = group[0]
    is_composite = worst.composite != OUTSIDE
    name = f"{worst.composite} v{worst.version}" if worst.version else worst.composite
    attributes = ", ".join(f"{k}={readable_value(v)}" for k, v in worst.attributes.items())
    types = readable_types(worst.operands, worst.results) if is_composite else ""
    wrong = sum(part.problem is not None for part in group)
    verdict = "failed" if worst.own is None else "wrong" if worst.problem else "right"
    added = max((part.added.error for part in group if part.added is not None), default=None)
    return (
        name,
        attributes,
        types,
        worst.kernel or (f"none: {worst.why_no_kernel}" if worst.why_no_kernel else ""),
        verdict,
        str(len(group)),
        str(wrong),
        str(worst.number),
        *_measured(worst, added),
    )


def _measured(worst: DiagnosedPart, added: float | None) -> tuple[str, ...]:
    own = worst.own
    together = "" if added is None else f"{added:.1e}"
    if own is None:
        return ("", f"{worst.tolerance:.0e}", together, "", "", "", "", "")
    return (
        f"{own.error:.1e}",
        f"{worst.tolerance:.0e}",
        together,
        f"{own.absolute:.1e}",
        f"{own.ulps:.3g}",
        "" if own.pcc is None else f"{own.pcc:.6f}",
        str(own.nans),
        str(own.infinities),
    )
