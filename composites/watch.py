"""Run a script and read the graphs that it built: which composites were in them.

torch_xla writes every graph it compiles or runs to a file when asked to (XLA_SAVE_TENSORS_FILE
and XLA_SAVE_TENSORS_FMT, torch_xla 2.9), so the script needs no change and is watched from
outside, in a process of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from lowering.stablehlo import Module, Report, inspect

_GRAPH = re.compile(
    r"^## BEGIN_GRAPH\n(?P<text>.*?)\n\nGraph Hash: (?P<hash>[0-9a-f]+)\n", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph that the script ran, once or several times."""

    runs: int
    report: Report


@dataclass(frozen=True, slots=True)
class Watched:
    """What a script did."""

    exit_code: int
    graphs: tuple[Graph, ...]
    """Different graphs, in the order in which they first ran."""


def watch(command: Sequence[str]) -> Watched:
    """Run a Python script with its arguments and collect its graphs."""
    with tempfile.TemporaryDirectory(prefix="composites-") as folder:
        dump = Path(folder) / "graphs"
        environment = os.environ | {
            "XLA_SAVE_TENSORS_FILE": str(dump),
            "XLA_SAVE_TENSORS_FMT": "stablehlo",
        }
        exit_code = subprocess.run(
            [sys.executable, *command], env=environment, check=False
        ).returncode
        # One file for each device ordinal: graphs.0, graphs.1, …
        dumps = [path.read_text(encoding="utf-8") for path in sorted(dump.parent.iterdir())]
    runs: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for found in (match for text in dumps for match in _GRAPH.finditer(text)):
        runs[found["hash"]] += 1
        texts[found["hash"]] = found["text"]
    graphs = (Graph(runs[key], inspect(Module.parse(text))) for key, text in texts.items())
    return Watched(exit_code, tuple(graphs))


def composites_table(watched: Watched) -> Table:
    """One row for each composite: in how many graphs, how many calls, how much of the graph."""
    table = Table(title="composites preserved in the graphs that ran")
    for heading in ("composite", "attributes"):
        table.add_column(heading, no_wrap=True)
    for heading in ("graphs", "calls", "calls run", "largest share of a graph"):
        table.add_column(heading, justify="right")
    rows: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
    for graph in watched.graphs:
        found: dict[tuple[str, str], tuple[int, float]] = {}
        for row in graph.report.composites:
            attributes = ", ".join(f"{k}={_short(v)}" for k, v in row.attributes.items())
            count, share = found.get((row.name, attributes), (0, 0.0))
            found[row.name, attributes] = (count + row.count, share + row.share)
        for key, (count, share) in found.items():
            rows.setdefault(key, []).append((graph.runs, count, share))
    for (name, attributes), uses in sorted(rows.items()):
        table.add_row(
            name,
            attributes,
            str(len(uses)),
            str(sum(count for _, count, _ in uses)),
            str(sum(runs * count for runs, count, _ in uses)),
            f"{max(share for _, _, share in uses):.1%}",
        )
    total = sum(graph.runs for graph in watched.graphs)
    table.caption = f"{len(watched.graphs)} different graphs, {total} runs"
    return table


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
