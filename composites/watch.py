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
from rich.text import Text

from lowering.stablehlo import Module, Report, inspect
from lowering.stablehlo.inspection.table import readable_value

_GRAPH = re.compile(
    r"^\[(?P<kind>\w+)\]\n(?:(?!^## ).)*?^## BEGIN_GRAPH\n(?P<text>.*?)\n+"
    r"^Graph Hash: (?P<hash>[0-9a-f]+)\n",
    re.DOTALL | re.MULTILINE,
)
_COMPILED = "dynamo"
"""The kind of a graph of torch.compile, written once more beside what compiles it."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph that the script ran, once or several times."""

    runs: int
    report: Report
    compiled: bool
    """Whether torch.compile made it; torch_xla does not write its later runs."""


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
    compiled: set[str] = set()
    for found in (match for text in dumps for match in _GRAPH.finditer(text)):
        if found["kind"] == _COMPILED:
            compiled.add(found["hash"])
            continue
        runs[found["hash"]] += 1
        texts[found["hash"]] = found["text"]
    graphs = (
        Graph(runs[key], inspect(Module.parse(text)), key in compiled)
        for key, text in texts.items()
    )
    return Watched(exit_code, tuple(graphs))


def composites_table(watched: Watched) -> Table:
    """One row for each composite: in how many graphs it is, how often, and how much of them it is.

    `calls` are those in the graphs, `run` counts them once for each run of a graph, and `share` is
    the largest part of a graph's operations.
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
    table.caption = f"{len(watched.graphs)} different graphs, {total} runs"
    compiled = sum(graph.compiled for graph in watched.graphs)
    if compiled:
        table.caption += f"; of {compiled} that torch.compile made, only the first run is seen"
    return table
