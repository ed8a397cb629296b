"""The alternatives to stock's decompositions in exported programs, on jax's CPU client and on IREE.

    python -m benchmarks.exported_decompositions [--names GPT,attention] [--consumers jax,iree]
                                                 [--repeats 6] [--budget 20] [--results FILE]
                                                 [--markdown benchmarks/EXPORTED_DECOMPOSITIONS.md]

Each row is the loss and the gradients of a training step, exported with `decompositions="stock"`
and with `"fast"`. Both programs run in one process, in alternating blocks, as benchmarks/timing.py
says; `faster` is stock's time to that of `fast`, the median over pairs of blocks. `compile` is the
consumer's time for each, once. `difference` is the largest between their results, in parts of the
largest number of a result, or of a millionth of all results' largest where that is more. Operands
are on the device before the clock starts.

With `--results`, rows are written to a file of JSON lines as soon as they are known, and rows that
are in it are not measured again. `--names` takes rows whose names begin so.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

import composites
from benchmarks import records, training_steps
from benchmarks.pages import markdown_table
from benchmarks.processes import alone
from benchmarks.selection import beginning
from benchmarks.timing import (
    affordable,
    alternated,
    conditions,
    milliseconds,
    ratio,
    samples_of,
    seconds,
    typical,
)
from composites import Program
from lowering.export.state import SEED
from lowering.stablehlo import jax_function

Consumer = Literal["jax", "iree"]
TARGETS: Mapping[Consumer, str] = {"jax": "xla", "iree": "iree"}
SIDES = ("stock", "fast")
BAR = 1.0
FEWEST = 3
"""Blocks of each side, however long they take."""
NEARLY_ZERO = 1e-6

Build = Callable[[], tuple[nn.Module, Mapping[str, Tensor]]]
Run = Callable[[], Sequence[Any]]
"""Runs a program once, and returns its results when they are there."""


class Attention(nn.Module):
    """Causal attention of six heads, whose operands are parameters, and a loss."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.operands = nn.ParameterList(torch.randn(1, 6, length, 64) for _ in range(3))

    def forward(self, seed: Tensor) -> Tensor:
        query, key, value = self.operands
        attend = nn.functional.scaled_dot_product_attention
        return (attend(query, key, value, is_causal=True) * seed).sum()


def attention(length: int) -> tuple[nn.Module, Mapping[str, Tensor]]:
    return Attention(length), {"seed": torch.randn(1, 6, length, 64)}


