"""The cost of composites for a trainer, measured beside stock torch_xla in one process.

    python -m benchmarks.cost [--names "gelu, forward"] [--repeats 12]
                              [--markdown benchmarks/RESULTS.md]

Workloads are chains of gelu and of layer norm on f32[128,256], forward and with backward, and a
training step of a small GPT-2 from transformers (random weights, AdamW) with every composite on.

How the times are kept honest:

- Stock and composites alternate in blocks (see benchmarks/harness/timing.py); a block starts
  with steps that are not timed, which fill caches and lower what the hooks have not seen. Stock and
  composites show medians over blocks.
- A step is tracing, building and running, and ends when the device has finished, not when it was
  handed the work.
- Tracing is timed as a trainer meets it, right after a step.
- A first compile joins a tiny operation that no graph had before to the traced graph, so neither
  side finds it in torch_xla's cache of compiled graphs. torch_xla's counters are checked: each
  compile sample compiled once, no other sample compiled at all.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import count as counting

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
from torch_xla.debug import metrics

import composites
from benchmarks.harness.pages import markdown_table, page, publish
from benchmarks.harness.runs import chosen, parser_of
from benchmarks.harness.timing import (
    BESIDE_STOCK,
    SAMPLES_PER_BLOCK,
    beside_stock,
    conditions,
    no_garbage_collection,
    ratio,
    seconds,
    settle,
    typical,
)
from benchmarks.training_steps import model_of, tokens_of
from lowering.frontends.torch_xla.graph import graph_hlo

SHAPE = (128, 256)
COUNTS = (1, 200, 1000)
"""Calls of a chain."""
COMPILES = 8
"""Compiles of a workload on each side, before its `divisor`: they take seconds."""

TRACE_FUNCTION = "trace, function"
TRACE_MODULE = "trace, module"
TRACE = "trace"
BUILD = "HLO build"
TRACE_AND_BUILD = "trace + HLO build"
BYTES = "HLO bytes"
COMPILE = "first compile + run"
STEP = "cached step"
RUN = "cached step without tracing"
QUANTITIES = (
    *(TRACE_FUNCTION, TRACE_MODULE, TRACE, BUILD, TRACE_AND_BUILD),
    *(BYTES, COMPILE, STEP, RUN),
)
"""The quantities, in the order of the table."""
# Bars are ratios to stock.
CHAIN_BARS_AT = 200
CHAIN_BARS = {
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
"""The results of a traced step, held until they are computed."""
Trace = Callable[[], Results]
Samples = dict[str, list[float]]
"""Samples by quantity: seconds or bytes."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Something to trace again and again."""

    operators: tuple[str, ...]
    """Composites to turn on."""
    traces: Mapping[str, Trace]
    """Traces to time after a step; the first is also built, compiled and run."""
    calls: int | None = None
    """Operator calls that a trace is divided by; None for a whole step."""
    divisor: int = 2
    """Repeats are divided by this, for workloads whose steps are long."""
    bars: Mapping[str, float] = field(default_factory=dict)


def chain(operator: str, calls: int, *, backward: bool) -> Workload:
    """`calls` gelus or layer norms of one shape, one after the other.

    With backward, the result is the gradient of the input: `calls` backwards, and the calls whose
    values they need, which for gelu are all but the last.
    """
    x = torch.randn(SHAPE, device="xla").requires_grad_(backward)
    seed = torch.ones(SHAPE, device="xla")
    module: torch.nn.Module = torch.nn.GELU()
    arguments: tuple[object, ...] = ()
    if operator == "layer_norm":
        norm = module = torch.nn.LayerNorm(SHAPE[-1]).to("xla")
        arguments = (norm.normalized_shape, norm.weight, norm.bias)

    def traced(call: Callable[..., torch.Tensor], *operands: object) -> Results:
        y = x
        for _ in range(calls):
            y = call(y, *operands)
        return torch.autograd.grad(y, x, seed) if backward else (y,)

    def function() -> Results:  # looked up here: composites replace it
        return traced(getattr(torch.nn.functional, operator), *arguments)

    return Workload(
        operators=(operator,),
        traces={TRACE_FUNCTION: function, TRACE_MODULE: partial(traced, module)},
        calls=calls,
        divisor=1 + calls // 500,
        bars=CHAIN_BARS if calls == CHAIN_BARS_AT else {},
    )


def gpt2_step() -> Workload:
    """A training step of a small GPT-2: forward, loss.backward(), AdamW."""
    model = model_of("small gpt2").to("xla").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = tokens_of("small gpt2").to("xla")

    def step() -> Results:
        optimizer.zero_grad()
        logits = model(tokens).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        parameters = list(model.parameters())
        gradients = [p.grad for p in parameters if p.grad is not None]
        state = [t for s in optimizer.state.values() for t in s.values() if t.is_xla]
        return [loss.detach(), *parameters, *gradients, *state]

    return Workload(("all",), {TRACE: step}, bars=MODEL_BARS)


WORKLOADS: Mapping[str, Callable[[], Workload]] = {
    **{
        f"{calls} {operator}, forward{' + backward' if backward else ''}": partial(
            chain, operator, calls, backward=backward
        )
        for operator in ("gelu", "layer_norm")
        for backward in (False, True)
        for calls in COUNTS
    },
    "GPT-2 training step (4 layers, hidden 256)": gpt2_step,
}


