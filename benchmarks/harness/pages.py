"""Tables and pages in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()
) -> list[str]:
    """The lines of a table. Cells of the columns `numbers`, counted from 0, stand at the right."""
    rule = "".join("|--:" if column in numbers else "|---" for column in range(len(head)))
    return [_line(head), f"{rule}|", *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@dataclass(frozen=True, slots=True)
class Line:
    """The cells of a line of one of a page's tables."""

    table: str
    cells: Sequence[str]


def sections(heads: Mapping[str, Sequence[str]], lines: Iterable[Line]) -> list[str | list[str]]:
    """The tables that have lines, each with its title.

    Args:
        heads: the head of each table, by its title.
    """
    shown = list(lines)
    paragraphs: list[str | list[str]] = []
    for title, head in heads.items():
        if cells := [line.cells for line in shown if line.table == title]:
            paragraphs += [f"## {title}", markdown_table(head, cells)]
    return paragraphs


def page(title: str, *paragraphs: str | Sequence[str]) -> str:
    """A page of paragraphs; a paragraph of several lines, such as a table, is a list of lines."""
    texts = [part if isinstance(part, str) else "\n".join(part) for part in paragraphs]
    return "\n\n".join([f"# {title}", *filter(None, texts)]) + "\n"


def publish(text: str, path: Path | None) -> None:
    """Print a page, and write it to a file."""
    print(text)
    if path is not None:
        path.write_text(text, encoding="utf-8")


def rendered(template: str, **values: Any) -> str:
    """The page of a template in benchmarks/."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)


def versions_of(*packages: str) -> str:
    """The packages that are installed with their versions, as one text."""
    written = []
    for name in packages:
        with suppress(PackageNotFoundError):
            written.append(f"{name} {version(name)}")
    return ", ".join(written)
