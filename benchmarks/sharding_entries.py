"""The collectives of every entry whose tensors several devices share, with composites and without.

    python -m benchmarks.sharding_entries [--names gelu,softmax] [--devices 4]
                                          [--markdown benchmarks/SHARDING_ENTRIES.md]

The calls are those of benchmarks/entries.py, under torch_xla's SPMD on virtual CPU devices. Each is
measured twice: the first dimension of its largest tensor is divided among the devices, or the last
one, and with it the same dimension of every tensor that has the same size there. A step is the call
and the gradients of its results' sum of squares; that of an optimizer is an update, whose tensors
are each divided where they can be. Collectives, their bytes and memory are counted as
benchmarks/sharding.py counts them.

A row that stock computes on the host is not compared: PyTorch has the whole tensors there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from rich.progress import track

from benchmarks import memory
from benchmarks.calls import FORWARD, UPDATE, Call, Case, Placed, Update, tensors_of
from benchmarks.entry_cases import CASES
from benchmarks.pages import markdown_table
from benchmarks.processes import each_in_processes
from benchmarks.sharding import (
    MEMORY,
    SIDES,
    Side,
    Traffic,
    programs,
    traffic_of,
    virtual_devices,
)

Divided = Literal["first", "last"]
"""The dimension that is divided."""
PLACES: Mapping[Divided, int] = {"first": 0, "last": -1}
AXIS = "devices"
CALLS_OF_A_PROCESS = len(PLACES)
"""Those of one entry. Two entries can have the same graph on stock's side, which a process compiles
once."""
LEFT_OUT = ("lstm", "gru")
"""Their steps are unrolled, and are those of `lstm_cell` and `gru_cell`: XLA's partitioner takes
minutes for them."""


@dataclass(frozen=True, slots=True)
class Row:
    """A call, divided in one way."""

    entry: str
    size: str
    divided: Divided
    traffic: Mapping[Side, Traffic]
    memory: Mapping[Side, int]
    """Bytes of the step's buffers on each device."""
    on_the_host: Sequence[str] = ()
    """Operators that stock leaves to PyTorch."""

    @property
    def more(self) -> str:
        """What composites have more of than stock."""
        stock, ours = (self.traffic[side] for side in SIDES)
        found = []
        if ours.total > stock.total:
            found.append("collectives")
        if ours.bytes > stock.bytes:
            found.append("bytes")
        if self.memory["composites"] > MEMORY * self.memory["stock"]:
            found.append("memory")
        return ", ".join(found)


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that could not be measured, and why."""

    entry: str
    divided: Divided
    reason: str


# ---- in a process with several virtual devices ----


def measure(given: tuple[str, Divided], devices: int, folder: Path) -> Row | Failure | None:
    """The row of an entry; None if no dimension can be divided. XLA writes programs to `folder`,
    whose files are deleted: another process may have written programs of the same names."""
    import numpy as np
    import torch_xla.distributed.spmd as spmd
    from torch_xla import runtime
    from torch_xla.debug import metrics

    import composites

    name, divided = given
    composites.disable()
    runtime.use_spmd()
    case = next(case for case in CASES if case.entry == name)
    mesh = spmd.Mesh(np.arange(devices), (devices,), (AXIS,))
    traffic: dict[Side, Traffic] = {}
    used: dict[Side, int] = {}
    on_the_host: Sequence[str] = ()
    for path in folder.iterdir():
        path.unlink()
    try:
        for side in SIDES:
            with nullcontext() if side == "stock" else composites.enabled(name):
                metrics.clear_counters()
                texts = _programs_of(case, divided, mesh, folder)
            if texts is None:
                return None
            if side == "stock":
                on_the_host = tuple(metrics.executed_fallback_ops())
            if not texts and not on_the_host:
                raise RuntimeError(f"XLA compiled nothing for {side}'s step")
            traffic[side] = traffic_of(texts)
            used[side] = memory.of_last_program(folder) or 0
    except Exception as error:  # the other entries are measured nevertheless
        return Failure(name, divided, f"{type(error).__name__}: {error}".splitlines()[0])
    return Row(name, case.size, divided, traffic, used, on_the_host)


def _programs_of(case: Case, divided: Divided, mesh: Any, folder: Path) -> list[str] | None:
    """The optimized programs of a step."""
    import torch_xla
    import torch_xla.distributed.spmd as spmd

    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    place, devices = PLACES[divided], mesh.size()
    call = case.make()
    largest = _largest(call)
    marked = 0

    def put(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal marked
        made = tensor.to("xla")
        size = tensor.shape[place] if tensor.dim() else None
        if (
            size is not None
            and size % devices == 0
            and (call.modes == (UPDATE,) or size == largest.shape[place])
        ):
            spec: list[str | None] = [None] * tensor.dim()
            spec[place] = AXIS
            spmd.mark_sharding(made, mesh, tuple(spec))
            marked += 1
        return made

    placed = call.placed(put)
    if not marked:
        return None
    torch_xla.sync(wait=True)

    def compiled() -> list[str]:
        before = programs(folder)
        held = _step(placed)
        torch_xla.sync(wait=True)
        del held
        return [path.read_text(encoding="utf-8") for path in sorted(programs(folder) - before)]

    first = compiled()
    if call.modes != (UPDATE,):
        return first
    # An optimizer's first step makes its state. One without a state has the same graph again.
    return compiled() or first


def _largest(call: Call | Update) -> torch.Tensor:
    """The largest tensor of a call."""
    tensors: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        tensors.append(tensor)
        return tensor

    call.placed(keep)
    return max(tensors, key=torch.Tensor.numel)


def _step(placed: Call | Placed) -> Sequence[torch.Tensor]:
    """What a step computes."""
    if isinstance(placed, Placed):
        return placed.traced(UPDATE)
    if placed.modes == (FORWARD,):
        return placed.traced(FORWARD)
    results = tensors_of(placed.function(*placed.arguments, **placed.keywords))
    real = [torch.view_as_real(each) if each.is_complex() else each for each in results]
    loss = sum(each.square().sum() for each in real if each.requires_grad)
    assert isinstance(loss, torch.Tensor)
    gradients = torch.autograd.grad(loss, placed.leaves, allow_unused=True)
    return [*(result.detach() for result in results), *(g for g in gradients if g is not None)]


# ---- in the process that asks ----


def rows_of(names: Sequence[str], devices: int) -> list[Row | Failure]:
    """Measure in processes that have this number of devices. Calls without a dimension that can be
    divided equally are left out."""
    wanted = [(name, divided) for name in names for divided in PLACES]
    found: list[Row | Failure] = []
    with virtual_devices(devices) as folder:
        one = partial(measure, devices=devices, folder=folder)
        results = each_in_processes(one, wanted, CALLS_OF_A_PROCESS)
        console = Console(stderr=True)
        for (name, divided), result in track(
            zip(wanted, results, strict=True), "entries", len(wanted), console=console
        ):
            if isinstance(result, BaseException):
                found.append(Failure(name, divided, "its process ended"))
            elif result is not None:
                found.append(result)
    return found


COLUMNS = (
    *("entry", "size", "divided", "collectives of stock", "of composites"),
    *("bytes of stock", "of composites", "memory of stock", "of composites", "ratio", "more"),
)


def lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The rows of the table."""
    found = []
    for row in rows:
        traffic = [row.traffic[side] for side in SIDES]
        used = [row.memory[side] for side in SIDES]
        ratio = used[1] / used[0] if used[0] else 1.0
        found.append(
            (
                *(row.entry, row.size, row.divided),
                *(_counted(each) for each in traffic),
                *(f"{each.bytes:,}" for each in traffic),
                *(f"{each:,}" for each in used),
                f"{ratio:.2f}",
                row.more,
            )
        )
    return found


