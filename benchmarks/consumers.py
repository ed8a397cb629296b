"""What consumers of StableHLO make of exported models: each number beside PyTorch's on the CPU.

    python -m benchmarks.consumers [--names gnn,gru] [--consumers jax,iree,litert]
                                   [--kinds inference,gradients,step] [--limit 120]
                                   [--results FILE] [--markdown docs/consumers.md]

Each model of benchmarks/consumer_models.py is exported as inference, gradients and a step of AdamW,
and runs on jax (`Program.run`), IREE and LiteRT. A cell has a process of its own, because
consumers abort and hang, and a time limit.

A cell is the largest error of all outputs, each relative to its largest value, or the reason why
there is none. The variance that batch norm keeps is not compared: torch_xla 2.9 averages the biased
one.

With `--results`, cells are written to a file of JSON lines as soon as they are known, and cells
that are in it do not run again. `--names` takes models whose names begin so.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import records
from benchmarks.consumer_models import MODELS, Loss, prediction

Kind = Literal["inference", "gradients", "step"]
Consumer = Literal["jax", "iree", "litert"]
Arrays = dict[str, np.ndarray]

PACKAGES = (
    "torch",
    "torch_xla",
    "transformers",
    "jax",
    "iree-base-compiler",
    "litert-converter",
    "ai-edge-litert",
)
ALLOWED = 1e-5
"""The error up to which a cell counts as right, as in tests/consumers."""
FLOOR = 0.1
"""What is added to the largest value of an output, for outputs that are noise around zero."""
STATE = {"step": 10.0, "exp_avg": 0.1, "exp_avg_sq": 0.3}
"""At the start Adam moves by the sign of a gradient, noise or not; so some steps on."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one consumer made of one program."""

    model: str
    kind: Kind
    consumer: Consumer
    error: float | None = None
    reason: str = ""

    @property
    def right(self) -> bool:
        return self.error is not None and self.error <= ALLOWED


def run_cell(name: str, kind: Kind, consumer: Consumer) -> Cell:
    """Export the program and run it, in this process."""
    import torch

    import composites

    torch.manual_seed(0)
    model = MODELS[name]()
    module, inputs = prediction(model) if kind == "inference" else (Loss(model), dict(model.batch))
    optimizer = partial(torch.optim.AdamW, lr=1e-3) if kind == "step" else None
    program = composites.export(
        module,
        (),
        inputs,
        train=kind != "inference",
        optimizer=optimizer,
        target="xla" if consumer == "jax" else consumer,
    )
    state = {
        value.name: torch.full(value.shape, STATE[value.name.rpartition(".")[2]])
        for value in program.inputs
        if value.name.startswith("state:")
    }
    named = {**program.module_weights(module), **state}
    named |= {f"kwarg:{key}": value for key, value in inputs.items()}
    # Copies: batch norm writes to its buffers, which numpy would see.
    values = [named[value.name].detach().numpy().copy() for value in program.inputs]
    wanted = computed(module, inputs, kind, optimizer, state)
    results = CONSUMERS[consumer](program, values)
    got = {value.name: np.asarray(r) for value, r in zip(program.outputs, results, strict=True)}
    return Cell(name, kind, consumer, error=largest_error(got, wanted))


