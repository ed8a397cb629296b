"""Tables in Markdown, as the pages of benchmarks/ have them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()
) -> list[str]:
    """The lines of a table. Cells of the columns `numbers`, counted from 0, stand at the right."""
    rule = "".join("|--:" if column in numbers else "|---" for column in range(len(head)))
    return [_line(head), f"{rule}|", *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
