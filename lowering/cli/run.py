"""`composites run`: run a script and show the composites in its graphs.

The script runs unchanged in its own process, and the frontend writes its graphs to files.
"""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from composites.child_processes import FOR_XLA_ON_CPU, run_to_end, signal_name
from composites.settings import CHECK_EVERY, COMPILE, STATS
from lowering.cli.errors import clear_errors, fail
from lowering.cli.output import numbers, print_table, texts
from lowering.frontends import jax_dumps
from lowering.frontends.chosen import is_installed
from lowering.frontends.torch_xla.dumps import dumping_to, read_dump
from lowering.stablehlo import Module, Report, inspect
from lowering.stablehlo.inspection.table import readable_value
from lowering.stats.data import Checks, Stats, read_stats

_WITHOUT_TORCH_XLA = (
    "; without torch_xla, PyTorch programs have composites in composites.export, and under"
    ' torch.compile(…, backend="composites"), which --compile makes the default'
)

_WITHOUT_CHECKS = 'no graph of backend="composites" has a kernel to check'
_WITHOUT_STATS = (
    'no check is known: no process with a graph of backend="composites" came to the end of Python,'
    " which a signal or os._exit skips"
)


def run(
    script: Annotated[str, typer.Argument(help="A Python script.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Its arguments.", show_default=False)
    ] = None,
    compile: Annotated[
        bool,
        typer.Option(
            "--compile",
            help='Have torch.compile use backend="composites" instead of its default, "inductor".',
        ),
    ] = False,
    check_every: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            show_default=False,
            help='Compare the kernels in graphs of backend="composites" with the decompositions'
            " that they replace, at the first of each N calls of a graph.",
        ),
    ] = None,
) -> None:
    """Run a script and show the composites in its graphs.

    Further tables show the chosen decompositions, the calls that were not claimed, with reasons,
    and the entries that were on and caught nothing. Unless GLIBC_TUNABLES is set, it becomes
    glibc.malloc.hugetlb=1, for memory on the CPU.

    Example: XLA_COMPOSITE_OP=gelu,softmax composites run train.py

    Example: XLA_COMPOSITE_OP=all composites run --compile --check-every 100 train.py
    """
    if not Path(script).is_file():
        fail(f"there is no file {script}")
    with clear_errors():
        variables = {COMPILE.name: "1"} if compile else {}
        if check_every is not None:
            variables[CHECK_EVERY.name] = str(check_every)
        watched = watch([script, *(arguments or [])], variables)
    stats = watched.stats
    further = (decompositions_table(stats), fallbacks_table(stats), checks_table(stats.checks))
    tables = [composites_table(watched)] if watched.graphs else []
    for table in (*tables, *(table for table in further if table.row_count)):
        print_table(table)
    if check_every is not None and not stats.checks.rows:
        typer.echo(_WITHOUT_CHECKS if watched.wrote_stats else _WITHOUT_STATS)
    idle = stats.idle_listed()
    if idle:
        typer.echo(f"on, and caught no call: {idle}")
    if not watched.graphs and watched.exit_code == 0:
        why = '; move its model to the device "xla"' if is_installed() else _WITHOUT_TORCH_XLA
        fail(f"{script} ran no graph on an XLA device, and JAX compiled none{why}")
    if watched.exit_code < 0:
        typer.echo(f"{script} was ended by {signal_name(-watched.exit_code)}", err=True)
        raise typer.Exit(128 - watched.exit_code)  # as in a shell
    raise typer.Exit(watched.exit_code)


@dataclass(frozen=True, slots=True)
class WatchedGraph:
    """A graph that the script ran, once or several times."""

    runs: int
    report: Report
    compiled: bool
    """True if torch.compile built the graph, of which torch_xla writes only the first run."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The result of running a script."""

    exit_code: int
    graphs: tuple[WatchedGraph, ...]
    """Distinct graphs, in the order in which they first ran."""
    stats: Stats
    """The outcomes of the calls that reached a hook."""
    wrote_stats: bool = True
    """False if no process wrote statistics at its end."""
    is_jax: bool = False
    """True if JAX compiled the graphs. The number of their runs is unknown."""