CASES: Mapping[str, Build] = {
    "attention, L = 1024": partial(attention, 1024),
    "attention, L = 4096": partial(attention, 4096),
    "GPT-2, 2 x 512": training_steps.gpt2,
    "causal GPT, L = 1024": partial(training_steps.causal_gpt, 1024),
    "causal GPT, L = 4096": partial(training_steps.causal_gpt, 4096),
    "Llama, L = 2048": training_steps.llama,
    "U-Net block": training_steps.unet,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One program on one consumer. Times are in seconds, by side."""

    name: str
    consumer: Consumer
    blocks: Mapping[str, list[list[float]]]
    compiles: Mapping[str, float]
    difference: float

    @property
    def cells(self) -> tuple[str, ...]:
        faster = ratio(self.blocks["fast"], self.blocks["stock"])
        return (
            self.name,
            self.consumer,
            *(milliseconds(typical(self.blocks[side])) for side in SIDES),
            f"{faster.median:.2f}",
            faster.middle_half,
            *(f"{self.compiles[side]:.2f} s" for side in SIDES),
            f"{self.difference:.0e}",
            f"{BAR} {'met' if round(faster.median, 2) >= BAR else 'missed'}",
        )


HEAD = (
    "loss and gradients of", "on", "stock", "fast", "faster", "middle half", "compile stock",
    "compile fast", "difference", "bar",
)  # fmt: skip


def measure(name: str, consumer: Consumer, repeats: int, budget: float) -> Row:
    """One row, in this process."""
    torch.manual_seed(0)
    module, batch = CASES[name]()
    runs: dict[str, Run] = {}
    compiles = {}
    for side in SIDES:
        program = composites.export(
            module, (), kwargs=batch, train=True, target=TARGETS[consumer], decompositions=side
        )
        given = {**program.module_weights(module), **{f"kwarg:{n}": t for n, t in batch.items()}}
        given[SEED] = torch.tensor(0)  # of programs that draw random numbers
        values = [given[value.name].detach().numpy() for value in program.inputs]
        compiles[side], runs[side] = seconds(partial(COMPILERS[consumer], program, values))
    results = [[np.asarray(array) for array in runs[side]()] for side in SIDES]
    step = sum(seconds(runs[side])[0] for side in SIDES)
    blocks, samples = affordable(step, budget, FEWEST, repeats)
    sides = [partial(samples_of, runs[side]) for side in SIDES]
    timed = alternated(sides, blocks, samples)
    return Row(
        name, consumer, dict(zip(SIDES, timed, strict=True)), compiles, _difference(*results)
    )


def _difference(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> float:
    largest = [float(np.abs(a).max()) for a in one]
    # The gradient of a key's bias is zero by mathematics, and found as numbers of 1e-12.
    least = NEARLY_ZERO * max(largest)
    pairs = zip(one, other, largest, strict=True)
    return max(float(np.abs(a - b).max()) / max(size, least) for a, b, size in pairs)


def on_jax(program: Program, values: Sequence[np.ndarray]) -> Run:
    import jax

    with jax.enable_x64(True):
        placed = [jax.device_put(value) for value in values]
        compiled = jax.jit(jax_function(program.module)).lower(*placed).compile()
    return lambda: jax.block_until_ready(compiled(*placed))


def on_iree(program: Program, values: Sequence[np.ndarray]) -> Run:
    import iree.compiler
    import iree.runtime

    compiled = iree.compiler.compile_str(
        program.module.text,
        input_type="stablehlo",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    config = iree.runtime.Config("local-task")
    context = iree.runtime.SystemContext(config=config)
    module = iree.runtime.VmModule.copy_buffer(context.instance, compiled)
    context.add_vm_module(module)
    placed = [iree.runtime.asdevicearray(config.device, value) for value in values]

    def run() -> Sequence[Any]:
        results = context.modules[module.name].main(*placed)
        several = results if isinstance(results, list | tuple) else [results]
        return [result.to_host() for result in several]

    return run


COMPILERS: Mapping[Consumer, Callable[[Program, Sequence[np.ndarray]], Run]] = {
    "jax": on_jax,
    "iree": on_iree,
}


# ---- all rows ----


def rows(names: Sequence[str], options: argparse.Namespace) -> Iterator[Row]:
    known = [Row(**found) for found in records.read(options.results)]
    there = {(row.name, row.consumer): row for row in known}
    wanted = [(name, consumer) for name in names for consumer in options.consumers]
    for name, consumer in track(wanted, console=Console(stderr=True)):
        row = there.get((name, consumer))
        if row is None:
            # A process for each: what one has compiled stays in it.
            row = alone(measure, name, consumer, options.repeats, options.budget)
            records.append(options.results, [row])
        yield row


def lines(measured: Sequence[Row]) -> list[str]:
    return [
        "# Alternatives in exported programs",
        "",
        "Written by `python -m benchmarks.exported_decompositions`; its head says how it measures.",
        "",
        conditions(f"{date.today()}"),
        "",
        *markdown_table(HEAD, [row.cells for row in measured]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", default="", help="beginnings of names, separated by commas")
    parser.add_argument("--consumers", default="jax,iree", type=lambda text: text.split(","))
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--budget", type=float, default=20, help="seconds for the times of a row")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    wrong = set(options.consumers) - set(COMPILERS)
    if wrong:
        parser.error(f"no consumer {', '.join(sorted(wrong))}; there are {', '.join(COMPILERS)}")
    chosen = beginning(CASES, options.names)
    if not chosen:
        parser.error(f"no row begins with {options.names!r}; there are {'; '.join(CASES)}")
    text = "\n".join(lines(list(rows(chosen, options))))
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
