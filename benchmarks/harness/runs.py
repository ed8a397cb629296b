"""The command of a benchmark: its options, its cases, and what an earlier run has measured."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")


def parser_of(
    documentation: str | None, *, repeats: int | None = None, budget: float | None = None
) -> argparse.ArgumentParser:
    """The options that benchmarks share.

    Args:
        documentation: of the script, whose first line describes the command.
        repeats: the default of `--repeats`, blocks of samples of each side.
        budget: the default of `--budget`, the seconds that one case takes, about. A script with a
            budget also has `--results`, since it can take hours.
    """
    parser = argparse.ArgumentParser(description=(documentation or "").partition("\n")[0])
    parser.add_argument("--names", default="", help="a regular expression; only these cases")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    if repeats is not None:
        parser.add_argument("--repeats", type=int, default=repeats, help="blocks of each side")
    if budget is not None:
        parser.add_argument("--budget", type=float, default=budget, help="seconds of a case, about")
        parser.add_argument("--results", type=Path, help="JSON lines; go on with an earlier run")
    return parser


def chosen(names: Iterable[str], pattern: str) -> list[str]:
    """The names that a regular expression matches somewhere.

    Raises:
        SystemExit: there is none.
    """
    listed = list(names)
    matching = [name for name in listed if re.search(pattern, name)]
    if not matching:
        sys.exit(f"--names {pattern!r} matches no case (there are {'; '.join(listed)})")
    return matching


@dataclass(frozen=True, slots=True)
class Measured(Generic[Row]):
    """The rows of one case, and the part of the benchmark that the case belongs to."""

    part: str
    name: str
    rows: Sequence[Row] = ()
    failure: str = ""
    """The reason why there are no rows."""


Case = tuple[str, str, Callable[[], Iterable[Row]]]
"""Part, name, and the function that measures the rows."""


def measured(
    cases: Iterable[Case[Row]],
    results: Path | None = None,
    load: Callable[[str, Any], Row] = lambda part, row: row,
) -> Iterator[Measured[Row]]:
    """Measure cases, but for those that the file `results` has, to which new ones are appended.

    The others are measured even if one fails.

    Args:
        cases: what to measure.
        results: a file of JSON lines.
        load: makes a row of its part and of what JSON has for it.
    """
    before = {(record["part"], record["name"]): record for record in read_records(results)}
    for part, name, measure in cases:
        if (part, name) in before:
            rows = [load(part, row) for row in before[part, name]["rows"]]
            yield Measured(part, name, rows)
            continue
        print(f"{part} {name}".strip(), file=sys.stderr, flush=True)
        try:
            case = Measured(part, name, list(measure()))
        except Exception as error:  # also the end of a process
            yield Measured(part, name, failure=f"{type(error).__name__}: {error}")
            continue
        append_records(results, [case])
        yield case


def failures(measured: Iterable[Measured[Any]]) -> str | None:
    """The cases that have failed, for `sys.exit`, or None."""
    failed = [f"not measured: {case.name}: {case.failure}" for case in measured if case.failure]
    return "\n".join(failed) or None


def read_records(path: Path | None) -> list[dict[str, Any]]:
    """The dictionaries in a file of JSON lines; none without a file."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append_records(path: Path | None, rows: Iterable[Any]) -> None:
    """Write dataclasses at the end of a file of JSON lines."""
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