def _counted(traffic: Traffic) -> str:
    return ", ".join(f"{count} {name}" for name, count in traffic.counts.items()) or "0"


def markdown(found: Sequence[Row | Failure], devices: int) -> str:
    """The page."""
    rows = [row for row in found if isinstance(row, Row)]
    compared = [row for row in rows if not row.on_the_host]
    written = ["# Collectives of every entry, with composites and without", ""]
    written += [
        "Written by `python -m benchmarks.sharding_entries`; its head says what is counted."
    ]
    written += [f"{devices} virtual CPU devices. `more` names what composites have more of.", ""]
    written += markdown_table(COLUMNS, lines(compared), numbers=range(5, 10))
    hosts = dict.fromkeys(row.entry for row in rows if row.on_the_host)
    if hosts:
        written += ["", "Stock computes these, in whole or in part, on the host: "]
        written[-1] += ", ".join(f"`{name}`" for name in hosts) + "."
    written += ["", f"Left out, since they are unrolled: {', '.join(f'`{n}`' for n in LEFT_OUT)}."]
    failures = [each for each in found if isinstance(each, Failure)]
    if failures:
        written += ["", "Not measured:", ""]
        written += [f"- `{each.entry}`, {each.divided}: {each.reason}" for each in failures]
    return "\n".join(written) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", default="", help="entries, comma-separated; all without it")
    parser.add_argument("--devices", type=int, default=4, help="virtual CPU devices")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    options = parser.parse_args()
    known = [name for name in dict.fromkeys(case.entry for case in CASES) if name not in LEFT_OUT]
    names = options.names.split(",") if options.names else known
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"{unknown[0]!r} is not known (there are {', '.join(known)})")
    page = markdown(rows_of(names, options.devices), options.devices)
    print(page)
    if options.markdown:
        options.markdown.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
