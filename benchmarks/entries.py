"""Every entry at the size of a real model, live on torch_xla's CPU device, against stock.

    python -m benchmarks.entries [--names gelu,softmax] [--repeats 12] [--budget 10]
                                 [--results FILE] [--markdown benchmarks/ENTRIES.md]
                                 [--plot benchmarks/ENTRIES.svg]

A step is tracing, building and running, and ends when the device has finished. `forward` is a call
without gradients. `forward + backward` computes the results and all gradients, and `gradient` the
gradients alone, as in a training step whose loss nobody reads. Optimizers have `update`. All
composites have stock's decompositions.

- Stock and composites alternate in blocks in one process, as benchmarks/timing.py says. A ratio
  above the bar is measured up to three times as long before it counts.
- `compile` is what torch_xla counts as XLA's time for the graph, once on each side; there is none
  where an earlier entry of the process had the same graph.
- Of a row above the bar, the last column says how long tracing takes, stock -> composites, which is
  part of both times, and which operators stock leaves to PyTorch on the host.
- An entry that catches no call is an error, and so is one whose process ends.

With `--results`, rows are written to a file of JSON lines as soon as they are known, and entries
that are in it are not measured again: a run can be ended and gone on with. `--repeats` is how many
blocks each side has, and `--budget` about how many seconds they may take, of each mode. `--clock
processor` counts the time of all threads together, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch_xla.debug import metrics

import composites
from benchmarks import records
from benchmarks.calls import BOTH, FORWARD, GRADIENT, UPDATE, Call, Case, Mode, Placed
from benchmarks.entry_cases import CASES, NOT_MEASURED
from benchmarks.pages import markdown_table
from benchmarks.processes import CALLS_OF_A_PROCESS, each_in_processes
from benchmarks.timing import (
    CLOCKS,
    Ratio,
    affordable,
    alternated,
    conditions,
    milliseconds,
    ratio,
    seconds,
    seconds_compiling,
    settle,
    typical,
)

BAR = 1.03
ROUNDS = 3
"""How often a row that is above the bar is measured, at most."""
FEWEST = 4
"""Blocks of each side, however long they take."""
SAMPLES_OF_TRACING = 20

MODES = (FORWARD, BOTH, GRADIENT)


@dataclass(frozen=True, slots=True)
class Row:
    """An entry in one mode. Times are in seconds."""

    entry: str
    size: str
    mode: Mode
    compiles: tuple[float, float]
    """XLA's time for the graph: stock's, and that with composites. 0 if the process had it."""
    stock: list[list[float]]
    composites: list[list[float]]
    """Samples by block."""
    tracing: tuple[float, ...] = ()
    """Times of tracing alone, of both sides. They are taken of rows above the bar."""
    on_the_host: tuple[str, ...] = ()
    """Operators that stock torch_xla does not lower. They are looked up for rows above the bar."""

    @property
    def ratio(self) -> Ratio:
        return ratio(self.stock, self.composites)

    @property
    def verdict(self) -> str:
        return self.ratio.verdict(BAR)

    @property
    def is_above(self) -> bool:
        return self.verdict == "missed"

    def cells(self) -> tuple[str, ...]:
        return (
            self.entry,
            self.size,
            self.mode,
            milliseconds(typical(self.stock)),
            milliseconds(typical(self.composites)),
            f"{self.ratio.median:.2f}",
            self.ratio.middle_half,
            " / ".join(f"{each:.2f} s" if each else "none" for each in self.compiles),
            self._remark(),
        )

    def _remark(self) -> str:
        if not self.is_above:
            return "" if self.verdict == "met" else self.verdict
        remarks = ["above"]
        if self.tracing:
            remarks.append(f"tracing {' -> '.join(map(milliseconds, self.tracing))}")
        if self.on_the_host:
            remarks.append(f"stock runs {', '.join(self.on_the_host)} on the host")
        return "; ".join(remarks)


@dataclass(frozen=True, slots=True)
class Failure:
    """An entry that could not be measured, and why."""

    entry: str
    reason: str


COLUMNS = (
    *("entry", "size", "mode", "stock", "composites", "ratio", "middle half"),
    *("compile, stock / composites", ""),
)


def measure(case: Case, repeats: int, budget: float, clock: str) -> list[Row]:
    """All rows of a case."""
    torch.manual_seed(0)
    device = torch_xla.device()
    made = case.make()
    placed = made.placed(lambda tensor: tensor.to(device))
    settle()
    if made.modes == (UPDATE,):
        _step(placed, UPDATE)  # an optimizer's first step makes its state: another graph
    return [_row(case, placed, mode, repeats, budget, clock) for mode in made.modes]


def _row(
    case: Case, placed: Call | Placed, mode: Mode, repeats: int, budget: float, clock: str
) -> Row:
    expected, theirs = _first_step(placed, mode)
    with composites.enabled(case.entry):
        before = _calls(case.entry)
        found, own = _first_step(placed, mode)
        if _calls(case.entry) == before:
            raise RuntimeError(f"{case.name}, {mode}: the entry caught no call")
    if expected != found:
        raise RuntimeError(f"{case.name}, {mode}: stock has {expected} results, the entry {found}")

    def stock(samples: int) -> list[float]:
        return _samples(placed, mode, samples, clock)

    def ours(samples: int) -> list[float]:
        return _samples(placed, mode, samples, clock, case.entry)

    pairs, count = affordable(2 * min(stock(1)), budget, FEWEST, repeats)
    blocks: list[list[list[float]]] = [[], []]
    for _ in range(ROUNDS):
        for block, more in zip(blocks, alternated((stock, ours), pairs, count), strict=True):
            block += more
        if ratio(*blocks).verdict(BAR) == "met":
            break
    row = Row(case.entry, case.size, mode, (theirs, own), blocks[0], blocks[1])
    if not row.is_above:
        return row
    tracing = _tracing(placed, mode, clock), _tracing(placed, mode, clock, case.entry)
    return replace(row, tracing=tracing, on_the_host=_on_the_host(placed, mode))


def _tracing(placed: Call | Placed, mode: Mode, clock: str, entry: str | None = None) -> float:
    """The seconds that a step takes before the device has it: the median of some."""
    found = []
    with _on(entry):
        for _ in range(SAMPLES_OF_TRACING):
            duration, results = seconds(partial(placed.traced, mode), clock)
            found.append(duration)
            settle()
            del results
    return median(found)


def _on_the_host(placed: Call | Placed, mode: Mode) -> tuple[str, ...]:
    """The operators that stock leaves to PyTorch."""
    metrics.clear_counters()
    _step(placed, mode)
    return tuple(metrics.executed_fallback_ops())


def _on(entry: str | None) -> AbstractContextManager[Any]:
    """The entry, or none for stock's side."""
    return nullcontext() if entry is None else composites.enabled(entry)