# ---- measuring ----


@contextmanager
def compiles(expected: int) -> Iterator[None]:
    """Check how many graphs torch_xla compiles in the block."""
    before = metrics.counter_value("UncachedCompile") or 0
    yield
    actual = (metrics.counter_value("UncachedCompile") or 0) - before
    if actual != expected:
        raise RuntimeError(f"{actual} graphs were compiled where the benchmark expects {expected}")


@dataclass(frozen=True, slots=True)
class Markers:
    """Pending tensors that make each graph that they join unlike any before."""

    source: torch.Tensor
    numbers: Iterator[int] = field(default_factory=counting)

    def next(self) -> torch.Tensor:
        return self.source[next(self.numbers)] * 2


def block(
    workload: Workload, side: str, markers: Markers, *, compile_too: bool
) -> tuple[Samples, int]:
    """The samples of one block, and the number of composites in the graph."""
    samples: Samples = {}

    def add(quantity: str, value: float) -> None:
        samples.setdefault(quantity, []).append(value)

    main = next(iter(workload.traces.values()))
    ours = side == "composites"
    on = composites.enabled(*workload.operators) if ours else nullcontext()
    with on, no_garbage_collection():
        for trace in workload.traces.values():
            _after_tracing(trace)
            _after_tracing(trace)  # an optimizer's first step makes its state: another graph
        with compiles(0):
            for _ in range(SAMPLES_PER_BLOCK):
                for quantity, trace in workload.traces.items():
                    traced, results = seconds(trace)
                    add(quantity, traced)
                    if trace is main:
                        graph = partial(graph_hlo, [*results])
                        build, proto = seconds(graph)
                        add(BUILD, build)
                        add(TRACE_AND_BUILD, traced + build)
                        add(BYTES, len(proto))
                    settle()
                    del results
            for _ in range(SAMPLES_PER_BLOCK):
                whole, after_tracing = seconds(partial(_after_tracing, main))
                add(STEP, whole)
                add(RUN, after_tracing)
        if compile_too:
            with compiles(1):
                results, marker = main(), markers.next()
                add(COMPILE, seconds(settle)[0])
                del results, marker
    inside = proto.count(b"composite.name")
    if (inside > 0) != ours:
        raise RuntimeError(f"{inside} composites in the graph of {side}")
    return samples, inside


def _after_tracing(trace: Trace) -> float:
    """Run a whole step; return the seconds that it spent after tracing."""
    results = trace()
    spent, _ = seconds(settle)
    del results
    return spent


Blocks = Mapping[str, Sequence[Sequence[float]]]
"""Samples of a quantity, by side."""


def measure(name: str, repeats: int, markers: Markers) -> list[str | list[str]]:
    """The title and the table of a workload: blocks of both sides, in turned order."""
    workload = WORKLOADS[name]()
    blocks: dict[str, dict[str, list[list[float]]]] = {}
    in_graph = 0
    compile_blocks = max(2, COMPILES // workload.divisor)
    for number in range(max(2, repeats // workload.divisor)):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            samples, inside = block(workload, side, markers, compile_too=number < compile_blocks)
            in_graph = max(in_graph, inside)
            for quantity, values in samples.items():
                blocks.setdefault(quantity, {s: [] for s in SIDES})[side].append(values)
    rows = [_row(workload, key, blocks[key]) for key in QUANTITIES if key in blocks]
    plural = "" if in_graph == 1 else "s"
    title = f"## {name}: {in_graph} composite{plural} in the graph"
    return [title, markdown_table(BESIDE_STOCK, rows, numbers=range(1, 6))]


def _row(workload: Workload, quantity: str, blocks: Blocks) -> tuple[str, ...]:
    written = [_written(workload, quantity, typical(samples)) for samples in blocks.values()]
    return beside_stock(quantity, written, ratio(*blocks.values()), workload.bars.get(quantity))


def _written(workload: Workload, quantity: str, value: float) -> str:
    if quantity == BYTES:
        return f"{value / 1000:,.1f} KB"
    if workload.calls and quantity in workload.traces:
        return f"{value / workload.calls * 1e6:.2f} us/op"
    return f"{value * 1e3:,.2f} ms"


def main() -> None:
    options = parser_of(__doc__, repeats=12).parse_args()
    names = chosen(WORKLOADS, options.names)
    composites.disable()  # whatever XLA_COMPOSITE_OP turned on: the other side is stock
    markers = Markers(torch.arange(100_000, device="xla"))
    settle()
    tables = [part for name in names for part in measure(name, options.repeats, markers)]
    text = page(
        "Cost of composites beside stock torch_xla",
        [
            "Written by `python -m benchmarks.cost`, whose head says how the times are taken."
            " `ratio` is composites to stock, the median over pairs of neighbouring blocks of"
            " samples;",
            "`middle half` is its quartiles, and `~` marks a miss that they do not confirm.",
        ],
        *tables,
        conditions(f"{options.repeats} repeats"),
    )
    publish(text, options.markdown)


if __name__ == "__main__":
    main()
