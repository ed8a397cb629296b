"""The alternatives to stock's decompositions, live on torch_xla's CPU device: time and memory.

    python -m benchmarks.decompositions [--names "attention|step"] [--repeats 8] [--budget 30]
                                        [--results FILE]
                                        [--markdown benchmarks/DECOMPOSITIONS.md]

Each row of benchmarks/decomposition_cases.yaml runs with stock torch_xla, with the composites of
`fast`, with those of `small` where they are others, and with PyTorch's own operators on the CPU
(`eager`). Calls run forward and backward; a whole step is forward, backward and AdamW, with every
composite on.

- All sides are timed in one process, in alternating blocks (see benchmarks/harness/timing.py).
  `faster` is stock's time to that of the side, the median over pairs of blocks.
- `compile` is what torch_xla counts as XLA's time for the step's graph: the median of several
  times, for which the sides take turns.
- `memory` is what XLA reports of the buffers of the step's program: parameters, results and all in
  between, in a process of its own.
- A row that stock cannot run, for want of memory, has the others alone.

With `--results`, rows are written to a file of JSON lines as soon as they are known, and rows that
are in it are not measured again.
"""

from __future__ import annotations

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
from typing import Literal

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla

import composites
from benchmarks.cases import PlacedCase, PlacedUpdate
from benchmarks.decomposition_cases import ALL, ROWS, Comparison
from benchmarks.harness import memory
from benchmarks.harness.pages import markdown_table, page, publish
from benchmarks.harness.processes import alone, environment, xla_flags
from benchmarks.harness.runs import chosen, failures, measured, parser_of
from benchmarks.harness.timing import (
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
from composites.registry.catalog import load_catalog

Side = Literal["stock", "fast", "small", "eager"]
OnDevice = PlacedCase | PlacedUpdate | PlacedTraining
COMPARISONS = {comparison.name: comparison for comparison in ROWS}
FEWEST = 3
"""Blocks of each side, however long they take."""
STEPS = 2
"""The first step of an optimizer makes its state, and is another graph."""
COMPILES = 7
"""Times that the graph of each side is compiled, at most; at least `FEWEST`."""
ONE_PROGRAM = {"XLA_COMPILATION_CACHE_SIZE": "1"}
"""Environment variables with which torch_xla keeps one compiled program."""


@dataclass(frozen=True, slots=True)
class Row:
    """A comparison. Times are in seconds, sizes in bytes; both by side."""

    name: str
    blocks: Mapping[Side, list[list[float]]]
    compiles: Mapping[Side, float]
    buffers: Mapping[Side, int]
    taken: Sequence[str]
    """The alternatives that calls had."""

    def faster(self, side: Side) -> Ratio | None:
        """Stock's time to that of a side."""
        if side == "stock" or not {side, "stock"} <= self.blocks.keys():
            return None
        return ratio(self.blocks[side], self.blocks["stock"])


def sides_of(comparison: Comparison) -> list[Side]:
    """The sides of a comparison that differ from each other; stock only where it can run."""
    named = {entry.name: entry for entry in load_catalog([]) if entry.namespace == "ptxla"}
    entries = list(named.values()) if comparison.entries == ALL else []
    for name in comparison.entries if comparison.entries != ALL else ():
        entries += [named[name]]
        if named[name].backward in named:
            entries += [named[str(named[name].backward)]]
    functions = {
        goal: [[a.functions for a in entry.chosen(goal)[:1]] for entry in entries]
        for goal in ("fast", "small")
    }
    sides: list[Side] = ["stock"] if comparison.stock else []
    sides += ["fast"]
    return [*sides, "small"] if functions["small"] != functions["fast"] else sides


def on(comparison: Comparison, side: Side) -> AbstractContextManager[None]:
    """Return a context in which the decompositions of a side are on."""
    if side in ("stock", "eager"):
        return nullcontext()
    return composites.enabled(*comparison.entries, decompositions=side)


# ---- in a process of its own; functions are not sent, so rows are known by their names ----


def time_row(
    name: str, repeats: int, budget: float
) -> tuple[dict[Side, list[list[float]]], list[str]]:
    """Blocks of all sides, and the alternatives that calls had."""
    comparison = COMPARISONS[name]
    on_device = _placed(comparison)
    torch.manual_seed(0)
    on_cpu = (comparison.on_cpu or comparison.measured).placed(torch.clone)

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
    blocks = alternated([partial(samples, side) for side in sides], pairs, count)
    return dict(zip(sides, blocks, strict=True)), _alternatives()


def compile_row(name: str, budget: float) -> dict[Side, float]:
    """XLA's time for the graph of each side's step, in a process of `ONE_PROGRAM`."""
    comparison = COMPARISONS[name]
    placed = _placed(comparison)

    def compiled(side: Side) -> float:
        (torch.ones(1, device="xla") + 1).cpu()  # replaces the program
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
    turns = [first, *(turn() for _ in range(count - 1))]
    return {side: median(times[side] for times in turns) for side in first}


def _placed(comparison: Comparison) -> OnDevice:
    """The call or the model on torch_xla's device."""
    composites.disable()  # whatever XLA_COMPOSITE_OP turned on: the other side is stock
    device = torch_xla.device()
    torch.manual_seed(0)
    placed = comparison.measured.placed(lambda tensor: tensor.to(device))
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


def size_row(name: str, side: Side, folder: Path) -> int | None:
    """Bytes of the buffers of the step's program; see `last_program_size`."""
    comparison = COMPARISONS[name]
    placed = _placed(comparison)
    with on(comparison, side):
        for _ in range(STEPS):
            _step(placed, comparison)
    return memory.last_program_size(folder)


# ---- in the process that asks ----


def measure(name: str, repeats: int, budget: float) -> list[Row]:
    """Measure a row, in several processes."""
    blocks, taken = alone(time_row, name, repeats, budget)
    with environment(ONE_PROGRAM):
        compiles = alone(compile_row, name, budget)
    buffers: dict[Side, int] = {}
    for side in sides_of(COMPARISONS[name]):
        with tempfile.TemporaryDirectory() as folder:
            with environment(xla_flags(memory.DUMP.format(folder=folder))):
                size = alone(size_row, name, side, Path(folder))
            if size is not None:
                buffers[side] = size
    return [Row(name, blocks, compiles, buffers, taken)]


COLUMNS = (
    *("what runs", "side", "time", "faster", "middle half", "memory", "to stock's"),
    *("compile", "to stock's", "bars"),
)


def lines(row: Row) -> Iterator[tuple[str, ...]]:
    """The lines of a row in the table, one for each side."""
    for number, (side, blocks) in enumerate(row.blocks.items()):
        gain = row.faster(side)
        yield (
            row.name if number == 0 else "",
            side,
            milliseconds(typical(blocks)),
            "" if gain is None else f"{gain.median:.2f}",
            "" if gain is None else gain.middle_half,
            "" if (size := row.buffers.get(side)) is None else f"{size / 1e6:,.0f} MB",
            _relative(row.buffers, side),
            "" if side not in row.compiles else f"{row.compiles[side]:.2f} s",
            _relative(row.compiles, side),
            "; ".join(_bars(row, COMPARISONS[row.name])) if side == "fast" else "",
        )


def _bars(row: Row, comparison: Comparison) -> Iterator[str]:
    """The gain expected of `fast`, and whether a row reaches it."""
    gain = row.faster("fast")
    if gain is None:
        return
    if comparison.faster is not None:
        yield _bar("time >=", gain.median, comparison.faster, met=gain.median >= comparison.faster)
    for name, sizes, bar in (
        ("memory <=", row.buffers, comparison.smaller),
        ("compile <=", row.compiles, comparison.compiles),
    ):
        if bar is not None and sizes.get("stock"):
            value = sizes["fast"] / sizes["stock"]
            yield _bar(name, value, bar, met=value <= bar)


def _bar(name: str, value: float, bar: float, *, met: bool) -> str:
    return f"{name} {bar:g} " + ("met" if met else f"missed ({value:.2f})")


def _relative(values: Mapping[Side, float], side: Side) -> str:
    if side == "stock" or side not in values or not values.get("stock"):
        return ""
    return f"{values[side] / values['stock']:.2f}"


def main() -> None:
    parser = parser_of(__doc__, repeats=8, budget=30.0)
    options = parser.parse_args()
    names = chosen(COMPARISONS, options.names)
    cases = [("", name, partial(measure, name, options.repeats, options.budget)) for name in names]
    results = list(measured(cases, options.results, lambda _, row: Row(**row)))
    rows = [row for case in results for row in case.rows]
    cells = [line for row in rows for line in lines(row)]
    text = page(
        "Decompositions beside stock's",
        "Written by `python -m benchmarks.decompositions`; its head says how it measures.",
        conditions(f"{options.repeats} repeats, {date.today().isoformat()}"),
        markdown_table(COLUMNS, cells, numbers=range(2, len(COLUMNS) - 1)),
        "The alternatives that were taken:",
        [f"- {row.name}: {', '.join(row.taken) or 'none'}" for row in rows],
    )
    publish(text, options.markdown)
    sys.exit(failures(results))


if __name__ == "__main__":
    main()