def _first_step(placed: Call | Placed, mode: Mode) -> tuple[int, float]:
    """How many results it has, and XLA's time for its graph."""
    before = seconds_compiling()
    return _step(placed, mode), seconds_compiling() - before


def _calls(entry: str) -> int:
    found = composites.stats().entries.get(f"ptxla.{entry}")
    return 0 if found is None else found.calls


def _step(placed: Call | Placed, mode: Mode) -> int:
    """One step; returns how many results it has, beside what an optimizer changes."""
    results = placed.traced(mode)
    settle()
    return len(results)


def _samples(
    placed: Call | Placed, mode: Mode, count: int, clock: str, entry: str | None = None
) -> list[float]:
    with _on(entry):
        _step(placed, mode)  # fills caches
        return [seconds(partial(_step, placed, mode), clock)[0] for _ in range(count)]


def measured(
    names: Sequence[str], repeats: int, budget: float, clock: str
) -> Iterator[list[Row] | Failure]:
    """The rows of entries, measured in processes of a few entries each."""
    one = partial(_measured, repeats=repeats, budget=budget, clock=clock)
    found = each_in_processes(one, names, CALLS_OF_A_PROCESS)
    for name, result in zip(names, found, strict=True):
        if isinstance(result, BrokenProcessPool):
            yield Failure(name, "its process ended")
        else:
            yield result


def _measured(name: str, repeats: int, budget: float, clock: str) -> list[Row] | Failure:
    composites.disable()  # whatever XLA_COMPOSITE_OP turned on: the other side is stock
    cases = [case for case in CASES if case.entry == name]
    try:
        return [row for case in cases for row in measure(case, repeats, budget, clock)]
    except Exception as error:  # the other entries are measured nevertheless
        return Failure(name, f"{type(error).__name__}: {error}")


def read(results: Path | None) -> list[Row]:
    """The rows of an earlier run."""
    tuples = ("compiles", "tracing", "on_the_host")
    return [
        Row(**{**data, **{key: tuple(data.get(key, ())) for key in tuples}})
        for data in records.read(results)
    ]


def table(rows: Sequence[Row]) -> Table:
    found = Table(*COLUMNS)
    for row in rows:
        found.add_row(*row.cells())
    return found


