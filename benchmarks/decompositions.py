"""The alternatives to stock's decompositions, live on torch_xla's CPU device: time and memory.

    python -m benchmarks.decompositions [--names attention,step] [--repeats 8] [--budget 30]
                                        [--results FILE] [--quick]
                                        [--markdown benchmarks/DECOMPOSITIONS.md]
                                        [--plot benchmarks/DECOMPOSITIONS.svg]

Each row of benchmarks/decomposition_cases.py runs with stock torch_xla, with the composites of
`fast`, with those of `small` where they are others, and with PyTorch's own operators on the CPU
(`eager`). Calls run forward and backward; a whole step is forward, backward and AdamW, with every
composite on.

- All sides are timed in one process, in alternating blocks, as benchmarks/timing.py says. `faster`
  is stock's time to that of the side, the median over pairs of blocks.
- `compile` is what torch_xla counts as XLA's time for the step's graph: the median of several
  times, for which the sides take turns.
- `memory` is what XLA reports of the buffers of the step's program: parameters, results and all in
  between. `process` is the peak of a process that runs two steps and nothing else.
  Each has a process of its own.
- A row that stock cannot run, for want of memory, has the others alone.

With `--results`, rows are written to a file of JSON lines as soon as they are known, and rows that
are in it are not measured again. `--names` takes rows whose names begin so.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from rich.console import Console
from rich.progress import track
from rich.table import Table

import composites
from benchmarks import memory, records
from benchmarks.calls import Call, Placed, builtin_entries
from benchmarks.decomposition_cases import ALL, QUICK, Comparison, comparisons
from benchmarks.pages import markdown_table
from benchmarks.processes import alone, environment, xla_flags
from benchmarks.selection import beginning
from benchmarks.timing import (
    Ratio,
    affordable,
    alternated,
    conditions,
    milliseconds,
    ratio,
    samples_of,
    seconds,
    seconds_compiling,
    settle,
    typical,
)
from benchmarks.training_steps import PlacedTraining

Side = Literal["stock", "fast", "small", "eager"]
OnDevice = Call | Placed | PlacedTraining
FEWEST = 3
"""Blocks of each side, however long they take."""
STEPS = 2
"""The first step of an optimizer makes its state, and is another graph."""
COMPILES = 7
"""Times that the graph of each side is compiled, at most; at least `FEWEST`."""
ONE_PROGRAM = {"XLA_COMPILATION_CACHE_SIZE": "1"}
"""With this in its environment, torch_xla keeps one compiled program."""


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. Times are in seconds, sizes in bytes; both by side."""

    name: str
    blocks: Mapping[Side, list[list[float]]]
    compiles: Mapping[Side, float]
    buffers: Mapping[Side, int]
    processes: Mapping[Side, int]
    taken: Sequence[str]
    """The alternatives that calls had."""

    def faster(self, side: Side) -> Ratio | None:
        """Stock's time to that of a side."""
        if "stock" not in self.blocks:
            return None
        return ratio(self.blocks[side], self.blocks["stock"])


def sides_of(comparison: Comparison) -> list[Side]:
    """Those that differ; stock only where it can run."""
    named = builtin_entries()
    entries = list(named.values()) if comparison.entries == ALL else []
    for name in comparison.entries if comparison.entries != ALL else ():
        entries += [named[name]]
        if named[name].backward in named:
            entries += [named[str(named[name].backward)]]
    chosen = {
        goal: [[a.functions for a in entry.chosen(goal)[:1]] for entry in entries]
        for goal in ("fast", "small")
    }
    sides: list[Side] = ["stock"] if comparison.stock else []
    sides += ["fast"]
    return [*sides, "small"] if chosen["small"] != chosen["fast"] else sides


def on(comparison: Comparison, side: Side) -> AbstractContextManager[None]:
    """What a side turns on."""
    if side in ("stock", "eager"):
        return nullcontext()
    return composites.enabled(*comparison.entries, decompositions=side)


# ---- in a process of its own ----


def time_row(
    comparison: Comparison, repeats: int, budget: float
) -> tuple[dict[Side, list[list[float]]], list[str]]:
    """Blocks of all sides, and the alternatives that calls had."""
    on_device = _placed(comparison)
    torch.manual_seed(0)
    on_cpu = (comparison.on_cpu or comparison.make)().placed(torch.clone)

    def step(side: Side) -> None:
        if side == "eager":
            on_cpu.traced(comparison.mode)
        else:
            _step(on_device, comparison)

    def samples(side: Side, count: int) -> list[float]:
        with on(comparison, side):
            return samples_of(partial(step, side), count)

    sides: list[Side] = [*sides_of(comparison), "eager"]
    for side in sides:
        with on(comparison, side):
            for _ in range(STEPS - 1):  # the samples begin with one more
                step(side)
    together = sum(min(samples(side, 1)) for side in sides)
    pairs, count = affordable(together, budget, FEWEST, repeats)
    found = alternated([partial(samples, side) for side in sides], pairs, count)
    return dict(zip(sides, found, strict=True)), _alternatives()


