"""The collectives of calls whose tensors several devices share, with composites and without.

    python -m benchmarks.sharding [--names attention,layer_norm] [--devices 4]
                                  [--markdown benchmarks/SHARDING.md]

Each row of benchmarks/sharding_cases.py runs under torch_xla's SPMD on virtual CPU devices: forward
and backward in one step, with stock torch_xla and with the row's composites. XLA's partitioner
makes collectives of what one device needs from others. They are read from the optimized HLO that
XLA writes: how many there are, and the bytes of their results on each device. `products` is the
number of multiplications in the products of matrices of this HLO, again on each device. Where stock
has several times as many, its partitioner gathered what was divided, and all devices compute the
same: that saves it collectives later, but such a step is not divided at all. The page names these
rows.

`error` is the largest difference of a gradient from stock's, relative to the largest gradient; a
partitioned product may add in another order. `sharded` says how many of the gradients have a
sharding, on both sides.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from benchmarks import memory
from benchmarks.pages import markdown_table
from benchmarks.processes import alone, environment, xla_flags
from benchmarks.selection import beginning
from benchmarks.sharding_cases import CASES, Sharded

Side = Literal["stock", "composites"]
SIDES: tuple[Side, ...] = ("stock", "composites")
ZERO = 1e-5
"""Gradients smaller than this part of the greatest are not compared."""

COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")
_COLLECTIVE = re.compile(rf" = (.*?) ({'|'.join(COLLECTIVES)})(?:-start)?\(")
_ARRAY = re.compile(r"\b(pred|[a-z]+\d+[a-z0-9]*)\[([\d,]*)\]")
_BITS = re.compile(r"\d+")
_DEFINED = re.compile(r"%([\w.-]+) = [a-z]+\d*[a-z0-9]*\[([\d,]*)\]")
_PRODUCT = re.compile(
    r" = [a-z]+\d*[a-z0-9]*\[([\d,]*)\]\S* dot\(%([\w.-]+),.*lhs_contracting_dims=\{([\d,]*)\}"
)
MEMORY = 1.02
"""Of stock's bytes, at most."""
WHOLE = 1.5
"""A row in which stock multiplies as many times what composites do is named below the table."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The collectives of a program."""

    counts: Mapping[str, int]
    bytes: int

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Row:
    """One case on both sides."""

    name: str
    traffic: Mapping[Side, Traffic]
    error: float
    sharded: Mapping[Side, int]
    """How many gradients have a sharding."""
    memory: Mapping[Side, int]
    """Bytes of the step's buffers on each device."""
    products: Mapping[Side, int]
    """Multiplications in products of matrices on each device."""


def traffic_of(texts: Iterable[str]) -> Traffic:
    """The collectives of optimized HLO programs."""
    counts: Counter[str] = Counter()
    size = 0
    for text in texts:
        for result, name in _COLLECTIVE.findall(text):
            counts[name] += 1
            size += sum(_bytes(*array) for array in _ARRAY.findall(result))
    return Traffic(dict(counts), size)


def products_of(texts: Iterable[str]) -> int:
    """The multiplications in the products of matrices of optimized HLO programs."""
    count = 0
    for text in texts:
        sizes = {name: _numbers(dimensions) for name, dimensions in _DEFINED.findall(text)}
        for result, left, contracted in _PRODUCT.findall(text):
            count += prod(_numbers(result)) * prod(sizes[left][n] for n in _numbers(contracted))
    return count


def _numbers(text: str) -> list[int]:
    return [int(number) for number in filter(None, text.split(","))]


