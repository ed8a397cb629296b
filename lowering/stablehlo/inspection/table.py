"""Reports as tables for the terminal."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from .cast_report import Cast, CastReport
from .report import CompositeReport, Report

if TYPE_CHECKING:
    from rich.table import Table


def report_table(
    texts: Sequence[str],
    numbers: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    caption: str = "",
    wrong: Iterable[bool] = (),
) -> "Table":
    """A table with columns for `texts`, which are folded, and for `numbers`, which are not. Rows
    that are `wrong` are red."""
    from rich.table import Table
    from rich.text import Text

    # Text, not str: rich would read [brackets] in types and attributes as markup.
    table = Table(title=Text(title), caption=Text(caption))
    for heading in texts:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    for row, is_wrong in zip_longest(rows, wrong):
        table.add_row(*map(Text, row), style="red" if is_wrong else None)
    return table


def composite_table(report: Report) -> "Table":
    """The composites of a report, one row each. Title and caption have the module's totals."""
    inside = report.operations - report.plain_operations
    part = inside / report.operations if report.operations else 0.0
    return report_table(
        ("composite", "attributes", "types"),
        ("count", "ops", "bytes", "share"),
        map(cells, report.composites),
        f"composites of @{report.module or 'module'}",
        f"{report.operations} operations, {inside} of them in composites ({part:.0%}); "
        f"{readable_bytes(report.bytes)} of values",
    )


def cells(row: CompositeReport) -> tuple[str, ...]:
    """One composite as text, in the order of the table's columns."""
    name = row.name if row.version == 0 else f"{row.name} v{row.version}"
    return (
        name,
        ", ".join(f"{key}={readable_value(value)}" for key, value in row.attributes.items()),
        readable_types(row.operands, row.results),
        str(row.count),
        str(row.operations),
        readable_bytes(row.bytes),
        f"{row.share:.1%}",
    )


def cast_table(report: CastReport) -> "Table":
    """The casts of a report, one row each, most bytes first. The caption has the totals by kind."""
    kinds = "".join(f", {count} {kind}" for kind, count in report.kinds.items())
    return report_table(
        ("function", "made by", "cast", "kind", "read by"),
        ("count", "bytes"),
        map(_cast_cells, report.casts),
        f"casts of @{report.module or 'module'}",
        f"{report.count} casts{kinds}; {readable_bytes(report.bytes)} read and written",
    )


def _cast_cells(row: Cast) -> tuple[str, ...]:
    shape = "".join(f"{'?' if size is None else size}x" for size in row.shape)
    cast = f"{shape}{row.from_type} -> {row.to_type}"
    users, count, size = ", ".join(row.users), str(row.count), readable_bytes(row.total_bytes)
    return (f"@{row.function}", row.source, cast, row.kind, users, count, size)


def readable_value(value: Any) -> str:
    """An attribute's value in short form. Floats have six digits, the precision of f32
    attributes."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def readable_bytes(count: int) -> str:
    """A byte count with a unit, such as 1.5 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def readable_seconds(seconds: float) -> str:
    """A time with a unit, such as 1.5 ms."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def readable_types(operands: tuple[str, ...], results: tuple[str, ...]) -> str:
    """The types of a call without the word tensor: `8x16xf32, i64 -> 8xf32`."""
    operand_types, result_types = (
        ", ".join(type_.removeprefix("tensor<").removesuffix(">") for type_ in types)
        for types in (operands, results)
    )
    return f"{operand_types} -> {result_types}"