def compile_row(comparison: Comparison, budget: float) -> dict[Side, float]:
    """XLA's time for the graph of each side's step, in a process of `ONE_PROGRAM`."""
    placed = _placed(comparison)

    def compiled(side: Side) -> float:
        (torch.ones(1, device="xla") + 1).cpu()  # takes the place of the program
        before = seconds_compiling()
        with on(comparison, side):
            _step(placed, comparison)
        return seconds_compiling() - before

    def turn() -> dict[Side, float]:
        return {side: compiled(side) for side in sides_of(comparison)}

    for _ in range(STEPS - 1):
        turn()
    spent, first = seconds(turn)
    count = max(FEWEST, min(COMPILES, int(budget / spent)))
    turns: list[dict[Side, float]] = [first, *(turn() for _ in range(count - 1))]
    return {side: median(each[side] for each in turns) for side in first}


def _placed(comparison: Comparison) -> OnDevice:
    """The call or the model on torch_xla's device."""
    composites.disable()  # whatever XLA_COMPOSITE_OP turned on: the other side is stock
    device = torch_xla.device()
    made = comparison.make()
    torch.manual_seed(0)
    placed = made.placed(lambda tensor: tensor.to(device))
    settle()
    return placed


def _step(placed: OnDevice, comparison: Comparison) -> None:
    results = placed.traced(comparison.mode)
    settle()
    del results


def _alternatives() -> list[str]:
    return sorted(
        f"{name.partition('.')[2]}={alternative}"
        for name, entry in composites.stats().entries.items()
        for alternative in entry.decompositions
        if not alternative.startswith("stock")
    )


def size_row(comparison: Comparison, side: Side, folder: Path) -> tuple[int | None, int]:
    """Bytes of the buffers of the step's program, and of this process at its peak."""
    placed = _placed(comparison)
    with on(comparison, side):
        for _ in range(STEPS):
            _step(placed, comparison)
    return memory.of_last_program(folder), memory.peak_of_process()


def empty_process() -> int:
    """Bytes of a process that has loaded the packages and a device."""
    torch.ones(1, device="xla").cpu()
    return memory.peak_of_process()


# ---- in the process that asks ----


def measure(number: int, quick: bool, repeats: int, budget: float) -> Row:
    """One row, in several processes."""
    comparison = chosen(quick)[number]
    blocks, taken = alone(_time_row, number, quick, repeats, budget)
    with environment(ONE_PROGRAM):
        compiles = alone(_compile_row, number, quick, budget)
    buffers: dict[Side, int] = {}
    processes: dict[Side, int] = {}
    for side in sides_of(comparison):
        with tempfile.TemporaryDirectory() as folder:
            with environment(xla_flags(memory.DUMP.format(folder=folder))):
                found = alone(_size_row, number, quick, side, Path(folder))
            size, processes[side] = found
            if size is not None:
                buffers[side] = size
    return Row(comparison.name, blocks, compiles, buffers, processes, taken)


def chosen(quick: bool) -> tuple[Comparison, ...]:
    """All rows, which both processes know by their numbers: functions are not sent."""
    return QUICK if quick else comparisons()


def _time_row(number: int, quick: bool, repeats: int, budget: float) -> Any:
    return time_row(chosen(quick)[number], repeats, budget)


def _compile_row(number: int, quick: bool, budget: float) -> Any:
    return compile_row(chosen(quick)[number], budget)


def _size_row(number: int, quick: bool, side: Side, folder: Path) -> tuple[int | None, int]:
    return size_row(chosen(quick)[number], side, folder)


# ---- what is written ----

COLUMNS = (
    *("what runs", "side", "time", "faster", "middle half", "memory", "to stock's"),
    *("process", "compile", "to stock's", "bars"),
)


def lines(row: Row, comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """The lines of a row in the table, one for each side."""
    for number, (side, blocks) in enumerate(row.blocks.items()):
        found = row.faster(side) if side != "stock" else None
        yield (
            row.name if number == 0 else "",
            side,
            milliseconds(typical(blocks)),
            "" if found is None else f"{found.median:.2f}",
            "" if found is None else found.middle_half,
            _megabytes(row.buffers.get(side)),
            _relative(row.buffers, side),
            _megabytes(row.processes.get(side)),
            "" if side not in row.compiles else f"{row.compiles[side]:.2f} s",
            _relative(row.compiles, side),
            "; ".join(bars(row, comparison)) if side == "fast" else "",
        )


def bars(row: Row, comparison: Comparison) -> Iterator[str]:
    """What is expected of `fast`, and whether it is so."""
    found = row.faster("fast")
    if found is None:
        return
    if comparison.faster is not None:
        yield _bar("time", found.median, comparison.faster, met=found.median >= comparison.faster)
    for name, sizes, bar in (
        ("memory", row.buffers, comparison.smaller),
        ("compile", row.compiles, comparison.compiles),
    ):
        if bar is not None and sizes.get("stock"):
            value = sizes["fast"] / sizes["stock"]
            yield _bar(name, value, bar, met=value <= bar)


def _bar(name: str, value: float, bar: float, *, met: bool) -> str:
    sign = ">=" if name == "time" else "<="
    return f"{name} {sign} {bar:g} " + ("met" if met else f"missed ({value:.2f})")


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.0f} MB"


