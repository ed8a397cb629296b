"""The same training steps exported by both frontends: times, sizes, composites, numbers.

`python -m benchmarks.export --frontend` runs this; its head has the commands. The models are those
of `benchmarks.share`, from their configs with random weights, without dropout, with AdamW.

- `time` is the least of the exports of a process, from Python code to StableHLO.
- `bytes` is the length of the text.
- `composites` counts what `@main` calls. Decompositions may hold others, which depend on how
  PyTorch decomposes an operator.
- `difference` is the largest of the loss and the gradients to PyTorch eager on the CPU, relative to
  the largest number of that gradient; one that is smaller than 1e-4 of the largest gradient of the
  model is compared with that, as its true value may be zero.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch

import composites
from benchmarks.harness.pages import markdown_table, page
from benchmarks.training_models import MODELS, Step
from composites.errors import CompositesError
from lowering import activation
from lowering.frontends.chosen import choosing, import_package
from lowering.stablehlo import bindings
from lowering.stablehlo.composites import composite_name
from lowering.stablehlo.symbols import COMPOSITE, functions

COLUMNS = (
    "model", "xla", "fx", "time", "bytes", "composites", "xla, difference", "fx, difference",
)  # fmt: skip
PACKAGES = ("torch", "torch_xla", "jax", "transformers")


@dataclass(frozen=True, slots=True)
class Row:
    """One model on one frontend."""

    model: str
    seconds: float
    bytes: int
    composites: Mapping[str, int]
    difference: float
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """What was measured on one frontend."""

    frontend: str
    environment: str
    rows: Sequence[Row]


def models_named(names: str | None) -> list[str]:
    """The models with these names, which commas separate, or all.

    Raises ValueError if there is none of that name.
    """
    if names is None:
        return list(MODELS)
    found = names.split(",")
    if unknown := [name for name in found if name not in MODELS]:
        raise ValueError(f"no model {', '.join(unknown)}; the models are: {', '.join(MODELS)}")
    return found


def read(file: Path, beside: str) -> Recording:
    """A recording of the other frontend.

    Raises ValueError if the file is none, or is one of the same frontend.
    """
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        rows = [Row(**row) for row in written.pop("rows")]
        found = Recording(**written, rows=rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is not what `--record` writes: {error}") from None
    if found.frontend == beside:
        raise ValueError(f"{file} is of the frontend {beside} too; name one of the other")
    return found


def write(file: Path, recording: Recording) -> None:
    """Write it for `read`."""
    file.write_text(json.dumps(asdict(recording), indent=1) + "\n", encoding="utf-8")


def record(frontend: str, models: Sequence[str], repeats: int) -> Recording:
    """Export these models on a frontend, and print each row.

    Raises ExportError or MissingPackageError if this process cannot have the frontend.
    """
    with choosing(frontend):
        import_package()
        activation.backend()  # here, since a model's failure is a row of the table
    rows = []
    for name in models:
        rows.append(row := measure(name, frontend, repeats))
        said = row.failure or f"{row.seconds:.2f} s, {row.bytes:,} bytes, {row.difference:.1e}"
        print(f"{name}: {said}", flush=True)
    return Recording(frontend, environment(), rows)


def measure(name: str, frontend: str, repeats: int) -> Row:
    """Export one model, and compare its gradients with those of PyTorch."""
    torch.manual_seed(0)
    made = MODELS[name]()
    step = Step(made).eval()
    batch = dict(made.batch)
    optimizer = partial(torch.optim.AdamW, lr=1e-3)
    try:
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            program = composites.export(step, (), batch, optimizer=optimizer, frontend=frontend)
            times.append(time.perf_counter() - began)
        difference = _difference(step, batch, frontend)
    except (CompositesError, RuntimeError) as error:  # RuntimeError: the framework's own
        return Row(name, 0, 0, {}, 0, re.sub(r"/\S*/", "", str(error).splitlines()[0]))
    main = functions(program.module.ir)["main"]
    called = Counter(
        composite_name(operation) for operation in bindings.find_operations(main, COMPOSITE)
    )
    return Row(name, min(times), len(program.module.text), dict(sorted(called.items())), difference)


def _difference(step: Step, batch: dict[str, torch.Tensor], frontend: str) -> float:
    program = composites.export(step, (), batch, train=True, frontend=frontend)
    found = program.run({**program.module_weights(step), **_arguments(batch)})
    loss = step(**batch)
    loss.backward()
    expected = {"loss": loss.detach()} | {
        f"grad:{name}": parameter.grad
        for name, parameter in step.named_parameters()
        if parameter.grad is not None
    }
    largest = max(float(t.abs().max()) for n, t in expected.items() if n != "loss")
    return max(
        _distance(torch.tensor(found[name]), tensor, 1e-4 * largest)
        for name, tensor in expected.items()
    )


def _distance(found: torch.Tensor, expected: torch.Tensor, least: float) -> float:
    scale = max(float(expected.abs().max()), least)
    return float((found - expected).abs().max()) / scale


def _arguments(batch: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    return {f"kwarg:{name}": tensor.numpy() for name, tensor in batch.items()}


def environment() -> str:
    """The versions of what takes part."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def markdown(first: Recording, second: Recording) -> str:
    """The page of two recordings, the first of the frontend `xla`."""
    rows = {row.model: row for row in first.rows}
    cells: list[Sequence[str]] = []
    times, sizes, same = [], [], 0
    for row in second.rows:
        other = rows.get(row.model)
        if other is None:
            continue
        if row.failure or other.failure:
            said = f"xla: {other.failure or 'exports'}; fx: {row.failure or 'exports'}"
            cells.append([row.model, said, *[""] * (len(COLUMNS) - 2)])
            continue
        times.append(row.seconds / other.seconds)
        sizes.append(row.bytes / other.bytes)
        differs = _differing(other.composites, row.composites)
        same += not differs
        total = sum(row.composites.values())
        cells.append([
            row.model,
            f"{other.seconds:.2f} s", f"{row.seconds:.2f} s",
            f"{times[-1]:.2f}", f"{sizes[-1]:.2f}", differs or f"{total}, the same",
            f"{other.difference:.1e}", f"{row.difference:.1e}",
        ])  # fmt: skip
    summary = f"{len(times)} models, {same} with the same composites by name and number."
    if times:
        summary += (
            f" Time: fx takes {min(times):.2f} to {max(times):.2f} of xla's; bytes:"
            f" {min(sizes):.2f} to {max(sizes):.2f}."
        )
    return page(
        "The same training steps from both frontends",
        "Written by `python -m benchmarks.export --frontend fx --beside FILE`;"
        " `benchmarks/frontends.py` says what is measured.",
        f"`xla`: {first.environment}. `fx`: {second.environment}.",
        markdown_table(COLUMNS, cells),
        summary,
    )


def _differing(first: Mapping[str, int], second: Mapping[str, int]) -> str:
    names = sorted(first.keys() | second.keys())
    pairs = [(name, first.get(name, 0), second.get(name, 0)) for name in names]
    return ", ".join(f"{name} {one} -> {two}" for name, one, two in pairs if one != two)
