"""What an export costs: side by side with stock torch_xla's `xm.get_stablehlo`, in one process.

`python -m benchmarks.export` runs this; its head has the commands.

The workload is a training step of GPT-2 from transformers (n_embd 256, batch 4 x 64, random
weights): forward, loss.backward(), AdamW, returning the loss, every gradient, and the updated
parameters and optimizer state. `composites.export` does it with every composite on; stock torch_xla
traces the same step on tensors of the device and prints it with `xm.get_stablehlo`.

How the times are kept honest:

- Both sides go from Python code to StableHLO text; tracing is in both times.
- They alternate, and a time is the least of its samples. `noise` compares the even samples of stock
  with the odd ones.
- Garbage is collected before a sample and not during it, on both sides. After a stock sample the
  step is run, outside the time, so that the next one starts with values again.

`--paths` compares three ways from recorded HLO to StableHLO, each in a whole export with tracing:
simplified here before jaxlib converts it (what an export does), jaxlib's conversion and the passes
of `clean` alone, and torch_xla's converter. Ways take turns, each first as often as the others.
Times are those of the processor, all threads together, which other work on the machine disturbs
less than the clock's. A ratio is to the first way in the same round: median, and the quartiles.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

if find_spec("torch_xla") is None:
    raise SystemExit(
        "this compares with stock torch_xla, which is not installed; for both frontends, run"
        " `python -m benchmarks.export --frontend xla --record FILE` in an environment that has it,"
        " and `python -m benchmarks.export --frontend fx --beside FILE` here"
    )

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from rich.console import Console
from rich.table import Table
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers.utils import logging

import composites
from benchmarks.pages import markdown_table
from lowering.hlo.convert import to_located_stablehlo, to_stablehlo
from lowering.stablehlo import Module, clean_passes, run_passes

BATCH, LENGTH = 4, 64
TIME_BAR = SIZE_BAR = 1.0
GROWTH_BAR = 1.25
"""How much more a layer may cost at the top of the range than at its bottom."""

OPTIMIZER = partial(torch.optim.AdamW, lr=1e-3, capturable=True)


def gpt2(layers: int) -> torch.nn.Module:
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
    return GPT2LMHeadModel(config)


def bert(layers: int) -> torch.nn.Module:
    config = BertConfig(
        vocab_size=1024,
        hidden_size=256,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=LENGTH,
    )
    return BertForMaskedLM(config)


def llama(layers: int) -> torch.nn.Module:
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=256,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=1024,
        max_position_embeddings=LENGTH,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


MODELS: Mapping[str, Callable[[int], torch.nn.Module]] = {
    "gpt2": gpt2,
    "bert": bert,
    "llama": llama,
}


def without_dropout(model: str, layers: int) -> torch.nn.Module:
    return MODELS[model](layers).eval()


def inputs() -> dict[str, torch.Tensor]:
    tokens = torch.randint(1024, (BATCH, LENGTH))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


class Composites:
    """The step exported with composites."""

    def __init__(self, layers: int, model: str = "gpt2") -> None:
        self._model, self._inputs = without_dropout(model, layers), inputs()

    def sample(self) -> str:
        step = partial(torch.optim.AdamW, lr=1e-3)
        return composites.export(self._model, (), self._inputs, optimizer=step).mlir

    def finish(self) -> None:
        """Nothing was recorded that would have to be run."""


class Stock:
    """The step traced and printed by torch_xla alone."""

    def __init__(self, layers: int) -> None:
        self._model = without_dropout("gpt2", layers).to("xla")
        self._inputs = {name: tensor.to("xla") for name, tensor in inputs().items()}
        self._optimizer = OPTIMIZER(self._model.parameters())
        self.sample()  # makes the optimizer's state
        self.finish()

    def sample(self) -> str:
        self._optimizer.zero_grad()
        loss = self._model(**self._inputs).loss
        loss.backward()
        self._optimizer.step()
        parameters = list(self._model.parameters())
        gradients = [p.grad for p in parameters if p.grad is not None]
        state = [t for values in self._optimizer.state.values() for t in values.values()]
        text: str = xm.get_stablehlo([loss.detach(), *gradients, *parameters, *state])
        return text

    def finish(self) -> None:
        torch_xla.sync()
        xm.wait_device_ops()


@dataclass
class Samples:
    """Times of one side, and the size of its text."""

    seconds: list[float] = field(default_factory=list)
    size: int = 0

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def noise(self) -> float:
        even, odd = self.seconds[::2], self.seconds[1::2]
        return abs(min(even) / min(odd) - 1) if odd else 0.0


def take(
    samples: Samples, side: Composites | Stock, clock: Callable[[], float] = time.perf_counter
) -> None:
    gc.collect()
    gc.disable()
    start = clock()
    text = side.sample()
    samples.seconds.append(clock() - start)
    gc.enable()
    samples.size = len(text)
    side.finish()


def measure(sides: Sequence[Composites | Stock], repeats: int) -> list[Samples]:
    samples = [Samples() for _ in sides]
    for side in sides:
        take(Samples(), side)  # fills caches
    for _ in range(repeats):
        for side, found in zip(sides, samples, strict=True):
            take(found, side)
    return samples


def verdict(ratio: float, bar: float, noise: float = 0.0) -> str:
    if ratio <= bar:
        return "met"
    return "~ (noise)" if ratio <= bar + noise else "missed"


def side_by_side(layers: int, repeats: int) -> Table:
    stock, ours = measure((Stock(layers), Composites(layers)), repeats)
    table = Table(
        *("quantity", "stock", "composites", "ratio", "noise", "bar", ""),
        title=f"GPT-2 training step, {layers} layers: Python to StableHLO text",
    )
    rows = (
        ("time", "{:.0f} ms", stock.best * 1e3, ours.best * 1e3, TIME_BAR, stock.noise),
        ("text", "{:,.0f} KB", stock.size / 1e3, ours.size / 1e3, SIZE_BAR, 0.0),
    )
    for name, form, theirs, mine, bar, noise in rows:
        ratio = mine / theirs
        cells = (f"{ratio:.2f}", f"{noise:.0%}", f"<= {bar:g}", verdict(ratio, bar, noise))
        table.add_row(name, form.format(theirs), form.format(mine), *cells)
    return table


def growth(counts: Sequence[int], repeats: int) -> Table:
    """What each further layer costs; linear growth is the same everywhere."""
    table = Table("layers", "time", "per further layer", "text", "per further layer", "")
    table.title = "Growth with the number of layers"
    found = dict(
        zip(counts, measure([Composites(count) for count in counts], repeats), strict=True)
    )
    for number, (count, samples) in enumerate(found.items()):
        cells = [f"{samples.best * 1e3:.0f} ms", "", f"{samples.size / 1e3:,.0f} KB", "", ""]
        if number:
            cells[1] = f"{per_layer(found, counts[number - 1], count, seconds) * 1e3:.1f} ms"
            cells[3] = f"{per_layer(found, counts[number - 1], count, size) / 1e3:.1f} KB"
        table.add_row(str(count), *cells)
    middle = counts[len(counts) // 2]
    for name, quantity in (("time", seconds), ("text", size)):
        lower = per_layer(found, counts[0], middle, quantity)
        ratio = per_layer(found, middle, counts[-1], quantity) / lower
        table.add_row(
            name, "", f"x{ratio:.2f}", "", f"<= {GROWTH_BAR:g}", verdict(ratio, GROWTH_BAR)
        )
    return table


Converter = Callable[[bytes, Mapping[str, bytes]], Module | None]


def by_jaxlib_alone(hlo: bytes, modules: Mapping[str, bytes]) -> Module:
    """With nothing simplified beforehand."""
    module = to_located_stablehlo(hlo, modules)
    if module is None:
        raise SystemExit("this jaxlib has no converter from HLO")
    return run_passes(module, clean_passes(), verify=False)


def by_torch_xla(hlo: bytes, modules: Mapping[str, bytes]) -> None:
    """Leave it to torch_xla's converter."""