def _relative(values: Mapping[Side, float], side: Side) -> str:
    if side == "stock" or side not in values or not values.get("stock"):
        return ""
    return f"{values[side] / values['stock']:.2f}"


def markdown(
    rows: Sequence[tuple[Row, Comparison]], notes: Sequence[str], picture: str | None
) -> str:
    """The page."""
    written = ["# Decompositions beside stock's", ""]
    written += ["Written by `python -m benchmarks.decompositions`; its head says how it measures."]
    written += ["", *notes, ""]
    if picture is not None:
        written += [f"![How much faster each side is than stock]({picture})", ""]
    cells = [line for row, comparison in rows for line in lines(row, comparison)]
    written += markdown_table(COLUMNS, cells, numbers=range(2, len(COLUMNS) - 1))
    written += ["", "The alternatives that were taken:", ""]
    written += [f"- {row.name}: {', '.join(row.taken) or 'none'}" for row, _ in rows]
    return "\n".join(written) + "\n"


def plot(rows: Sequence[Row], path: Path) -> None:
    """How much faster than stock each side is, and its memory beside stock's."""
    from benchmarks.charts import COLOURS, GREY, chart

    drawn = [row for row in rows if "stock" in row.blocks]
    sides: tuple[Side, ...] = ("fast", "small", "eager")
    with chart(path, (9, 1.5 + 0.45 * len(drawn))) as figure:
        times, sizes = figure.subplots(1, 2, sharey=True)
        for number, (side, colour) in enumerate(zip(sides, COLOURS, strict=True)):
            places = [i + 0.25 * number for i, row in enumerate(drawn) if side in row.blocks]
            found = [row.faster(side) for row in drawn if side in row.blocks]
            medians = [each.median if each else 0.0 for each in found]
            times.barh(places, medians, 0.22, color=colour, label=side)
            known = [
                (i + 0.25 * number, row.buffers)
                for i, row in enumerate(drawn)
                if {side, "stock"} <= row.buffers.keys()
            ]
            at = [place for place, _ in known]
            share = [buffers[side] / buffers["stock"] for _, buffers in known]
            sizes.barh(at, share, 0.22, color=colour)
        times.set_yticks([i + 0.25 for i in range(len(drawn))], [row.name for row in drawn])
        times.invert_yaxis()
        for axis, title in ((times, "times faster than stock"), (sizes, "memory, to stock's")):
            axis.axvline(1, color=GREY, linewidth=1)
            axis.set_title(title)
            axis.grid(visible=True, axis="x", color=GREY, alpha=0.25)
        handles, labels = times.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)


def read(results: Path | None) -> list[Row]:
    """The rows of an earlier run."""
    return [Row(**data) for data in records.read(results)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", default="", help="beginnings of rows' names, comma-separated")
    parser.add_argument("--repeats", type=int, default=8, help="blocks of samples on each side")
    parser.add_argument(
        "--budget", type=float, default=30.0, help="seconds for times, and for compiling"
    )
    parser.add_argument("--results", type=Path, help="JSON lines; go on with an earlier run")
    parser.add_argument("--quick", action="store_true", help="small ones, to see that it works")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    parser.add_argument("--plot", type=Path, help="draw the ratios into this SVG file")
    options = parser.parse_args()
    everything = chosen(options.quick)
    by_name = {comparison.name: comparison for comparison in everything}
    wanted = beginning(by_name, options.names)
    if not wanted:
        sys.exit(f"no row begins with {options.names!r} (there are {'; '.join(by_name)})")
    found = {row.name: row for row in read(options.results)}
    left = [name for name in wanted if name not in found]
    failures: list[str] = []
    numbers = {comparison.name: number for number, comparison in enumerate(everything)}
    for name in track(left, "rows", console=Console(stderr=True)):
        try:
            row = measure(numbers[name], options.quick, options.repeats, options.budget)
        except (
            Exception
        ) as error:  # also a process that ended: the others are measured nevertheless
            failures.append(f"not measured: {name}: {type(error).__name__}: {error}")
            continue
        found[name] = row
        records.append(options.results, [row])
    rows = [(found[name], by_name[name]) for name in wanted if name in found]
    table = Table(*COLUMNS)
    for row, comparison in rows:
        for cells in lines(row, comparison):
            table.add_row(*cells)
    Console(width=max(180, Console().width)).print(table)
    if options.plot:
        plot([row for row, _ in rows], options.plot)
    if options.markdown:
        picture = options.plot and os.path.relpath(options.plot, options.markdown.parent)
        notes = [
            conditions(f"{options.repeats} repeats, {date.today().isoformat()}"),
            f"A process without a step: {_megabytes(alone(empty_process))}.",
        ]
        options.markdown.write_text(markdown(rows, notes, picture), encoding="utf-8")
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
