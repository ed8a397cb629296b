"""The collectives of large steps on 4 to 256 devices: compiled, not run.

    python -m benchmarks.sharding_compiled [--names Llama,GPT-2] [--devices 4,8,64,256]
                                           [--markdown benchmarks/SHARDING_COMPILED.md]

Steps of two layers of large models are exported from modules without data, with stock's operators
and with every composite, and XLA divides and compiles them for virtual CPU devices. Collectives are
counted in its result as benchmarks/sharding.py counts them; `bytes` are those of their results on
each device, and `memory` is what XLA plans there: arguments, results and all in between. This XLA,
of jaxlib, combines collectives of one kind whose values are ready together. That of torch_xla 2.9,
with which benchmarks/sharding.py counts, does not for CPU devices.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.pages import markdown_table
from benchmarks.processes import alone, environment, xla_flags
from benchmarks.sharding import COLLECTIVES, SIDES, Side, Traffic, traffic_of
from benchmarks.sharding_cases import AXES, Parallelism, build, spec

LARGE: Mapping[str, Mapping[str, Any]] = {
    "Llama": {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
    },
    "BERT": {
        "vocab_size": 30592,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
    },
    "GPT-2": {"vocab_size": 50304, "n_embd": 1600, "n_head": 32, "n_positions": 1024},
    "T5": {"vocab_size": 32128, "d_model": 1024, "d_kv": 64, "d_ff": 4096, "num_heads": 16},
}
"""What differs from the settings of benchmarks/sharding_cases.py: the sizes of published models.

Mixtral is left out. Stock torch_xla runs only transformers' batched experts, which take a copy of
their weights for each token: terabytes, in published sizes.
"""
MODEL_AXIS = 8
"""The most devices along the axis of the model, since heads are divided among them."""
LENGTH = 512


@dataclass(frozen=True, slots=True)
class Row:
    """A step on a number of devices."""

    model: str
    kind: Parallelism
    devices: int
    traffic: Mapping[Side, Traffic]
    memory: Mapping[Side, int]


def axes_of(kind: Parallelism, devices: int) -> dict[str, int]:
    """The mesh: names and sizes of its axes."""
    names = AXES[kind]
    if len(names) == 1:
        return {names[0]: devices}
    along = max(1, min(MODEL_AXIS, devices // 2))
    return dict(zip(names, (devices // along, along), strict=True))


def kinds(devices: int) -> list[Parallelism]:
    """In which ways a step is divided."""
    return [kind for kind in AXES if kind != "tensor" or devices <= MODEL_AXIS]


# ---- in a process of its own, with as many virtual devices ----


def measure(model: str, kind: Parallelism, devices: int) -> Row:
    """Export and compile a step on both sides."""
    traffic: dict[Side, Traffic] = {}
    memory: dict[Side, int] = {}
    for side in SIDES:
        text, memory[side] = _compiled(model, kind, devices, side)
        traffic[side] = traffic_of([text])
    return Row(model, kind, devices, traffic, memory)


def _compiled(model: str, kind: Parallelism, devices: int, side: Side) -> tuple[str, int]:
    """The optimized HLO of a step, and the bytes that it needs on each device."""
    import jax
    import torch

    import composites
    from lowering.stablehlo import jax_function
    from lowering.stablehlo.dtypes import numpy_dtype

    axes = axes_of(kind, devices)
    rows = 2 * axes.get("data", axes.get("fsdp", 1))
    with torch.device("meta"):
        module = build(model, LARGE[model]).eval()
        tokens = torch.zeros(rows, LENGTH, dtype=torch.long)
    specs = {f"param:{n}": spec(kind, n, p) for n, p in module.named_parameters() if _fits(p, axes)}
    specs |= {f"kwarg:{n}": spec(kind, "input_ids", tokens) for n in ("input_ids", "labels")}
    program = composites.export(
        module,
        (),
        {"input_ids": tokens, "labels": tokens},
        train=True,
        ops=() if side == "stock" else ("all",),
        mesh=axes,
        shardings={escape(name): found for name, found in specs.items() if found is not None},
    )
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes))
    placed = [
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*(value.sharding or ())))
        for value in program.inputs
    ]
    with jax.enable_x64():
        given = [
            jax.ShapeDtypeStruct(value.shape, numpy_dtype(value.dtype), sharding=sharding)
            for value, sharding in zip(program.inputs, placed, strict=True)
        ]
        compiled = jax.jit(jax_function(program.module)).lower(*given).compile()
    found = compiled.memory_analysis()
    used = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return compiled.as_text(), used


def _fits(parameter: Any, axes: Mapping[str, int]) -> bool:
    """Whether a parameter can be divided equally; it is whole on each device otherwise."""
    return "fsdp" not in axes or parameter.shape[0] % axes["fsdp"] == 0


# ---- in the process that asks ----


def row_of(model: str, kind: Parallelism, devices: int) -> Row:
    """Measure in a process that has this number of devices."""
    flag = f"--xla_force_host_platform_device_count={devices}"
    with environment(xla_flags(flag)):
        return alone(measure, model, kind, devices)


COLUMNS = ("step of", "devices", "side", *COLLECTIVES, "all", "bytes", "memory")


def lines(row: Row) -> Iterator[tuple[str, ...]]:
    """The lines of a row in the table, one for each side."""
    for side, traffic in row.traffic.items():
        first = side == "stock"
        yield (
            f"{row.model}, {row.kind}" if first else "",
            str(row.devices) if first else "",
            side,
            *(str(traffic.counts.get(name, "")) for name in COLLECTIVES),
            str(traffic.total),
            f"{traffic.bytes:,}",
            f"{row.memory[side]:,}",
        )


def markdown(rows: Sequence[Row]) -> str:
    """The page."""
    written = ["# Collectives on many devices, with composites and without", ""]
    written += [
        "Written by `python -m benchmarks.sharding_compiled`; its head says what is counted."
    ]
    cells = [line for row in rows for line in lines(row)]
    written += ["", *markdown_table(COLUMNS, cells, numbers=[1, *range(3, len(COLUMNS))])]
    return "\n".join(written) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", default=",".join(LARGE), help="models, comma-separated")
    parser.add_argument("--kinds", default=",".join(AXES), help="of parallelism, comma-separated")
    parser.add_argument("--devices", default="4,8,64,256", help="virtual ones, comma-separated")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    options = parser.parse_args()
    for devices in options.devices.split(","):
        if not devices.isdecimal() or int(devices).bit_count() != 1:
            sys.exit(f"the number of devices must be a power of two, not {devices}")
    for given, known in ((options.names, LARGE), (options.kinds, AXES)):
        unknown = [name for name in given.split(",") if name not in known]
        if unknown:
            sys.exit(f"{unknown[0]!r} is not known (there are {', '.join(known)})")
    wanted: list[tuple[str, Any, int]] = [
        (model, kind, devices)
        for devices in map(int, options.devices.split(","))
        for kind in kinds(devices)
        if kind in options.kinds.split(",")
        for model in options.names.split(",")
    ]
    if not wanted:
        sys.exit(f"no step is divided by the model alone on more than {MODEL_AXIS} devices")
    console = Console(width=max(160, Console().width))
    rows = [row_of(*each) for each in track(wanted, "compiling", console=Console(stderr=True))]
    table = Table(*COLUMNS)
    for row in rows:
        for cells in lines(row):
            table.add_row(*cells)
    console.print(table)
    if options.markdown:
        options.markdown.write_text(markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
