"""What composites cost a trainer: measured side by side with stock torch_xla, in one process.

    python -m benchmarks.cost [--counts 1,10,100,200,1000] [--model] [--json OUT]
                              [--markdown benchmarks/RESULTS.md] [--repeats N]

Workloads are chains of gelu on f32[128,256], forward and with backward, and with `--model` a
training step of a small GPT-2 from transformers (random weights, AdamW) with every composite on.

How the times are kept honest:

- Stock and composites alternate in blocks, as benchmarks/timing.py says; a block starts with steps
  that are not timed, which fill caches and lower what the hooks have not seen. Stock and composites
  show medians over blocks. `--json` has every sample.
- A step is tracing, building and running, and ends when the device has finished, not when it was
  handed the work.
- Tracing is timed as a trainer meets it, right after a step; the row "in a loop" is the same
  tracing over and over with nothing in between, which is all processor caches can do.
- The row "the binding alone" has, on the side of composites, the same number of calls of the one
  function by which Python can insert a computation into torch_xla's graph: no operator, dispatcher
  or hook around it. No hook can be faster.
- A first compile joins a tiny operation that no graph had before to the traced graph, so neither
  side finds it in torch_xla's cache of compiled graphs. torch_xla's counters are checked: each
  compile sample compiled once, no other sample compiled at all.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import count as counting
from pathlib import Path
from typing import Any, Literal, Protocol

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
import torch_xla.core.xla_builder as xb
from rich.console import Console
from rich.table import Table
from torch_xla.debug import metrics

import composites
from benchmarks.pages import markdown_table
from benchmarks.timing import (
    SAMPLES_PER_BLOCK,
    Ratio,
    conditions,
    no_garbage_collection,
    ratio,
    seconds,
    settle,
    typical,
)

SHAPE = (128, 256)
COMPILES = 8
"""Compiles of a workload on each side, before its `repeats_divisor`: they take seconds."""
LOOPS = 10

TRACE_LOOP = "trace, F.gelu, in a loop"
TRACE_BINDING = "trace, the binding alone"
TRACE = "trace"
TRACE_FUNCTION = "trace, F.gelu"
TRACE_MODULE = "trace, nn.GELU"
BUILD = "HLO build"
TRACE_AND_BUILD = "trace + HLO build"
BYTES = "HLO bytes"
COMPILE = "first compile + run"
STEP = "cached step"
RUN = "cached step without tracing"
QUANTITIES = (
    TRACE_BINDING,
    TRACE_LOOP,
    TRACE_FUNCTION,
    TRACE_MODULE,
    TRACE,
    BUILD,
    TRACE_AND_BUILD,
    BYTES,
    COMPILE,
    STEP,
    RUN,
)
# Bars are ratios to stock.
CHAIN_BARS_AT = 200
CHAIN_BARS = {
    TRACE_LOOP: 1.5,
    TRACE_FUNCTION: 1.5,
    TRACE_MODULE: 1.5,
    BUILD: 1.0,
    BYTES: 1.6,
    COMPILE: 1.1,
    STEP: 1.0,
}
MODEL_BARS = {TRACE_AND_BUILD: 1.05, COMPILE: 1.05, STEP: 1.0}

SIDES = ("stock", "composites")

Results = Sequence[torch.Tensor]
"""What a traced step computes; held until it is computed."""
Trace = Callable[[], Results]


class Workload(Protocol):
    """Something to trace again and again."""

    name: str
    operators: tuple[str, ...]
    """Composites to turn on."""
    bars: dict[str, float]
    repeats_divisor: int
    """Repeats are divided by this, for workloads whose steps are long."""
    calls: int | None
    """Operator calls that a trace is divided by; None for a whole step."""
    loops: dict[str, dict[str, Trace]]
    """Traces to time in a loop, by the quantity they measure and the side."""
    traces: dict[str, Trace]
    """Traces to time after a step; the first is also the one that is built, compiled and run."""


class GeluChain:
    """`calls` gelus of one shape, one after the other.

    With backward, the result is the gradient of the input: `calls` gelu_backward, and the gelus
    whose values they need, which are all but the last.
    """

    operators: tuple[str, ...] = ("gelu",)

    def __init__(self, calls: int, *, backward: bool) -> None:
        self.calls: int | None = calls
        self._length = calls
        self.name = chain_name(calls, backward=backward)
        self.bars = CHAIN_BARS if calls == CHAIN_BARS_AT else {}
        self.repeats_divisor = 1 + calls // 500
        self.loops = {TRACE_LOOP: dict.fromkeys(SIDES, self._function)}
        if not backward:
            shape = xb.mkshape("f32", SHAPE)
            self._computation = xb.create_computation("chain", lambda x: x.tanh(), (shape,))
            self.loops[TRACE_BINDING] = {"stock": self._function, "composites": self._binding}
        self.traces = {TRACE_FUNCTION: self._function, TRACE_MODULE: self._module}
        self._backward = backward
        self._gelu = torch.nn.GELU()
        self._x = torch.randn(SHAPE, device="xla").requires_grad_(backward)
        self._seed = torch.ones(SHAPE, device="xla")

    def _function(self) -> Results:
        return self._traced(torch.nn.functional.gelu)

    def _module(self) -> Results:
        return self._traced(self._gelu)

    def _binding(self) -> Results:
        insert, computation = torch_xla._XLAC._xla_user_computation, self._computation
        return self._traced(lambda x: insert("benchmark::chain", (x,), computation)[0])

    def _traced(self, gelu: Callable[[torch.Tensor], torch.Tensor]) -> Results:
        y = self._x
        for _ in range(self._length):
            y = gelu(y)
        return torch.autograd.grad(y, self._x, self._seed) if self._backward else (y,)


def chain_name(calls: int, *, backward: bool) -> str:
    return f"{calls} gelu, forward{' + backward' if backward else ''}"


class Gpt2Step:
    """A training step of a small GPT-2: forward, loss.backward(), AdamW."""

    operators: tuple[str, ...] = ("all",)
    bars = MODEL_BARS
    repeats_divisor = 2
    calls: int | None = None

    def __init__(self, *, layers: int = 4, hidden: int = 256, batch: int = 4, length: int = 64):
        from transformers import GPT2Config, GPT2LMHeadModel

        self.name = f"GPT-2 training step ({layers} layers, hidden {hidden})"
        self.loops: dict[str, dict[str, Trace]] = {}
        self.traces = {TRACE: self._step}
        config = GPT2Config(
            n_layer=layers,
            n_embd=hidden,
            n_head=4,
            n_positions=length,
            vocab_size=1024,
            bos_token_id=0,
            eos_token_id=0,
            activation_function="gelu_pytorch_tanh",  # GPT-2's gelu_new as one operator
        )
        model: torch.nn.Module = GPT2LMHeadModel(config)
        self._model = model.to("xla").train()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-4)
        self._tokens = torch.randint(config.vocab_size, (batch, length)).to("xla")

    def _step(self) -> Results:
        self._optimizer.zero_grad()
        logits = self._model(self._tokens).logits[:, :-1]
        targets = self._tokens[:, 1:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        self._optimizer.step()
        parameters = list(self._model.parameters())
        gradients = [p.grad for p in parameters if p.grad is not None]
        state = [t for s in self._optimizer.state.values() for t in s.values() if t.is_xla]
        return [loss.detach(), *parameters, *gradients, *state]


@dataclass
class Row:
    """One quantity of one workload: seconds or bytes, block by block."""

    workload: str
    quantity: str
    bar: float | None = None
    calls: int | None = None
    """What a figure per operator call divides by; None for a whole."""
    blocks: dict[str, list[list[float]]] = field(default_factory=lambda: {s: [] for s in SIDES})

    def typical(self, side: str) -> float:
        return typical(self.blocks[side])

    @property
    def ratio(self) -> Ratio:
        """Composites to stock."""
        return ratio(*(self.blocks[side] for side in SIDES))

    def written(self, side: str) -> str:
        value = self.typical(side)
        if self.quantity == BYTES:
            return f"{value / 1000:,.1f} KB"
        if self.calls is not None:
            return f"{value / self.calls * 1e6:.2f} us/op"
        return f"{value * 1e3:,.2f} ms"

    def cells(self) -> tuple[str, ...]:
        found = self.ratio
        return (
            self.quantity,
            *(self.written(side) for side in SIDES),
            f"{found.median:.2f}",
            found.middle_half,
            "" if self.bar is None else f"<= {self.bar:g}",
            found.verdict(self.bar),
        )


COLUMNS = ("quantity", *SIDES, "ratio", "middle half", "bar", "")


@contextmanager
def compiles(expected: int) -> Iterator[None]:
    """Check how many graphs torch_xla compiles in the block."""
    before = metrics.counter_value("UncachedCompile") or 0
    yield
    found = (metrics.counter_value("UncachedCompile") or 0) - before
    if found != expected:
        raise RuntimeError(f"{found} graphs were compiled where the benchmark expects {expected}")


class Sampler:
    """Takes the samples of one workload, one block of one side at a time."""

    _markers = counting()
    _marker_source: torch.Tensor | None = None

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.rows: dict[str, Row] = {}
        self.composites_in_graph = 0

    def block(self, side: str, *, compile_too: bool) -> None:
        self._samples: dict[str, list[float]] = {}
        with self._side(side), no_garbage_collection():
            for trace in self.workload.traces.values():
                self._step(trace)
                self._step(trace)  # an optimizer's first step makes its state: another graph
            with compiles(0):
                self._sample_loops(side)
                for _ in range(SAMPLES_PER_BLOCK):
                    self._sample_traces(side)
                for _ in range(SAMPLES_PER_BLOCK):
                    self._sample_step()
            if compile_too:
                with compiles(1):
                    self._sample_compile()
        for quantity, samples in self._samples.items():
            self._row(quantity).blocks[side].append(samples)

    def _side(self, side: str) -> AbstractContextManager[None]:
        if side == "composites":
            return composites.enabled(*self.workload.operators)
        return nullcontext()

    def _step(self, trace: Trace) -> float:
        """One whole step; returns the seconds it spent after tracing."""
        results = trace()
        after_tracing, _ = seconds(settle)
        del results
        return after_tracing

    @property
    def _main_trace(self) -> Trace:
        return next(iter(self.workload.traces.values()))

    def _sample_loops(self, side: str) -> None:
        for quantity, traces in self.workload.loops.items():
            for _ in range(LOOPS):
                self._add(quantity, seconds(traces[side])[0])

    def _sample_traces(self, side: str) -> None:
        for quantity, trace in self.workload.traces.items():
            traced, results = seconds(trace)
            self._add(quantity, traced)
            if trace == self._main_trace:
                self._sample_build(side, traced, results)
            settle()
            del results

    def _sample_build(self, side: str, traced: float, results: Results) -> None:
        build, proto = seconds(lambda: torch_xla._XLAC._get_xla_tensors_hlo_proto(list(results)))
        self._add(BUILD, build)
        self._add(TRACE_AND_BUILD, traced + build)
        self._add(BYTES, len(proto))
        found = proto.count(b"composite.name")
        if (found > 0) != (side == "composites"):
            raise RuntimeError(f"{found} composites in the graph of {side}")
        self.composites_in_graph = max(self.composites_in_graph, found)

    def _sample_step(self) -> None:
        whole, after_tracing = seconds(lambda: self._step(self._main_trace))
        self._add(STEP, whole)
        self._add(RUN, after_tracing)

    def _sample_compile(self) -> None:
        results = self._main_trace()
        marker = self._marker()
        self._add(COMPILE, seconds(settle)[0])
        del results, marker

    @classmethod
    def _marker(cls) -> torch.Tensor:
        """A pending tensor that makes the graph it joins unlike any before."""
        if cls._marker_source is None:
            raise RuntimeError("no marker source; call Sampler.prepare() first")
        return cls._marker_source[next(cls._markers)] * 2

    @classmethod
    def prepare(cls) -> None:
        cls._marker_source = torch.arange(100_000, device="xla")
        settle()

    def _add(self, quantity: str, value: float) -> None:
        self._samples.setdefault(quantity, []).append(value)

    def _row(self, quantity: str) -> Row:
        if quantity not in self.rows:
            workload, timed = self.workload, {*self.workload.loops, *self.workload.traces}
            calls = workload.calls if quantity in timed else None
            bar = workload.bars.get(quantity)
            self.rows[quantity] = Row(workload.name, quantity, bar, calls)
        return self.rows[quantity]


@dataclass
class Result:
    """The rows of one workload, in the order of the table."""

    workload: str
    composites_in_graph: int
    rows: list[Row]

    @property
    def title(self) -> str:
        plural = "" if self.composites_in_graph == 1 else "s"
        return f"{self.workload}: {self.composites_in_graph} composite{plural} in the graph"


def measure(workload: Workload, repeats: int) -> Result:
    sampler = Sampler(workload)
    compile_blocks = max(2, COMPILES // workload.repeats_divisor)
    for number in range(max(2, repeats // workload.repeats_divisor)):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            sampler.block(side, compile_too=number < compile_blocks)
    rows = [sampler.rows[quantity] for quantity in QUANTITIES if quantity in sampler.rows]
    return Result(workload.name, sampler.composites_in_graph, rows)


def growth(results: Sequence[Result], *, backward: bool, few: int, many: int) -> str | None:
    """One line on how the cost of one gelu grows with their number."""
    by_name = {result.workload: result for result in results}
    direction = "forward + backward" if backward else "forward"
    ends = [by_name.get(chain_name(count, backward=backward)) for count in (few, many)]
    if None in ends:
        return None
    parts = []
    for small, large in zip(*(end.rows for end in ends if end), strict=True):
        cost = [(large.typical(side) / many) / (small.typical(side) / few) for side in SIDES]
        parts.append(f"{small.quantity} {cost[1]:.2f} (stock {cost[0]:.2f})")
    return (
        f"Cost per gelu at {many} as a multiple of that at {few}, {direction}: {'; '.join(parts)}."
    )


def print_table(console: Console, result: Result) -> None:
    table = Table(title=result.title, title_justify="left")
    for name in COLUMNS:
        justify: Literal["left", "right"] = "left" if name in ("quantity", "") else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    for row in result.rows:
        *cells, verdict = row.cells()
        color = {"met": "green", "missed": "red"}.get(verdict, "")
        table.add_row(*cells, f"[{color}]{verdict}[/]" if color else verdict)
    console.print(table)


def markdown(results: Sequence[Result], notes: Sequence[str]) -> str:
    lines = [
        "# Cost of composites beside stock torch_xla",
        "",
        "Written by `python -m benchmarks.cost --model --markdown benchmarks/RESULTS.md`; how the"
        " times are taken is told at the top of that script.",
        "`ratio` is composites to stock, the median over pairs of neighbouring blocks of samples;"
        " `middle half` is its quartiles, and `~` marks a miss that they do not confirm.",
    ]
    for result in results:
        lines += ["", f"## {result.title}", ""]
        cells = [row.cells() for row in result.rows]
        lines += markdown_table(COLUMNS, cells, numbers=range(1, len(COLUMNS) - 1))
    for note in notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def as_json(results: Sequence[Result], notes: Sequence[str]) -> str:
    def written(row: Row) -> dict[str, Any]:
        found = row.ratio
        quartiles = (found.lower, found.upper)
        derived = {"ratio": found.median, "quartiles": quartiles, "verdict": found.verdict(row.bar)}
        return asdict(row) | derived

    rows = [written(row) for result in results for row in result.rows]
    return json.dumps({"notes": list(notes), "rows": rows}, indent=1)


def workloads(counts: Sequence[int], *, model: bool) -> Iterator[Workload]:
    for backward in (False, True):
        for calls in counts:
            yield GeluChain(calls, backward=backward)
    if model:
        yield Gpt2Step()


def main() -> None:
    parser = argparse.ArgumentParser(description="cost of composites beside stock torch_xla")
    parser.add_argument("--counts", default="1,10,100,200,1000", help="gelus in a chain")
    parser.add_argument("--model", action="store_true", help="also a GPT-2 training step")
    parser.add_argument("--repeats", type=int, default=12, help="blocks of samples on each side")
    parser.add_argument("--json", type=Path, metavar="OUT", help="every sample, for machines")
    parser.add_argument("--markdown", type=Path, metavar="OUT", help="the tables as Markdown")
    options = parser.parse_args()
    counts = [int(count) for count in options.counts.split(",") if count]
    composites.disable()  # whatever XLA_COMPOSITE_OP turned on: the other side is stock
    Sampler.prepare()
    console = Console(width=max(110, Console().width))
    results = []
    for workload in workloads(counts, model=options.model):
        results.append(measure(workload, options.repeats))
        print_table(console, results[-1])
    lines = [growth(results, backward=backward, few=100, many=1000) for backward in (False, True)]
    notes = [*filter(None, lines), conditions(f"{options.repeats} repeats")]
    for note in notes:
        console.print(note, soft_wrap=True, highlight=False)
    if options.json:
        options.json.write_text(as_json(results, notes))
    if options.markdown:
        options.markdown.write_text(markdown(results, notes))


if __name__ == "__main__":
    main()
