"""Tables on stdout: fitted to a terminal, and whole where another program reads them."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

_ANY_WIDTH = 1_000_000


def print_table(table: Table) -> None:
    """Print a table.

    A terminal has a width, and rich folds what is wider. A pipe or a file has none. Nothing is cut
    or folded there, so that grep finds every name.
    """
    if sys.stdout.isatty():
        Console().print(table)
        return
    console = Console(width=_ANY_WIDTH)
    # rich folds the title and the caption at the width of the columns.
    around = [part for part in (table.title, table.caption) if part]
    table.min_width = max((console.measure(part).maximum for part in around), default=None)
    console.print(table)
