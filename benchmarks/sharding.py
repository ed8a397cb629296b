"""The collectives of calls whose tensors several devices share, with composites and without.

    python -m benchmarks.sharding [--names "attention|layer_norm"] [--devices 4]
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

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from benchmarks.harness import memory
from benchmarks.harness.pages import markdown_table, page, publish
from benchmarks.harness.processes import alone, environment, xla_flags
from benchmarks.harness.runs import chosen, parser_of
from benchmarks.sharding_cases import CASES, Sharded

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
"""The largest factor between the bytes of composites and of stock."""
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
class OneSide:
    """A step on one side."""

    traffic: Traffic
    sharded: int
    """The number of gradients that have a sharding."""
    memory: int
    """Bytes of the step's buffers on each device."""
    products: int
    """Multiplications in products of matrices on each device."""


@dataclass(frozen=True, slots=True)
class Row:
    """A case on both sides."""

    name: str
    stock: OneSide
    composites: OneSide
    error: float

    @property
    def factor(self) -> float:
        """Stock's multiplications on each device, in those with composites."""
        return self.stock.products / (self.composites.products or 1)


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
    import composites

    stock, expected = _side(case, mesh, folder)
    with composites.enabled(*case.entries):
        ours, gradients = _side(case, mesh, folder)
    sizes = [float(gradient.abs().max()) for gradient in expected]
    # A gradient that is zero by mathematics, as that of a key's bias, is rounding errors only.
    errors = [
        float((a - b).abs().max()) / size
        for a, b, size in zip(expected, gradients, sizes, strict=True)
        if size > ZERO * max(sizes)
    ]
    return Row(case.name, stock, ours, max(errors))


def _side(case: Sharded, mesh: Any, folder: Path) -> tuple[OneSide, list[Any]]:
    """A step with what is on, and its gradients."""
    before = programs(folder)
    gradients, sharded = _step(case, mesh)
    new = sorted(programs(folder) - before)
    texts = [path.read_text(encoding="utf-8") for path in new]
    size = memory.last_program_size(folder)
    assert size is not None, "XLA wrote no report"
    side = OneSide(traffic_of(texts), sharded, size, products_of(texts))
    return side, [gradient.cpu() for gradient in gradients]  # programs of their own


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
    grads = torch.autograd.grad(case.function(**tensors).square().sum(), leaves, allow_unused=True)
    gradients = [gradient for gradient in grads if gradient is not None]
    torch_xla.sync(wait=True)
    specs = [torch_xla._XLAC._get_xla_sharding_spec(gradient) for gradient in gradients]
    return gradients, sum("devices=" in spec for spec in specs)


# ---- in the process that asks ----


def rows_of(names: Sequence[str], devices: int) -> list[Row]:
    """Measure in a process that has this number of devices, and whose XLA writes its programs."""
    with tempfile.TemporaryDirectory() as folder:
        changed = {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(devices)}
        with environment(changed | xla_flags(memory.DUMP.format(folder=folder))):
            return alone(measure, names, devices, Path(folder))


COLUMNS = (
    *("what is sharded", "side", *COLLECTIVES),
    *("all", "bytes", "sharded", "memory", "products", "error"),
)


def lines(row: Row) -> Iterator[tuple[str, ...]]:
    """The lines of a row in the table, one for each side."""
    error = f"{row.error:.0e}" if row.error else "0"
    for first, name, side, last in (
        (row.name, "stock", row.stock, ""),
        ("", "composites", row.composites, error),
    ):
        yield (
            first,
            name,
            *(str(side.traffic.counts.get(kind, "")) for kind in COLLECTIVES),
            str(side.traffic.total),
            f"{side.traffic.bytes:,}",
            str(side.sharded),
            f"{side.memory:,}",
            f"{side.products:,}" if side.products else "",
            last,
        )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--devices", type=int, default=4, help="virtual CPU devices")
    options = parser.parse_args()
    names = chosen([case.name for case in CASES], options.names)
    rows = rows_of(names, options.devices)
    cells = [line for row in rows for line in lines(row)]
    whole = [f"{row.name} ({row.factor:.1f} times)" for row in rows if row.factor >= WHOLE]
    remark = [
        "Stock's devices multiply this many times what those with composites do:",
        f"{'; '.join(whole)}.",
        "There, stock gathers what was divided, and several devices compute the same:",
        "its collectives are those of a step that is divided less, or not at all.",
    ]
    text = page(
        "Collectives, with composites and without",
        [
            "Written by `python -m benchmarks.sharding`; its head says what is counted.",
            f"{options.devices} virtual CPU devices.",
        ],
        markdown_table(COLUMNS, cells, numbers=range(2, len(COLUMNS))),
        remark if whole else "",
    )
    publish(text, options.markdown)


if __name__ == "__main__":
    main()
