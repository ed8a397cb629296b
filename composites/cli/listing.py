"""What `composites list` shows: the entries of a catalog as data, and as a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypedDict

from rich.table import Table
from rich.text import Text

from composites.registry.catalog import Catalog
from composites.registry.model import Composite


class Listed(TypedDict):
    """An entry, as `composites list --json` prints it."""

    name: str
    """With its namespace, as XLA_COMPOSITE_OP takes it."""
    composite: str
    """The composite's name in StableHLO."""
    version: int
    op: str | None
    functions: Sequence[str]
    copies: Sequence[str]
    """Packages in which it catches the copies of these functions."""
    attributes: Sequence[str]
    group: str | None
    on: bool
    file: str
    line: int


def listed(catalog: Catalog, on: Collection[Composite]) -> list[Listed]:
    """The entries of a catalog as data, each with whether it is `on`."""
    return [
        Listed(
            name=catalog.label(entry),
            composite=entry.composite_name,
            version=entry.version,
            op=entry.op,
            functions=entry.functions,
            copies=entry.copies,
            attributes=[attribute.name for attribute in entry.attributes],
            group=entry.group,
            on=entry in on,
            file=entry.location.file,
            line=entry.location.line,
        )
        for entry in catalog
    ]


def listing_table(entries: Iterable[Listed]) -> Table:
    """One row for each entry."""
    table = Table()
    for heading in ("composite", "catches", "attributes"):
        table.add_column(heading, overflow="fold")
    table.add_column("on", no_wrap=True, min_width=len("yes"))
    for entry in entries:
        functions = dict.fromkeys(target.partition(":")[2] for target in entry["functions"])
        table.add_row(
            Text(f"{entry['name'].partition('@')[0]} v{entry['version']}"),
            Text(entry["op"] or ", ".join(functions) + _copies(entry)),
            Text(", ".join(entry["attributes"])),
            "yes" if entry["on"] else "",
        )
    return table


def _copies(entry: Listed) -> str:
    return f", and copies in {', '.join(entry['copies'])}" if entry["copies"] else ""