def largest_error(got: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> float:
    """The largest of all outputs; NaN if any value is not a number."""
    errors = [0.0]
    for name, value in got.items():
        if name.endswith("running_var"):
            continue
        want = np.asarray(wanted[name], np.float64)
        if value.shape != want.shape:
            raise ValueError(f"{name} has shape {list(value.shape)}, not {list(want.shape)}")
        if want.size:
            difference = np.abs(np.asarray(value, np.float64) - want)
            errors.append(float(difference.max() / (FLOOR + np.abs(want).max())))
    return float(np.max(errors))


def computed(
    module: Any,
    inputs: Mapping[str, Any],
    kind: Kind,
    optimizer: Callable[..., Any] | None,
    state: Mapping[str, Any],
) -> Arrays:
    """What PyTorch computes on the CPU, by the names of the program's outputs."""
    module = copy.deepcopy(module)
    result = module(**inputs)
    outputs = {"out:0": result}
    parameters = dict(module.named_parameters())
    if kind != "inference":
        result.backward()
        outputs = {"loss": result}
        outputs |= {f"grad:{name}": p.grad for name, p in parameters.items() if p.grad is not None}
    if optimizer is not None:
        stepper = optimizer(parameters.values())
        for name, tensor in state.items():
            owner, _, key = name.removeprefix("state:").rpartition(".")
            stepper.state[parameters[owner]][key] = tensor.clone()
        stepper.step()
        outputs |= {f"param:{name}": parameter for name, parameter in parameters.items()}
        outputs |= {
            f"state:{name}.{key}": tensor
            for name, parameter in parameters.items()
            for key, tensor in stepper.state[parameter].items()
        }
    outputs |= {f"buffer:{name}": buffer for name, buffer in module.named_buffers()}
    return {name: value.detach().numpy() for name, value in outputs.items()}


def on_jax(program: Any, values: Sequence[Any]) -> list[Any]:
    return list(program.run(*values).values())


def on_iree(program: Any, values: Sequence[Any]) -> list[Any]:
    import iree.compiler
    import iree.runtime

    with tempfile.TemporaryDirectory() as folder:
        program.save(folder)
        compiled = iree.compiler.compile_file(
            str(Path(folder, "program.mlir")),
            input_type="stablehlo",
            target_backends=["llvm-cpu"],
            extra_args=["--iree-llvmcpu-target-cpu=generic"],
        )
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
    module = iree.runtime.VmModule.copy_buffer(context.instance, compiled)
    context.add_vm_module(module)
    results = context.modules[module.name].main(*values)
    return list(results) if isinstance(results, tuple | list) else [results]


def on_litert(program: Any, values: Sequence[Any]) -> list[Any]:
    from ai_edge_litert.interpreter import Interpreter
    from litert_converter import converter_api_ext as converter
    from litert_converter.mlir import ir, passmanager

    from lowering.stablehlo import Module, composite_count, decompose, run_passes

    def without_unknown(module: Module) -> Module:
        """LiteRT knows composites of these names alone."""
        known = ("aten.", "odml.", "tfl.")
        names = [name for name in composite_count(module) if not name.startswith(known)]
        return decompose(module, only=names)

    text = run_passes(Module.parse(program.mlir), [without_unknown]).text
    context = ir.Context()
    converter.prepare_mlir_context(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        inputs = [f"input{number}" for number in range(len(program.inputs))]
        outputs = [f"output{number}" for number in range(len(program.outputs))]
        converter.set_signature(module.operation, "serving_default", inputs, outputs)
        converter.run_convert_to_tfl_passes(
            module, passmanager.PassManager(), converter.ConvertToTFLConfig()
        )
        flatbuffer = converter.export_flatbuffer_to_bytes(module.operation)
    interpreter = Interpreter(model_content=flatbuffer)
    interpreter.allocate_tensors()
    run = interpreter.get_signature_runner("serving_default")
    results = run(**dict(zip(inputs, values, strict=True)))
    return [results[name] for name in outputs]


CONSUMERS: Mapping[Consumer, Callable[[Any, Sequence[Any]], list[Any]]] = {
    "jax": on_jax,
    "iree": on_iree,
    "litert": on_litert,
}

REFUSED = re.compile(
    r"failed to legalize operation '[^']+'|unresolved custom op: \S+"
    r"|[Ff]ailed to prepare[^\n]*|Encountered unresolved custom op[^\n]*"
    r"|does not take [^;\n]+"
    r"|'[\w.]+' op [^\n]{0,80}|ExportError: [^\n]{0,120}|STABLEHLO_\w+[^\n]{0,80}"
)
MARK = "cell: "


def in_a_process(name: str, kind: Kind, consumer: Consumer, limit: float) -> Cell:
    """The same, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.consumers", "--cell", name, kind, consumer]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return Cell(name, kind, consumer, reason=f"longer than {limit:.0f} s")
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return Cell(**json.loads(line.removeprefix(MARK)))
    return Cell(name, kind, consumer, reason=reason_of(done.stderr, done.returncode))


def reason_of(messages: str, status: int) -> str:
    """The operation that was refused, or the last line, in a few words."""
    if found := REFUSED.search(messages):
        return found.group()
    if status < 0:
        return f"ended by signal {-status}"
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    return lines[-1][:160] if lines else f"ended with status {status}"


def text_of(cell: Cell | None) -> str:
    if cell is None:
        return "not run"
    return cell.reason if cell.error is None else f"{cell.error:.0e}"


def markdown(cells: Sequence[Cell]) -> str:
    """The page: a table for each consumer's kinds, and the reasons as footnotes."""
    by_key = {(cell.model, cell.kind, cell.consumer): cell for cell in cells}
    columns = list(product(get_args(Consumer), get_args(Kind)))
    notes: dict[str, int] = {}

    def shown(name: str, consumer: Consumer, kind: Kind) -> str:
        cell = by_key.get((name, kind, consumer))
        if cell is None or cell.error is not None:
            return text_of(cell)
        number = notes.setdefault(cell.reason, len(notes) + 1)
        return f"[{number}](#reasons)"

    rows = [
        f"| {name} | {' | '.join(shown(name, consumer, kind) for consumer, kind in columns)} |"
        for name in MODELS
    ]
    right = [
        str(sum(cell.right for cell in cells if (cell.consumer, cell.kind) == column))
        for column in columns
    ]
    head = ["model", *(f"{consumer}: {kind}" for consumer, kind in columns)]
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return "\n".join(
        [
            "<!-- Written by `python -m benchmarks.consumers`. -->",
            "# Consumers",
            "",
            "What consumers make of exported models, with random weights, on the CPU. A number is",
            "the largest error against PyTorch of all outputs, relative to the largest value of",
            f"each (plus {FLOOR}). A link is a reason below. The last row counts errors up to",
            f"{ALLOWED:.0e}.",
            "",
            f"| {' | '.join(head)} |",
            "|---" + "|--:" * len(columns) + "|",
            *rows,
            f"| **right, of {len(MODELS)}** | {' | '.join(right)} |",
            "",
            "## Reasons",
            "",
            *(f"{number}. `{reason.replace('`', '')}`" for reason, number in notes.items()),
            "",
            f"Run with {versions}.",
            "Programs are exported with `portable=True`; for LiteRT, composites that it does not",
            "know are decomposed.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", default="", help="beginnings of models' names, comma-separated")
    parser.add_argument("--consumers", default=",".join(get_args(Consumer)))
    parser.add_argument("--kinds", default=",".join(get_args(Kind)))
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a cell")
    parser.add_argument("--results", type=Path, help="JSON lines; go on with an earlier run")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(MARK + json.dumps(asdict(run_cell(*options.cell))))
        return
    names = [name for name in MODELS if name.startswith(tuple(options.names.split(",")))]
    consumers = [each for each in get_args(Consumer) if each in options.consumers.split(",")]
    kinds = [each for each in get_args(Kind) if each in options.kinds.split(",")]
    if not names or not consumers or not kinds:
        sys.exit(
            f"no model, consumer or kind of these names (there are {', '.join(MODELS)};"
            f" {', '.join((*get_args(Consumer), *get_args(Kind)))})"
        )
    found = {
        (cell.model, cell.kind, cell.consumer): cell
        for cell in (Cell(**record) for record in records.read(options.results))
    }
    wanted = list(product(names, kinds, consumers))
    for key in track([k for k in wanted if k not in found], "cells", console=Console(stderr=True)):
        found[key] = in_a_process(*key, options.limit)
        records.append(options.results, [found[key]])
    table = Table("model", "program", *consumers)
    for name, kind in product(names, kinds):
        table.add_row(name, kind, *(text_of(found.get((name, kind, each))) for each in consumers))
    Console(width=max(160, Console().width)).print(table)
    if options.markdown:
        options.markdown.write_text(markdown(list(found.values())), encoding="utf-8")


if __name__ == "__main__":
    main()
