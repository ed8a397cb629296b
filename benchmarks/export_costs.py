"""What an export costs: side by side with stock torch_xla's `xm.get_stablehlo`, in one process.

`python -m benchmarks.export` runs this; its head has the commands.

The workload is a training step of GPT-2 from transformers (n_embd 256, batch 4 x 64, random
weights): forward, loss.backward(), AdamW, returning the loss, every gradient, and the updated
parameters and optimizer state. `composites.export` does it with every composite on; stock torch_xla
traces the same step on tensors of the device and prints it with `xm.get_stablehlo`.

Both sides go from Python code to StableHLO text; tracing is in both times. They take turns, without
garbage collection, and a time is the least of its samples. `noise` compares the even samples of
stock with the odd ones. Stock's step is run outside the time, so that the next one starts with
values again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec

if find_spec("torch_xla") is None:
    raise SystemExit(
        "this compares with stock torch_xla, which is not installed; for both frontends, run"
        " `python -m benchmarks.export --frontend xla --record FILE` in an environment that has it,"
        " and `python -m benchmarks.export --frontend fx --beside FILE` here"
    )

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla.core.xla_model as xm
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

import composites
from benchmarks.harness.pages import markdown_table, page
from benchmarks.harness.timing import alternated, conditions, seconds, settle

BATCH, LENGTH = 4, 64
LAYERS = 12
"""Of the model that is exported on both sides."""
GROWTH = (2, 4, 8, 12, 16, 24)
"""Layers of the models that show what each further one costs."""
BAR = 1.0
GROWTH_BAR = 1.25
"""How much more a layer may cost at the top of the range than at its bottom."""
Export = Callable[[], str]


def gpt2(layers: int) -> torch.nn.Module:
    """Without dropout."""
    config = GPT2Config(
        n_layer=layers,
        n_embd=256,
        n_head=4,
        n_positions=LENGTH,
        vocab_size=1024,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
        activation_function="gelu_pytorch_tanh",
    )
    module: torch.nn.Module = GPT2LMHeadModel(config)
    return module.eval()


def inputs() -> dict[str, torch.Tensor]:
    tokens = torch.randint(1024, (BATCH, LENGTH))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


def with_composites(layers: int) -> Export:
    """The export of the step with composites."""
    step = partial(torch.optim.AdamW, lr=1e-3)
    export = partial(composites.export, gpt2(layers), (), inputs(), optimizer=step)
    return lambda: export().mlir


def stock(layers: int) -> Export:
    """The step traced and printed by torch_xla alone."""
    model = gpt2(layers).to("xla")
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


def measure(sides: Sequence[Export], repeats: int) -> tuple[list[list[float]], list[int]]:
    """The seconds of each side's samples, and the sizes of their texts."""

    def sample(side: Export, _: int) -> list[float]:
        spent, _text = seconds(side)
        settle()
        return [spent]

    sizes = []
    for side in sides:
        side()  # makes the state of optimizers
        settle()
        sizes.append(len(side()))
        settle()
    blocks = alternated([partial(sample, side) for side in sides], repeats, 1)
    return [[one for (one,) in of_side] for of_side in blocks], sizes


def verdict(ratio: float, bar: float, noise: float = 0.0) -> str:
    """`~` where the noise may be all that is above the bar."""
    if ratio <= bar:
        return "met"
    return "~ (noise)" if ratio <= bar + noise else "missed"


SIDES_HEAD = ("quantity", "stock", "composites", "ratio", "noise", "bar", "")


def side_by_side(repeats: int) -> Iterator[tuple[str, ...]]:
    """Time and size of both sides."""
    times, sizes = measure([stock(LAYERS), with_composites(LAYERS)], repeats)
    even, odd = times[0][::2], times[0][1::2]
    noise = abs(min(even) / min(odd) - 1) if odd else 0.0
    theirs, ours = map(min, times)
    lengths = [f"{size / 1e3:,.0f} KB" for size in sizes]
    for name, texts, ratio, uncertain in (
        ("time", [f"{theirs * 1e3:.0f} ms", f"{ours * 1e3:.0f} ms"], ours / theirs, noise),
        ("text", lengths, sizes[1] / sizes[0], 0.0),
    ):
        result = verdict(ratio, BAR, uncertain)
        yield (name, *texts, f"{ratio:.2f}", f"{uncertain:.0%}", f"<= {BAR:g}", result)


GROWTH_HEAD = ("layers", "time", "per further layer", "text", "per further layer", "")


def growth(repeats: int) -> Iterator[tuple[str, ...]]:
    """What each further layer costs; linear growth is the same everywhere."""
    samples, lengths = measure([with_composites(count) for count in GROWTH], repeats)
    times = dict(zip(GROWTH, (min(each) * 1e3 for each in samples), strict=True))
    sizes = dict(zip(GROWTH, (length / 1e3 for length in lengths), strict=True))
    further = ["", ""]
    for number, count in enumerate(GROWTH):
        if number:
            before = GROWTH[number - 1]
            further = [
                f"{_per_layer(times, before, count):.1f} ms",
                f"{_per_layer(sizes, before, count):.1f} KB",
            ]
        time, size = f"{times[count]:.0f} ms", f"{sizes[count]:,.0f} KB"
        yield str(count), time, further[0], size, further[1], ""
    first, middle, last = GROWTH[0], GROWTH[len(GROWTH) // 2], GROWTH[-1]
    for name, values in (("time", times), ("text", sizes)):
        ratio = _per_layer(values, middle, last) / _per_layer(values, first, middle)
        bar = f"<= {GROWTH_BAR:g}", verdict(ratio, GROWTH_BAR)
        yield (name, "", f"x{ratio:.2f}", "", *bar)


def _per_layer(values: Mapping[int, float], fewer: int, more: int) -> float:
    return (values[more] - values[fewer]) / (more - fewer)


def measured_page(repeats: int) -> str:
    """Both tables."""
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    torch.manual_seed(0)
    return page(
        "Cost of an export",
        "Written by `python -m benchmarks.export`; `benchmarks/export_costs.py` says how it"
        " measures. " + conditions(f"{repeats} repeats"),
        f"## GPT-2 training step, {LAYERS} layers: Python to StableHLO text",
        markdown_table(SIDES_HEAD, side_by_side(repeats)),
        "## Growth with the number of layers",
        markdown_table(GROWTH_HEAD, growth(max(3, repeats // 2))),
    )