def _bytes(element_type: str, dimensions: str) -> int:
    bits = _BITS.search(element_type)
    return prod(_numbers(dimensions)) * max(1, (int(bits[0]) if bits else 8) // 8)


# ---- in a process of its own, with several virtual devices ----


def measure(names: Sequence[str], devices: int, folder: Path) -> list[Row]:
    """The rows of these names. XLA writes its programs to `folder`."""
    import numpy as np
    import torch_xla.distributed.spmd as spmd
    from torch_xla import runtime

    import composites

    composites.disable()
    runtime.use_spmd()
    by_name = {case.name: case for case in CASES}
    rows = []
    for case in (by_name[name] for name in names):
        sizes = (devices,) if len(case.axes) == 1 else (2, devices // 2)
        mesh = spmd.Mesh(np.arange(devices), sizes, case.axes)
        spmd.set_global_mesh(mesh)
        rows.append(_row(case, mesh, folder))
    return rows


def _row(case: Sharded, mesh: Any, folder: Path) -> Row:
    import torch

    import composites

    traffic: dict[Side, Traffic] = {}
    gradients: dict[Side, list[torch.Tensor]] = {}
    sharded: dict[Side, int] = {}
    used: dict[Side, int] = {}
    products: dict[Side, int] = {}
    for side in SIDES:
        before = programs(folder)
        on: AbstractContextManager[None] = (
            nullcontext() if side == "stock" else composites.enabled(*case.entries)
        )
        with on:
            found, sharded[side] = _step(case, mesh)
        new = sorted(programs(folder) - before)
        texts = [path.read_text(encoding="utf-8") for path in new]
        traffic[side], products[side] = traffic_of(texts), products_of(texts)
        size = memory.of_last_program(folder)
        assert size is not None, "XLA wrote no report"
        used[side] = size
        gradients[side] = [gradient.cpu() for gradient in found]  # programs of their own
    pairs = list(zip(gradients["stock"], gradients["composites"], strict=True))
    sizes = [float(a.abs().max()) for a, _ in pairs]
    # A gradient that is zero by mathematics, as that of a key's bias, is rounding errors only.
    errors = [
        float((a - b).abs().max()) / size
        for (a, b), size in zip(pairs, sizes, strict=True)
        if size > ZERO * max(sizes)
    ]
    return Row(case.name, traffic, max(errors), sharded, used, products)


def programs(folder: Path) -> set[Path]:
    """The files of the optimized programs that XLA has written."""
    return set(folder.glob("*cpu_after_optimizations.txt"))


def _step(case: Sharded, mesh: Any) -> tuple[list[Any], int]:
    """The gradients of one step, and how many of them have a sharding."""
    import torch
    import torch_xla
    import torch_xla.distributed.spmd as spmd

    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    tensors = {name: tensor.to("xla") for name, tensor in case.make().items()}
    torch_xla.sync(wait=True)
    for name, tensor in tensors.items():
        spec = case.spec(name, tensor)
        if spec is not None:
            spmd.mark_sharding(tensor, mesh, spec)
    leaves = [t.requires_grad_() for t in tensors.values() if t.is_floating_point()]
    # Models may have parameters that they do not use. Nothing holds the result: it is not computed.
    found = torch.autograd.grad(case.function(**tensors).square().sum(), leaves, allow_unused=True)
    gradients = [gradient for gradient in found if gradient is not None]
    torch_xla.sync(wait=True)
    specs = [torch_xla._XLAC._get_xla_sharding_spec(gradient) for gradient in gradients]
    return gradients, sum("devices=" in spec for spec in specs)


# ---- in the process that asks ----


def rows_of(names: Sequence[str], devices: int) -> list[Row]:
    """Measure in a process that has this number of devices."""
    with virtual_devices(devices) as folder:
        return alone(measure, names, devices, folder)


@contextmanager
def virtual_devices(count: int) -> Iterator[Path]:
    """Processes that start here have this number of devices. Yields the folder to which XLA writes
    their programs."""
    with tempfile.TemporaryDirectory() as folder:
        changed = {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(count)}
        with environment(changed | xla_flags(memory.DUMP.format(folder=folder))):
            yield Path(folder)


COLUMNS = (
    *("what is sharded", "side", *COLLECTIVES),
    *("all", "bytes", "sharded", "memory", "products", "error"),
)


def lines(row: Row) -> Iterator[tuple[str, ...]]:
    """The lines of a row in the table, one for each side."""
    for side, traffic in row.traffic.items():
        yield (
            row.name if side == "stock" else "",
            side,
            *(str(traffic.counts.get(name, "")) for name in COLLECTIVES),
            str(traffic.total),
            f"{traffic.bytes:,}",
            str(row.sharded[side]),
            f"{row.memory[side]:,}",
            f"{row.products[side]:,}" if row.products[side] else "",
            "" if side == "stock" else f"{row.error:.0e}" if row.error else "0",
        )


def _factor(row: Row) -> float:
    """Stock's multiplications on each device, in those with composites."""
    return row.products["stock"] / (row.products["composites"] or 1)


def markdown(rows: Sequence[Row], devices: int) -> str:
    """The page."""
    written = ["# Collectives, with composites and without", ""]
    written += ["Written by `python -m benchmarks.sharding`; its head says what is counted."]
    written += [f"{devices} virtual CPU devices.", ""]
    cells = [line for row in rows for line in lines(row)]
    written += markdown_table(COLUMNS, cells, numbers=range(2, len(COLUMNS)))
    whole = [f"{row.name} ({_factor(row):.1f} times)" for row in rows if _factor(row) >= WHOLE]
    if whole:
        written += ["", "Stock's devices multiply this many times what those with composites do:"]
        written += [f"{'; '.join(whole)}."]
        written += ["There, stock gathers what was divided, and several devices compute the same:"]
        written += ["its collectives are those of a step that is divided less, or not at all."]
    return "\n".join(written) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", default="", help="beginnings of rows' names, comma-separated")
    parser.add_argument("--devices", type=int, default=4, help="virtual CPU devices")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    options = parser.parse_args()
    known = [case.name for case in CASES]
    wanted = beginning(known, options.names)
    if not wanted:
        sys.exit(f"no row begins with {options.names!r} (there are {'; '.join(known)})")
    rows = rows_of(wanted, options.devices)
    table = Table(*COLUMNS)
    for row in rows:
        for cells in lines(row):
            table.add_row(*cells)
    Console(width=max(160, Console().width)).print(table)
    if options.markdown:
        options.markdown.write_text(markdown(rows, options.devices), encoding="utf-8")


if __name__ == "__main__":
    main()