def markdown(rows: Sequence[Row], notes: Sequence[str], picture: str | None) -> str:
    """The page."""
    lines = [
        "# Entries beside stock torch_xla",
        "",
        "Written by `python -m benchmarks.entries`, whose head says how it measures. `ratio` is",
        "composites to stock, the median over pairs of blocks, `middle half` its quartiles.",
        f"The bar is {BAR:g}. `~` is above it, but its lower quartile is not.",
        "",
    ]
    lines += [*notes, ""]
    if picture is not None:
        lines += [f"![The ratio of each entry, with its quartiles]({picture})", ""]
    lines += ["## Above the bar", ""]
    above = dict.fromkeys(row.entry for row in rows if row.is_above)
    lines += [
        ", ".join(f"`{name}`" for name in above) + "." if above else "None.",
        "",
        "## All",
        "",
    ]
    cells = [row.cells() for row in rows]
    lines += markdown_table(COLUMNS, cells, numbers=range(3, len(COLUMNS) - 1))
    lines += ["", "Backwards are measured with their forwards. Not measured:", ""]
    lines += [f"- `{name}`: {reason}." for name, reason in NOT_MEASURED.items()]
    absent = dict.fromkeys(case.entry for case in CASES)
    for row in rows:
        absent.pop(row.entry, None)
    if absent:
        lines += ["", f"Not in this run: {', '.join(f'`{name}`' for name in absent)}."]
    return "\n".join(lines) + "\n"


def plot(rows: Sequence[Row], path: Path) -> None:
    """The ratio of each entry with its quartiles, one picture for each mode."""
    from benchmarks.charts import COLOURS, GREY, chart

    # Optimizers stand among the steps with a backward.
    columns = {FORWARD: FORWARD, BOTH: BOTH, UPDATE: BOTH, GRADIENT: GRADIENT}
    modes = [mode for mode in MODES if any(columns[row.mode] == mode for row in rows)]
    names = list(dict.fromkeys(row.entry for row in rows))
    with chart(path, (10, 1.5 + 0.17 * len(names))) as figure:
        axes = figure.subplots(1, len(modes), sharey=True, squeeze=False)
        for axis, mode in zip(axes.flat, modes, strict=True):
            for row in rows:
                if columns[row.mode] != mode:
                    continue
                found, place = row.ratio, names.index(row.entry)
                colour = COLOURS[2] if row.is_above else COLOURS[0]
                axis.plot([found.lower, found.upper], [place, place], color=colour, linewidth=2)
                axis.plot([found.median], [place], color=colour, marker="o", markersize=4)
            axis.axvline(1, color=GREY, linewidth=1)
            axis.axvline(BAR, color=GREY, linewidth=1, linestyle=":")
            axis.set_title(mode if mode != BOTH else f"{mode}, or update")
            axis.set_xlabel("time relative to stock")
            axis.grid(visible=True, axis="x", color=GREY, alpha=0.25)
        axes.flat[0].set_yticks(range(len(names)), names, fontsize=7)
        axes.flat[0].set_ylim(len(names) - 0.5, -0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", help="entries, comma-separated; all without it")
    parser.add_argument("--repeats", type=int, default=12, help="blocks of samples on each side")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds for each mode, about")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help="for a busy machine")
    parser.add_argument("--results", type=Path, help="JSON lines; go on with an earlier run")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    parser.add_argument("--plot", type=Path, help="draw the ratios into this SVG file")
    options = parser.parse_args()
    known = list(dict.fromkeys(case.entry for case in CASES))
    names = options.names.split(",") if options.names else known
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"there is no case {unknown[0]!r} (there are {', '.join(known)})")
    rows = read(options.results)
    done = {row.entry for row in rows}
    left = [name for name in names if name not in done]
    failures: list[Failure] = []
    found = measured(left, options.repeats, options.budget, options.clock)
    for each in track(found, "entries", len(left), console=Console(stderr=True)):
        if isinstance(each, Failure):
            failures.append(each)
            continue
        rows += each
        records.append(options.results, each)
    rows = [row for row in rows if row.entry in names]
    rows.sort(key=lambda row: known.index(row.entry))
    Console(width=max(160, Console().width)).print(table(rows))
    if options.plot:
        plot(rows, options.plot)
    if options.markdown:
        picture = options.plot and os.path.relpath(options.plot, options.markdown.parent)
        what = f"{options.repeats} repeats, {options.clock} time, {date.today().isoformat()}"
        note = conditions(what)
        options.markdown.write_text(markdown(rows, [note], picture), encoding="utf-8")
    if failures:
        sys.exit("\n".join(f"not measured: {each.entry}: {each.reason}" for each in failures))


if __name__ == "__main__":
    main()
