"""A language model that generates tokens with a static cache, live, on the CPU.

    python -m benchmarks.decode [--names REGEX] [--repeats 6] [--budget 180] [--results FILE]
        [--markdown benchmarks/DECODE.md]

Run it in an environment without torch_xla. A Llama of transformers (d 512, 6 layers, vocabulary of
32,000, random weights in f32, or in int8 by torchao) reads a prompt of 512 tokens and then writes
256, in eager PyTorch, under `torch.compile`, and under `torch.compile(backend="composites")` with
all composites and the kernels that registries list. The sides take turns, each in a process of its
own, the last one with the variables of `composites run`. Compilations are the graphs that Dynamo
has given to the backend; peak memory is that of the process.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import product
from resource import RUSAGE_SELF, getrusage
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch

from benchmarks.harness import timing
from benchmarks.harness.pages import Line, page, publish, sections
from benchmarks.harness.processes import new_process
from benchmarks.harness.runs import Case, chosen, failures, measured, parser_of
from benchmarks.kernels import use_package
from benchmarks.live import LIVE, SIDES, WRAPS
from benchmarks.training_steps import model_of

PROMPT, WRITTEN = 512, 256
BATCHES, WEIGHTS = (1, 8), ("f32", "int8")
_RATES = (
    *("batch", "weights", *(f"{side}, tokens/s" for side in SIDES)),
    *("to the best other", "bar"),
)
TABLES = {
    "Decoding": _RATES,
    "Prefill": _RATES,
    "Processes": (
        *("batch", "weights", "compilations", "bar", *(f"{side}, MB" for side in SIDES)),
        *("to the least other", "bar"),
    ),
}
DECODING, PREFILL, PROCESSES = TABLES
_GENERATED: list[Any] = []
"""The model of this process, and what generates."""


def _build(side: str, batch: int, weights: str) -> Any:
    from transformers import StaticCache
    from transformers.generation.utils import ALL_CACHE_NAMES

    if side == LIVE:
        import composites

        use_package()
        composites.enable("all")
    torch.manual_seed(0)
    model: Any = model_of("decoding llama").eval()
    if weights == "int8":
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        quantize_(model, Int8WeightOnlyConfig())
    prompt = torch.randint(model.config.vocab_size, (batch, PROMPT))
    call = WRAPS[side](model.forward)

    @torch.no_grad()
    def generate() -> tuple[float, float, torch.Tensor]:
        cache = StaticCache(config=model.config, max_cache_len=PROMPT + WRITTEN)
        taken, tokens = [], prompt
        written: list[torch.Tensor] = []
        for _ in range(1 + WRITTEN):
            start = time.perf_counter()
            logits = call(input_ids=tokens, logits_to_keep=1, **{ALL_CACHE_NAMES[0]: cache}).logits
            tokens = logits[:, -1:].argmax(-1)
            taken.append(time.perf_counter() - start)
            written.append(tokens)
        return taken[0], sum(taken[1:]), torch.cat(written, 1)

    return generate


def generated(
    side: str, batch: int, weights: str
) -> tuple[float, float, list[list[int]], int, float]:
    """Seconds of the prefill and of all decoding, the tokens, the compilations of this process,
    and its peak of memory, in MB."""
    from torch._dynamo.utils import counters

    if not _GENERATED:
        _GENERATED.append(_build(side, batch, weights))
    prefill, decoding, tokens = _GENERATED[0]()
    peak = getrusage(RUSAGE_SELF).ru_maxrss / 1024
    return prefill, decoding, tokens.tolist(), counters["stats"]["unique_graphs"], peak


def lines_of(batch: int, weights: str, repeats: int, budget: float) -> Iterator[Line]:
    """Measure all sides, which take turns.

    Raises:
        ValueError: a side writes other tokens than eager PyTorch.
    """
    with ExitStack() as stack:
        processes = {side: stack.enter_context(new_process(side == LIVE)) for side in SIDES}

        def run(side: str) -> Any:
            return processes[side].submit(generated, side, batch, weights).result()

        first = {side: run(side) for side in SIDES}
        start = time.perf_counter()
        runs = {side: [run(side)] for side in SIDES}
        once = time.perf_counter() - start
        for _ in range(min(repeats - 1, int(budget / once))):
            for side in SIDES:
                runs[side].append(run(side))
    for side in SIDES:
        if any(taken[2] != first["eager"][2] for taken in (first[side], *runs[side])):
            raise ValueError(f"{side} writes other tokens than eager PyTorch")
    for table, part, tokens in ((PREFILL, 0, PROMPT), (DECODING, 1, WRITTEN)):
        rates = [batch * tokens / min(taken[part] for taken in runs[side]) for side in SIDES]
        gain = round(rates[0] / max(rates[1:]), 2)
        cells = str(batch), weights, *(f"{rate:,.0f}" for rate in rates), f"{gain:.2f}"
        yield Line(table, (*cells, timing.reached(gain, 1)))
    last = {side: runs[side][-1] for side in SIDES}
    peaks = [last[side][4] for side in SIDES]
    larger = round(peaks[0] / min(peaks[1:]), 2)
    compilations = last[LIVE][3]
    yield Line(PROCESSES, (
        str(batch), weights, str(compilations), timing.kept(compilations, 2),
        *(f"{peak:,.0f}" for peak in peaks), f"{larger:.2f}", timing.kept(larger, 1),
    ))  # fmt: skip


def cases(options: argparse.Namespace) -> Iterator[Case[Line]]:
    """A case for each size of the batch and each type of weights."""
    for batch, weights in product(BATCHES, WEIGHTS):
        measure = partial(lines_of, batch, weights, options.repeats, options.budget)
        yield "decoding", f"batch {batch}, {weights}", measure


def main() -> None:
    parser = parser_of(__doc__, repeats=6, budget=180.0)
    options = parser.parse_args()
    names = chosen([name for _, name, _ in cases(options)], options.names)
    left = [case for case in cases(options) if case[1] in names]
    results = list(measured(left, options.results, lambda _, row: Line(**row)))
    text = page(
        "Generating tokens with a static cache, live, on the CPU",
        "Written by `python -m benchmarks.decode`, whose head says what is measured.",
        timing.conditions(f"{time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.1f} at the end"),
        *sections(TABLES, [line for case in results for line in case.rows]),
    )
    publish(text, options.markdown)
    sys.exit(failures(results))


if __name__ == "__main__":
    main()
