"""Run a script and find the composites in the graphs that it built.

The script runs in its own process, and the frontend writes its graphs to files. The script itself
needs no change.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from lowering.frontends.chosen import dumping_to, read_dump
from lowering.stablehlo import Module, Report, inspect
from lowering.stablehlo.inspection.table import readable_value


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph that the script ran, once or several times."""

    runs: int
    report: Report
    compiled: bool
    """Whether torch.compile built it. torch_xla does not write later runs of such a graph."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The result of running a script."""

    exit_code: int
    graphs: tuple[Graph, ...]
    """Distinct graphs, in the order in which they first ran."""


def watch(command: Sequence[str]) -> Watched:
    """Run a Python script with its arguments and collect its graphs."""
    with tempfile.TemporaryDirectory(prefix="composites-") as folder:
        dump = Path(folder) / "graphs"
        environment = os.environ | dumping_to(dump)
        exit_code = subprocess.run(
            [sys.executable, *command], env=environment, check=False
        ).returncode
        written = [graph for file in sorted(dump.parent.iterdir()) for graph in read_dump(file)]
    runs: Counter[str] = Counter()
    texts: dict[str, str] = {}
    compiled: set[str] = set()
    for graph in written:
        if graph.compiled:
            compiled.add(graph.hash)
            continue
        runs[graph.hash] += 1
        texts[graph.hash] = graph.text
    found = (
        Graph(runs[key], inspect(Module.parse(text)), key in compiled)
        for key, text in texts.items()
    )
    return Watched(exit_code, tuple(found))


def composites_table(watched: Watched) -> Table:
    """One row for each composite.

    `graphs` is the number of graphs that contain it. `calls` counts its calls in these graphs, and
    `run` counts them once for each run of a graph. `share` is its largest share of a graph's
    operations.
    """
    table = Table(title="composites preserved in the graphs that ran")
    for heading in ("composite", "attributes"):
        table.add_column(heading, overflow="fold")
    for heading in ("graphs", "calls", "run", "share"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
    for graph in watched.graphs:
        found: dict[tuple[str, str], tuple[int, float]] = {}
        for row in graph.report.composites:
            attributes = ", ".join(f"{k}={readable_value(v)}" for k, v in row.attributes.items())
            count, share = found.get((row.name, attributes), (0, 0.0))
            found[row.name, attributes] = (count + row.count, share + row.share)
        for key, (count, share) in found.items():
            rows.setdefault(key, []).append((graph.runs, count, share))
    for (name, attributes), uses in sorted(rows.items()):
        table.add_row(
            name,
            Text(attributes),  # rich would read [brackets] as markup
            str(len(uses)),
            str(sum(count for _, count, _ in uses)),
            str(sum(runs * count for runs, count, _ in uses)),
            f"{max(share for _, _, share in uses):.1%}",
        )
    total = sum(graph.runs for graph in watched.graphs)
    distinct = len(watched.graphs)
    table.caption = "1 graph" if distinct == 1 else f"{distinct} different graphs"
    table.caption += f", {total} run{'s' * (total != 1)}"
    compiled = sum(graph.compiled for graph in watched.graphs)
    if compiled:
        table.caption += f"; {compiled} built by torch.compile, where only the first run is seen"
    return table
