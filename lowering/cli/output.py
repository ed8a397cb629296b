"""Output of commands on stdout: JSON, and tables, which are fitted to the width of a terminal, and
complete if another program reads them."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from composites.files import write_atomic
from lowering.cli.errors import fail
from lowering.stablehlo import Module
from lowering.stablehlo.inspection.node_data import NodeData, shares
from lowering.stablehlo.inspection.report import finite

_ANY_WIDTH = 1_000_000
_NARROWEST = 16
"""The smallest width of a folded column in characters, in which a name is readable."""


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
"""The option of commands that print a table."""
NodeDataFile = Annotated[
    Path | None,
    typer.Option(
        "--node-data",
        metavar="FILE.json",
        help="Also write custom node data for Model Explorer: the error of each composite, or, for"
        " inspect, its share of the operations. compare and diagnose also write FILE.share.json,"
        " and times (compare, and diagnose --time) as FILE.seconds.json.",
    ),
]
"""The option of commands that compute a number for each composite of a graph."""


def check_folders(*files: Path | None) -> None:
    """Fail if the folder of a file is missing, before the work whose result is written to it."""
    for file in files:
        if file is not None and not file.parent.is_dir():
            fail(f"there is no folder {file.parent}; create it")


def write_node_data(file: Path, graph: Module, source: Module, *data: NodeData) -> None:
    """Write node data and shares, the first item to `file` and further items to files beside it.
    Also write the graph if it differs from the source."""
    for number, item in enumerate((*data, shares(graph))):
        beside = file.with_suffix(f".{item.name}{file.suffix}")
        write_atomic(beside if number else file, item.to_json())
    if graph.text != source.text:  # operations have other numbers in the source
        graph.write(file.with_suffix(".mlir"))
        typer.echo(f"the graph of {file} is {file.with_suffix('.mlir')}", err=True)


def print_json(data: object) -> None:
    """Print data as JSON, for other programs. Infinities and NaN are text."""
    typer.echo(json.dumps(finite(data), indent=2, allow_nan=False))


def texts(*headings: str) -> list[Column]:
    """Columns of a table for texts, which are folded on a narrow terminal."""
    return [Column(heading, overflow="fold") for heading in headings]


def numbers(*headings: str) -> list[Column]:
    """Columns of a table for numbers, aligned at the right."""
    return [Column(heading, justify="right", no_wrap=True) for heading in headings]


def print_table(table: Table) -> None:
    """Print a table.

    On a terminal, rich folds wide columns. If columns would be too narrow to be read, each row is
    printed as a few lines. For a pipe or a file, nothing is truncated or folded, so that grep finds
    every name.
    """
    if sys.stdout.isatty():
        terminal = Console()
        if _is_readable(table, terminal):
            terminal.print(table)
        else:
            _print_stacked(table, terminal)
        return
    console = Console(width=_ANY_WIDTH)
    # rich folds the title and the caption at the width of the columns.
    around = [part for part in (table.title, table.caption) if part]
    table.min_width = max((console.measure(part).maximum for part in around), default=None)
    console.print(table)


def _is_readable(table: Table, console: Console) -> bool:
    """Return whether the numbers, and a few characters of each text, fit in their columns."""
    needed = 1
    for column in table.columns:
        texts = [column.header, *column.cells]
        width = max((console.measure(text).maximum for text in texts), default=0)
        folds = column.justify != "right" and not column.no_wrap
        needed += 3 + (min(width, _NARROWEST) if folds else width)
    return needed <= console.width


def _print_stacked(table: Table, terminal: Console) -> None:
    """Print each row as its first cell, a line for each text with its heading, and the numbers."""
    if table.title:
        terminal.print(table.title, style="table.title")
    first, *remaining = table.columns
    for number, name in enumerate(first.cells):
        terminal.print(name, style="bold")
        lines: list[Text] = []
        figures: list[Text] = []
        for column in remaining:
            value = list(column.cells)[number]
            text = value if isinstance(value, Text) else Text(str(value))
            labelled = Text.assemble((f"{column.header}: ", "dim"), text)
            if text:
                (figures if column.justify == "right" else lines).append(labelled)
        for line in (*lines, Text("  ").join(figures)):
            terminal.print(Padding(line, (0, 0, 0, 2)), overflow="fold")
    if table.caption:
        terminal.print(table.caption, style="table.caption")