def watch(command: Sequence[str], variables: Mapping[str, str]) -> Watched:
    """Run a Python script with its arguments, and with environment variables, and collect its
    graphs. Variables of `FOR_XLA_ON_CPU` are set too, unless the environment has them."""
    with tempfile.TemporaryDirectory(prefix="composites-") as folder:
        dump, jax_dump = Path(folder) / "graphs", Path(folder) / "jax"
        stats_file = Path(folder) / "stats.jsonl"
        dumping = {**dumping_to(dump), **jax_dumps.dumping_to(jax_dump)}
        environment = {**FOR_XLA_ON_CPU, **os.environ, **variables, **dumping}
        environment[STATS.name] = str(stats_file)
        exit_code = run_to_end([sys.executable, *command], environment)
        stats, wrote_stats = read_stats(stats_file), stats_file.exists()
        written = [g for file in sorted(Path(folder).glob("graphs*")) for g in read_dump(file)]
        compiled_by_jax = jax_dumps.read_dumps(jax_dump)
    runs = Counter(graph.hash for graph in written if not graph.compiled)
    texts = {graph.hash: graph.text for graph in written if not graph.compiled}
    compiled = {graph.hash for graph in written if graph.compiled}
    if not written:  # in a PyTorch program, JAX serves decompositions
        runs, texts, compiled = Counter(compiled_by_jax), {t: t for t in compiled_by_jax}, set()
    graphs = [
        WatchedGraph(count, inspect(Module.parse(texts[key])), key in compiled or not written)
        for key, count in runs.items()
    ]
    return Watched(exit_code, tuple(graphs), stats, wrote_stats, is_jax=not written)


def composites_table(watched: Watched) -> Table:
    """A table with one row for each composite.

    `graphs` is the number of graphs that contain the composite. `calls` counts the calls in these
    graphs, and `run` counts them once for each run of a graph. `share` is the largest share of a
    graph's operations.
    """
    table = Table(
        *texts("composite", "attributes"),
        *numbers("graphs", "calls", "run", "share"),
        title="composites preserved in the graphs that ran",
    )
    rows: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
    for graph in watched.graphs:
        counts: dict[tuple[str, str], tuple[int, float]] = {}
        for row in graph.report.composites:
            attributes = ", ".join(f"{k}={readable_value(v)}" for k, v in row.attributes.items())
            count, share = counts.get((row.name, attributes), (0, 0.0))
            counts[row.name, attributes] = (count + row.count, share + row.share)
        for key, (count, share) in counts.items():
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
    if watched.is_jax:
        table.caption += "; JAX says which programs it compiled, and not how often they ran"
    elif compiled:
        table.caption += f"; {compiled} built by torch.compile, where only the first run is seen"
    return table


def fallbacks_table(stats: Stats) -> Table:
    """A table with one row for each reason why an entry did not claim calls."""
    columns = *texts("entry", "operands", "reason", "first call"), *numbers("calls")
    table = Table(*columns, title="calls that reached an entry and were not claimed")
    for name, entry in stats.entries.items():
        for fallback in entry.fallbacks:
            site = next(iter(fallback.sites), "")
            cells = (Text(name), Text(fallback.operands), Text(fallback.reason), Text(_near(site)))
            table.add_row(*cells, str(fallback.calls))
    return table


def decompositions_table(stats: Stats) -> Table:
    """A table with one row for each decomposition of distinct calls, if alternatives were
    chosen."""
    columns = *texts("entry", "decomposition"), *numbers("distinct calls"), *texts("left out")
    table = Table(*columns, title="decompositions, where alternatives are chosen")
    for name, entry in stats.entries.items():
        rows = dict(entry.decompositions)
        rows |= {d.alternative: rows.get(d.alternative, 0) for d in entry.declined}
        for decomposition, calls in rows.items():
            reasons = [
                f"{d.calls}: {d.reason}" for d in entry.declined if d.alternative == decomposition
            ]
            cells = (Text(name), Text(decomposition), str(calls), Text("; ".join(reasons)))
            table.add_row(*cells)
    return table


def checks_table(checks: Checks) -> Table:
    """A table with one row for each kernel and each alternative that was checked."""
    columns = (
        *texts("composite", "kernel", "verdict"),
        *numbers("calls", "wrong", "error", "allowed"),
    )
    table = Table(*columns, title="kernels beside the decompositions that they replace")
    for row in checks.rows:
        error = "failed" if row.error is None else f"{row.error:.1e}"
        cells = (Text(row.composite), Text(row.kernel), "wrong" if row.wrong else "right")
        table.add_row(*cells, str(row.calls), str(row.wrong), error, f"{row.tolerance:.0e}")
    table.caption = f"the checks took {checks.seconds:.1f} s"
    return table


def _near(site: str) -> str:
    """A call site whose path is relative to the working directory, if the file is in it."""
    file, colon, line = site.rpartition(":")
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return f"{path.relative_to(Path.cwd())}{colon}{line}"
    return site
