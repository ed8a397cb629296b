"""What an export costs: side by side with stock torch_xla's `xm.get_stablehlo`, in one process.

    python -m benchmarks.export [--repeats 8] [--markdown benchmarks/EXPORT.md]

The workload is a training step of GPT-2 from transformers (12 layers, n_embd 256, batch 4 x 64,
random weights): forward, loss.backward(), AdamW, returning the loss, every gradient, and the
updated parameters and optimizer state. `composites.export` does it with every composite on; stock
torch_xla traces the same step on tensors of the device and prints it with `xm.get_stablehlo`.

Both sides go from Python code to StableHLO text; tracing is in both times. They alternate, as
benchmarks/harness/timing.py says. Stock's step is run outside the time, so that the next one starts
with values again. `benchmarks.frontends` compares exports with and without torch_xla.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla.core.xla_model as xm
from transformers.utils import logging

import composites
from benchmarks.harness.pages import markdown_table, page, publish
from benchmarks.harness.runs import parser_of
from benchmarks.harness.timing import (
    BESIDE_STOCK,
    Ratio,
    alternated,
    beside_stock,
    conditions,
    milliseconds,
    ratio,
    seconds,
    settle,
    typical,
)
from benchmarks.training_models import of_transformers
from benchmarks.training_steps import SMALL_GPT2

LAYERS = 12
BAR = 1.0
Export = Callable[[], str]


def gpt2() -> torch.nn.Module:
    """Without dropout."""
    module = of_transformers("GPT2LMHeadModel", **SMALL_GPT2, n_layer=LAYERS, use_cache=False)
    return module.eval()


def inputs() -> dict[str, torch.Tensor]:
    tokens = torch.randint(SMALL_GPT2["vocab_size"], (4, SMALL_GPT2["n_positions"]))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


def with_composites() -> Export:
    """The export of the step with composites."""
    step = partial(torch.optim.AdamW, lr=1e-3)
    export = partial(composites.export, gpt2(), (), inputs(), optimizer=step)
    return lambda: export().mlir


def stock() -> Export:
    """The step traced and printed by torch_xla alone."""
    model = gpt2().to("xla")
    batch = {name: tensor.to("xla") for name, tensor in inputs().items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)

    def export() -> str:
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        parameters = list(model.parameters())
        gradients = [p.grad for p in parameters if p.grad is not None]
        state = [t for values in optimizer.state.values() for t in values.values()]
        text: str = xm.get_stablehlo([loss.detach(), *gradients, *parameters, *state])
        return text

    return export


SIDES: Mapping[str, Callable[[], Export]] = {"stock": stock, "composites": with_composites}


def rows(repeats: int) -> Iterator[tuple[str, ...]]:
    """Time and size of both sides."""
    sides = [make() for make in SIDES.values()]
    sizes = []
    for side in sides:
        side()  # makes the state of optimizers
        settle()
        sizes.append(len(side()))
        settle()

    def samples(side: Export, count: int) -> list[float]:
        spent = []
        for _ in range(count):
            spent.append(seconds(side)[0])
            settle()
        return spent

    blocks = alternated([partial(samples, side) for side in sides], repeats)
    times = [milliseconds(typical(of_side)) for of_side in blocks]
    yield beside_stock("time", times, ratio(*blocks), BAR)
    lengths = [f"{size / 1e3:,.0f} KB" for size in sizes]
    yield beside_stock("text", lengths, Ratio.exactly(sizes[1] / sizes[0]), BAR)


def main() -> None:
    options = parser_of(__doc__, repeats=8).parse_args()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    torch.manual_seed(0)
    table = markdown_table(BESIDE_STOCK, rows(options.repeats))
    text = page(
        "Cost of an export",
        "Written by `python -m benchmarks.export`; its head says how it measures.",
        f"## GPT-2 training step, {LAYERS} layers: Python to StableHLO text",
        table,
        conditions(f"{options.repeats} repeats, load {os.getloadavg()[0]:.1f} at the end"),
    )
    publish(text, options.markdown)


if __name__ == "__main__":
    main()
