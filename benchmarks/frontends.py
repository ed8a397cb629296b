"""The same training steps exported by both frontends: times, sizes, composites, numbers.

    python -m benchmarks.frontends --frontend xla --results xla.jsonl [--names "gpt2|bert"]
    python -m benchmarks.frontends --frontend fx --beside xla.jsonl [--names "gpt2|bert"]
                                   [--markdown benchmarks/FRONTENDS.md]

The frontends need different releases of PyTorch, so each of these commands runs in an environment
of its own: one with the extra `torch-xla`, and one with `torch`. The models are those of
`benchmarks.share`, from their configs with random weights, without dropout, with AdamW.

- `time` is the least of the exports of a process, from Python code to StableHLO.
- `bytes` is the length of the text.
- `composites` counts what `@main` calls. Decompositions may hold others, which depend on how
  PyTorch decomposes an operator.
- `difference` is the largest of the loss and the gradients to PyTorch eager on the CPU, relative to
  the largest number of that gradient; one that is smaller than 1e-4 of the largest gradient of the
  model is compared with that, as its true value may be zero.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch

import composites
from benchmarks.harness.pages import markdown_table, page, publish, versions_of
from benchmarks.harness.runs import chosen, measured, parser_of, read_records
from benchmarks.harness.timing import seconds
from benchmarks.training_models import MODELS, Step
from composites.errors import CompositesError
from lowering import activation
from lowering.frontends.chosen import NAMES, choosing, import_package
from lowering.stablehlo import bindings
from lowering.stablehlo.composites import composite_name
from lowering.stablehlo.symbols import COMPOSITE, functions

COLUMNS = (
    "model", "xla", "fx", "time", "bytes", "composites", "xla, difference", "fx, difference",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One model on one frontend."""

    model: str
    seconds: float
    bytes: int
    composites: Mapping[str, int]
    difference: float
    failure: str = ""


def measure(name: str, frontend: str, repeats: int) -> list[Row]:
    """Export one model, and compare its gradients with those of PyTorch."""
    torch.manual_seed(0)
    made = MODELS[name]()
    step = Step(made).eval()
    batch = dict(made.batch)
    optimizer = partial(torch.optim.AdamW, lr=1e-3)
    try:
        export = partial(composites.export, step, (), batch, optimizer=optimizer, frontend=frontend)
        exports = [seconds(export) for _ in range(repeats)]
        difference = _difference(step, batch, frontend)
    except (CompositesError, RuntimeError) as error:  # RuntimeError: the framework's own
        return [Row(name, 0, 0, {}, 0, re.sub(r"/\S*/", "", str(error).splitlines()[0]))]
    program = exports[-1][1]
    main = functions(program.module.ir)["main"]
    called = Counter(
        composite_name(operation) for operation in bindings.find_operations(main, COMPOSITE)
    )
    least = min(spent for spent, _ in exports)
    return [Row(name, least, len(program.module.text), dict(sorted(called.items())), difference)]


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


def markdown(environments: Mapping[str, str], first: Sequence[Row], second: Sequence[Row]) -> str:
    """The page of the rows of `xla` and of those of `fx`."""
    of_fx = {row.model: row for row in second}
    cells: list[Sequence[str]] = []
    times, sizes, same = [], [], 0
    for xla in first:
        fx = of_fx.get(xla.model)
        if fx is None:
            continue
        if xla.failure or fx.failure:
            reason = f"xla: {xla.failure or 'exports'}; fx: {fx.failure or 'exports'}"
            cells.append([xla.model, reason, *[""] * (len(COLUMNS) - 2)])
            continue
        times.append(fx.seconds / xla.seconds)
        sizes.append(fx.bytes / xla.bytes)
        differs = _differing(xla.composites, fx.composites)
        same += not differs
        total = sum(fx.composites.values())
        cells.append([
            xla.model,
            f"{xla.seconds:.2f} s", f"{fx.seconds:.2f} s",
            f"{times[-1]:.2f}", f"{sizes[-1]:.2f}", differs or f"{total}, the same",
            f"{xla.difference:.1e}", f"{fx.difference:.1e}",
        ])  # fmt: skip
    summary = f"{len(times)} models, {same} with the same composites by name and number."
    if times:
        summary += (
            f" Time: fx takes {min(times):.2f} to {max(times):.2f} of xla's; bytes:"
            f" {min(sizes):.2f} to {max(sizes):.2f}."
        )
    return page(
        "The same training steps from both frontends",
        "Written by `python -m benchmarks.frontends`; its head says what is measured.",
        " ".join(f"`{name}`: {environments[name]}." for name in NAMES),
        markdown_table(COLUMNS, cells),
        summary,
    )


def _differing(first: Mapping[str, int], second: Mapping[str, int]) -> str:
    names = sorted(first.keys() | second.keys())
    pairs = [(name, first.get(name, 0), second.get(name, 0)) for name in names]
    return ", ".join(f"{name} {one} -> {two}" for name, one, two in pairs if one != two)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--frontend", choices=NAMES, required=True)
    parser.add_argument("--repeats", type=int, default=3, help="exports of each model")
    parser.add_argument("--results", type=Path, help="JSON lines; go on with an earlier run")
    parser.add_argument("--beside", type=Path, help="such a file of the other frontend")
    options = parser.parse_args()
    if options.markdown and not options.beside:
        parser.error("the page shows both frontends: --markdown needs --beside FILE")
    names = chosen(MODELS, options.names)
    with choosing(options.frontend):
        import_package()
        activation.backend()  # here, since a model's failure is a row of the table
    environment = versions_of("torch", "torch_xla", "jax", "transformers")
    cases = [
        (environment, name, partial(measure, name, options.frontend, options.repeats))
        for name in names
    ]
    own = [row for one in measured(cases, options.results, _row) for row in one.rows]
    for row in own:
        found = row.failure or f"{row.seconds:.2f} s, {row.bytes:,} bytes, {row.difference:.1e}"
        print(f"{row.model}: {found}")
    records = read_records(options.beside)
    if records:
        theirs = [_row("", row) for record in records for row in record["rows"]]
        (other,) = set(NAMES) - {options.frontend}
        environments = {options.frontend: environment, other: records[0]["part"]}
        rows = {options.frontend: own, other: theirs}
        publish(markdown(environments, rows["xla"], rows["fx"]), options.markdown)


def _row(_: str, row: Mapping[str, Any]) -> Row:
    return Row(**row)


if __name__ == "__main__":
    main()
