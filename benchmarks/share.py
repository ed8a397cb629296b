"""The share of a training step that composites hold, and the differences of its results.

    python -m benchmarks.share [--names "bert|gpt2"] [--markdown benchmarks/SHARE.md]

Each model is built from its config with random weights and takes training steps with AdamW: once
with stock torch_xla, once with every composite on, from the same weights, data and seeds.

- `stock` counts the HLO instructions of the step's graph that are worth a kernel: parameters and
  tuples are no work, and dots and convolutions, with the transposes and reshapes around them, are
  what a backend matches anyway.
- `outside` counts the same of the graph with composites on, without what is inside composites.
- `share` is what of stock's instructions is inside composites: 1 - outside / stock. Instructions
  inside composites are not counted, so a long decomposition does not make the share look better.
- `loss`, `gradients` and `weights` are the largest differences after the steps, relative to the
  largest loss, gradient and weight of the model. (Some gradients, as that of the bias of keys in
  attention, are zero but for rounding, so nothing can be said relative to their own size; Adam
  makes steps of the size of the learning rate of them.) What differs in Llama and its kin is the
  order of a sum: a norm that is one composite gives a tensor one gradient, where stock adds its
  parts one by one to that of the residual. In the U-Net it is `upsample_nearest2d`, whose gradient
  stock computes on the CPU, and in Qwen3-Next, OLMo Hybrid and Kimi Linear a triangular system.
"""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
import torch_xla.core.xla_model as xm

from benchmarks.harness.pages import markdown_table, page, publish, versions_of
from benchmarks.harness.processes import each_in_processes
from benchmarks.harness.runs import chosen, parser_of
from benchmarks.training_models import ARCHITECTURES, MODELS, Model
from lowering.activation import all_off, enabled
from lowering.emission import hlo_proto
from lowering.frontends.torch_xla.graph import graph_hlo
from lowering.hlo.work import count

BARS = {"decoder": 0.8, "encoder": 0.8, "state space": 0.6}
STEPS = 2
SEED = 7
MODELS_OF_A_PROCESS = 8
"""XLA keeps what it compiles. After some 35 models the process has as many memory mappings as Linux
allows (65,530), and ends."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The results of some training steps."""

    outside: int
    """Instructions outside composites."""
    composites: int
    """Calls of composites."""
    losses: list[torch.Tensor]
    gradients: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]


def measure(name: str) -> tuple[str, ...]:
    """A row of the table: a model, trained with composites and without."""
    torch.manual_seed(SEED)
    made = MODELS[name]()
    with all_off():
        stock = train(made)
    with all_off(), enabled("all"):
        ours = train(made)
    share = 1 - ours.outside / stock.outside
    bar = BARS[ARCHITECTURES[name].kind] if name in ARCHITECTURES else 0.8
    differences = (
        _largest(dict(enumerate(stock.losses)), dict(enumerate(ours.losses))),
        _largest(stock.gradients, ours.gradients),
        _largest(stock.weights, ours.weights),
    )
    return (
        name,
        *map(str, (stock.outside, ours.outside, ours.composites)),
        f"{share:.1%}" + ("" if share >= bar else f" (bar {bar:.0%})"),
        *(f"{difference:.1e}" for difference in differences),
    )


def train(made: Model) -> Steps:
    """Take steps with a copy of a model; the graph of the last step is counted.

    The first step is another graph, which also makes the optimizer's state.
    """
    device = torch_xla.device()
    xm.set_rng_state(SEED)
    module = copy.deepcopy(made.module).to(device).train()
    batch = {key: tensor.to(device) for key, tensor in made.batch.items()}
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    torch_xla.sync()
    losses: list[torch.Tensor] = []
    counted, calls = Counter[str](), 0
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = made.loss(module, batch)
        loss.backward()
        optimizer.step()
        if step == STEPS - 1:
            state = [t for s in optimizer.state.values() for t in s.values() if t.is_xla]
            graph = graph_hlo([loss.detach(), *module.parameters(), *state])
            counted, calls = count(hlo_proto.Module.FromString(graph))
        torch_xla.sync()
        losses.append(loss.detach().cpu())
    return Steps(
        counted.total(),
        calls,
        losses,
        {n: p.grad.cpu() for n, p in module.named_parameters() if p.grad is not None},
        {n: p.detach().cpu() for n, p in module.named_parameters()},
    )


def _largest(expected: Mapping[Any, torch.Tensor], actual: Mapping[Any, torch.Tensor]) -> float:
    """The largest difference, relative to the largest number."""
    assert expected.keys() == actual.keys()
    largest = max(tensor.abs().max().item() for tensor in expected.values())
    difference = max((expected[n] - actual[n]).abs().max().item() for n in expected)
    return difference / largest


COLUMNS = ("model", "stock", "outside", "composites", "share", "loss", "gradients", "weights")


def main() -> None:
    options = parser_of(__doc__).parse_args()
    rows: list[tuple[str, ...]] = []
    for row in each_in_processes(measure, chosen(MODELS, options.names), MODELS_OF_A_PROCESS):
        if isinstance(row, BaseException):
            raise row
        rows.append(row)
        print(" | ".join(row), flush=True)
    explained = (__doc__ or "").partition("\n\n- ")[2]
    text = page(
        "Share of a training step that is inside composites",
        "Printed by `python -m benchmarks.share --markdown benchmarks/SHARE.md` with"
        f" {versions_of('torch', 'torch_xla')} on the CPU; every composite of the built-in"
        " registry is on.",
        markdown_table(COLUMNS, rows, numbers=range(1, len(COLUMNS))),
        f"- {explained.strip()}",
    )
    publish(text, options.markdown)


if __name__ == "__main__":
    main()