PATHS: dict[str, Converter] = {
    "simplified, jaxlib": to_stablehlo,
    "jaxlib and clean": by_jaxlib_alone,
    "torch_xla": by_torch_xla,
}


def paths(models: Sequence[str], layers: int, repeats: int) -> Table:
    """What each way from recorded HLO to StableHLO costs of a whole export."""
    table = Table("model", "path", "CPU time", "quartiles", "ratio", "quartiles", "text")
    table.title = (
        f"From recorded HLO to StableHLO: training steps of {layers} layers, {repeats} rounds"
    )
    for model in models:
        found = measure_paths(Composites(layers, model), repeats)
        first = next(iter(found.values())).seconds
        for name, samples in found.items():
            ratios = [s / f for s, f in zip(samples.seconds, first, strict=True)]
            table.add_row(
                model,
                name,
                f"{statistics.median(samples.seconds) * 1e3:.0f} ms",
                quartiles(samples.seconds, "{:.0f}", 1e3),
                f"{statistics.median(ratios):.2f}",
                quartiles(ratios, "{:.2f}"),
                f"{samples.size / 1e3:,.0f} KB",
            )
    return table


def measure_paths(side: Composites, repeats: int) -> dict[str, Samples]:
    names = list(PATHS)
    found = {name: Samples() for name in names}
    for number in range(-1, repeats):  # the first round fills caches
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            samples = Samples() if number < 0 else found[name]
            with patch("lowering.frontends.torch_xla.to_stablehlo", PATHS[name]):
                take(samples, side, time.process_time)
    return found


def quartiles(values: Sequence[float], form: str, scale: float = 1) -> str:
    low, _, high = statistics.quantiles(values, n=4)
    return f"{form.format(low * scale)} to {form.format(high * scale)}"


def seconds(samples: Samples) -> float:
    return samples.best


def size(samples: Samples) -> float:
    return samples.size


def per_layer(
    found: dict[int, Samples], fewer: int, more: int, quantity: Callable[[Samples], float]
) -> float:
    return (quantity(found[more]) - quantity(found[fewer])) / (more - fewer)


def machine() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "torch_xla", "jaxlib"))
    return f"{packages}, transformers {version('transformers')}; CPU with {os.cpu_count()} cores"


def markdown(tables: Sequence[Table], command: str) -> str:
    lines = [
        "# Cost of an export",
        "",
        f"Written by `{command}`; `benchmarks/export_costs.py` says how it measures. {machine()};"
        f" Python {platform.python_version()}.",
    ]
    for table in tables:
        head = [str(column.header) for column in table.columns]
        cells = [[str(cell) for cell in column.cells] for column in table.columns]
        lines += ["", f"## {table.title}", ""]
        lines += markdown_table(head, zip(*cells, strict=True))
    return "\n".join(lines) + "\n"


def run(layers: int, counts: str, repeats: int, models: str | None, page: Path | None) -> None:
    """Print the tables, and write them to a page; with `models`, those of the ways to StableHLO."""
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    torch.manual_seed(0)
    if models:
        tables = [paths(models.split(","), layers, repeats)]
    else:
        tables = [side_by_side(layers, repeats)]
        if counts:
            tables.append(growth(sorted(map(int, counts.split(","))), max(3, repeats // 2)))
    for table in tables:
        Console().print(table)
    if page:
        mode = f" --paths {models} --repeats {repeats}" if models else ""
        command = f"python -m benchmarks.export{mode}"
        page.write_text(markdown(tables, command), encoding="utf-8")
