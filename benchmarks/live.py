"""`torch.compile(backend="composites")` beside eager PyTorch and Inductor, on the CPU.

    python -m benchmarks.live [--parts REGEX] [--names REGEX] [--stock PYTHON]
        [--soak 400] [--repeats 6] [--budget 90] [--results FILE] [--markdown benchmarks/LIVE.md]

Run it in an environment without torch_xla; `--stock` names the Python of one that has torch_xla.
All composites are on, with the kernels of examples/cpu_kernels. They are compiled when they are
first used: first steps are right once an earlier run has compiled them.

- models: twenty AdamW steps of each model of benchmarks/training_models.py, in evaluation mode, so
  that no dropout is drawn: in eager PyTorch, and live without kernels and faster decompositions.
  `same bits` compares all weights after two live steps without composites and with them; where
  they differ, also without the EXCEPTIONS that it takes. XLA does not leave exponentials to YNNPACK
  here, as docs/known-differences.md has it.
- calls: a model with 48 parameters. The executable's own time is that of its call with JAX's
  arrays, until the results are there. `PyTorch` is what Dynamo and AOTAutograd do around it, with
  autograd's own work, and `package` is what this package does.
- steps: training steps with PyTorch's fused AdamW. Each side is a process of its own, live ones
  with the variables of `composites run`, and they take turns. First steps have no caches; XLA's
  time in a second process is with JAX's cache on disk. Peak memory is that of the process, all of
  PyTorch included. With `--stock`, the same steps on torch_xla's device, without composites.
- optimizer: AdamW of 26 million parameters whose gradients are there. The compiled step is that of
  `Program.compile`, whose state stays on XLA's side.
- soak: a model whose batches have eight lengths, in turn.
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
from torch import nn

from benchmarks.harness import timing
from benchmarks.harness.pages import Line, page, publish, sections
from benchmarks.harness.processes import alone, environment, new_process, xla_flags
from benchmarks.harness.runs import Case, chosen, failures, measured, parser_of
from benchmarks.kernel_cases import STEPS, StepCase, Weighted
from benchmarks.kernels import Run, eager, use_package
from benchmarks.stock_steps import stock_steps, stock_versions
from benchmarks.training_models import MODELS, Step
from benchmarks.training_steps import Block, architecture, llama

LIVE = "composites"
STOCK = "torch_xla"
SIDES = (LIVE, "eager", "inductor")
CASES: Mapping[str, StepCase] = {
    case.name: case
    for case in (
        *STEPS,
        StepCase("Llama d384, 4 layers, L 2048", llama),
        StepCase("BERT, 2 layers, 2x256", partial(architecture, "bert")),
    )
}
MODEL_STEPS, BIT_STEPS = 20, 2
EXCEPTIONS = (
    *("rms_norm", "gemma_rms_norm", "cohere_layer_norm", "upsample_nearest2d_backward"),
    *("upsample_bilinear2d", "glu", "top_k_routing", "weight_norm", "lstm", "eager_attention"),
    *("attention_with_sinks", "gptj_rotary_embedding", "cross_entropy_loss"),
)
"""Entries that have other bits than the operators, as docs/known-differences.md has it."""
Weights = Mapping[str, torch.Tensor]
WITHOUT_YNNPACK = "--xla_cpu_experimental_ynn_fusion_type="
TABLES: Mapping[str, Sequence[str]] = {
    "Models": ("model", "losses beside eager, relative", "bar", "same bits"),
    "Calls": (
        *("call of 48 parameters", "whole", "executable", "PyTorch", "package"),
        *("whole - executable", "bar, ms", "eager"),
    ),
    "Steps": ("step", *SIDES, STOCK, "fastest other / composites", "bar"),
    "First steps": (
        *("step", *SIDES, STOCK, "to inductor", "bar"),
        *("XLA in a second process", "bar, s"),
    ),
    "Peak memory": ("step", *SIDES, STOCK, "to inductor", "bar"),
    "Optimizer": ("AdamW of 26 million parameters", "time", "to the compiled step", "bar"),
    "Soak": ("steps", "compilations after the first pass", "bar", "memory, MB", "growth, MB"),
}
MODEL, CALL, STEPPED, FIRST, MEMORY, OPTIMIZER, SOAK = TABLES


def _compile(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="composites", options=options)


# ---- models ----


def model_lines(name: str) -> list[Line]:
    """The losses and the weights of one model, trained in three ways."""
    import composites

    expected, _ = _trained(name, lambda module: module)
    compiled = partial(_compile, kernels=None)
    _, plain = _trained(name, compiled, BIT_STEPS)
    with composites.enabled("all"):
        losses, composed = _trained(name, compiled)
    same = "yes"
    if not _are_equal(plain, composed):
        entries = [each for each in composites.stats().entries.items() if each[1].calls]
        names = [name for entry, stats in entries for name in (entry, stats.composite)]
        exceptions = [each for each in EXCEPTIONS if f"ptxla.{each}" in names]

        def differ(left_out: Sequence[str]) -> bool:
            with composites.enabled("all", *(f"-{each}" for each in left_out)):
                return not _are_equal(plain, _trained(name, compiled, BIT_STEPS)[1])

        needed = [each for each in exceptions if differ([x for x in exceptions if x != each])]
        same = "no" if differ(exceptions) else f"but for {', '.join(needed)}"
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))
    return [Line(MODEL, (name, f"{worst:.1e}", timing.kept(worst, 1e-5), same))]


def _are_equal(some: Weights, others: Weights) -> bool:
    return all(torch.equal(value, others[key]) for key, value in some.items())


def _trained(
    name: str, wrap: Callable[[Any], Any], steps: int = MODEL_STEPS
) -> tuple[Sequence[float], Weights]:
    """The losses of a model, and its weights after BIT_STEPS."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    made = MODELS[name]()
    step, losses = Step(made).eval(), []
    call = wrap(step)
    optimizer = torch.optim.AdamW(step.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = call(**made.batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == BIT_STEPS:
            weights = copy.deepcopy(step.state_dict())
    return losses, weights


# ---- calls ----


def call_lines(count: int) -> list[Line]:
    """Calls of a model with 48 parameters, and the times of their executables."""
    import jax

    import composites
    from lowering.live.devices import Devices
    from lowering.live.executable import LiveProgram

    torch.manual_seed(0)
    model, x = nn.Sequential(*(Block(64, 2) for _ in range(4))), torch.randn(2, 4, 64)
    executions, calls = list[float](), list[float]()

    def timed(function: Any, spent: list[float]) -> Any:
        def run(*arguments: Any) -> Any:
            taken, results = timing.seconds(lambda: function(*arguments))
            spent.append(taken)
            return results

        return run

    def compile_timed(*arguments: Any, compiled: Any = Devices.compile, **keywords: Any) -> Any:
        execute = compiled(*arguments, **keywords)
        return timed(lambda *arrays: jax.block_until_ready(execute(*arrays)), executions)

    def forward(call: Any) -> float:
        return timing.seconds(lambda: call(x))[0]

    def backward(call: Any) -> float:
        model.zero_grad()
        return timing.seconds(call(x).sum().backward)[0]

    composites.enable("all")
    setattr(Devices, "compile", compile_timed)  # noqa: B010
    setattr(LiveProgram, "__call__", timed(LiveProgram.__call__, calls))  # noqa: B010
    live, lines = _compile(model), []
    for name, call, has_gradients in (
        ("forward, no_grad", forward, False),
        ("forward", forward, True),
        ("backward", backward, True),
    ):
        with torch.set_grad_enabled(has_gradients):
            timing.samples_of(partial(call, live), 10)
            taken = [(call(live), executions[-1], calls[-1]) for _ in range(count)]
            other = statistics.median(call(model) for _ in range(count))
        rows = [(a, b, a - c, c - b, a - b, other) for a, b, c in taken]
        times = [statistics.median(each) for each in zip(*rows, strict=True)]
        cells = [timing.milliseconds(each) for each in times]
        bar = timing.kept(round(times[4] * 1e3, 2), 0.3)
        lines.append(Line(CALL, (name, *cells[:-1], bar, cells[-1])))
    return lines


# ---- steps ----


_STEP: list[Run] = []
"""The step of this process."""
_COMPILING: list[float] = []
"""The seconds of XLA's compilations, since `_watch_compilations`."""
WRAPS: Mapping[str, Callable[[Any], Any]] = {
    LIVE: _compile,
    "eager": lambda module: module,
    "inductor": torch.compile,
}


def _watch_compilations() -> None:
    import jax

    def add(event: str, duration: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            _COMPILING.append(duration)

    jax.monitoring.register_event_duration_secs_listener(add)


def steps_of(name: str, side: str, count: int) -> tuple[list[float], float, float]:
    """The seconds of some steps of this process, at first of one; those that XLA has compiled; and
    the most memory that the process had, in MB."""
    if _STEP:
        taken = timing.samples_of(_STEP[0], count)
    else:
        if side == LIVE:
            import composites

            composites.enable("all")
            _watch_compilations()
        _STEP.append(eager(CASES[name].build, WRAPS[side]))
        taken = [timing.seconds(_STEP[0])[0]]
    return taken, sum(_COMPILING), getrusage(RUSAGE_SELF).ru_maxrss / 1024


def step_lines(case: StepCase, repeats: int, budget: float, stock: str) -> list[Line]:
    """All sides of a step, which take turns. Torch_xla is a side where an interpreter is named."""
    peaks: dict[str, float] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        variables = {
            "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        }
        stack.enter_context(environment(variables))
        processes = {side: stack.enter_context(new_process(side == LIVE)) for side in SIDES}

        def run(side: str, count: int) -> list[float]:
            future = processes[side].submit(steps_of, case.name, side, count)
            taken, _, peaks[side] = future.result()
            return taken

        runs: dict[str, Callable[[int], list[float]]]
        runs = {side: partial(run, side) for side in SIDES}
        if stock:
            on_torch_xla = stack.enter_context(stock_steps(stock, case.name))

            def run_stock(count: int) -> list[float]:
                taken, peaks[STOCK] = on_torch_xla(count)
                return taken

            runs[STOCK] = run_stock
        first = {side: run_side(1)[0] for side, run_side in runs.items()}
        _, again, _ = alone(steps_of, case.name, LIVE, 1)
        together = sum(min(run_side(1)) for run_side in runs.values())
        limits = timing.affordable(together, budget, 3, repeats)
        blocks = dict(zip(runs, timing.alternated([*runs.values()], *limits), strict=True))
    times = {side: timing.typical(samples) for side, samples in blocks.items()}
    best = min(times.keys() - {LIVE}, key=times.__getitem__)
    gain = round(timing.ratio(blocks[LIVE], blocks[best]).median, 2)
    first_ratio, peak_ratio = (
        round(values[LIVE] / values["inductor"], 2) for values in (first, peaks)
    )
    sides = (*SIDES, STOCK)
    return [
        Line(STEPPED, (
            case.name, *(timing.milliseconds(times.get(side)) for side in sides),
            f"{gain:.2f}", timing.reached(gain, 0.95),
        )),
        Line(FIRST, (
            case.name, *(f"{first[side]:.1f} s" if side in first else "" for side in sides),
            f"{first_ratio:.2f}", timing.kept(first_ratio, 2),
            f"{again:.2f} s", timing.kept(round(again, 2), 1),
        )),
        Line(MEMORY, (
            case.name, *(f"{peaks[side]:,.0f} MB" if side in peaks else "" for side in sides),
            f"{peak_ratio:.2f}", timing.kept(peak_ratio, 1),
        )),
    ]  # fmt: skip


# ---- optimizer ----


def optimizer_lines(repeats: int) -> list[Line]:
    """Updates of the same parameters."""
    import jax

    import composites

    composites.enable("all")
    module, gradient = Weighted(25600, 1024), torch.randn(25600, 1024)
    program = composites.export(module, (gradient,), optimizer=partial(torch.optim.AdamW, lr=1e-3))
    compiled = program.compile("cpu")
    state, placed = [compiled.init(module)], jax.device_put(gradient.numpy())

    def run_program() -> None:
        _, state[0] = compiled(state[0], placed)
        jax.block_until_ready(dict(state[0].values))

    runs: dict[str, Run] = {"the compiled step": run_program}
    sides: Sequence[tuple[str, str, dict[str, Any]]] = (
        ("PyTorch, fused", "eager", {"fused": True}),
        ("PyTorch", "eager", {}),
        ("torch.compile(optimizer.step), composites", LIVE, {"foreach": False}),
        ("torch.compile(optimizer.step), inductor", "inductor", {}),
    )
    for side, wrap, options in sides:
        weight = nn.Parameter(torch.zeros_like(gradient))
        weight.grad = gradient
        optimizer = torch.optim.AdamW([weight], lr=torch.tensor(1e-3), **options)
        runs[side] = WRAPS[wrap](optimizer.step)
    blocks = timing.alternated([partial(timing.samples_of, run) for run in runs.values()], repeats)
    lines = []
    for side, of_side in zip(runs, blocks, strict=True):
        longer = timing.ratio(blocks[0], of_side).median
        bar = timing.kept(round(longer, 2), 1.1) if side.endswith("composites") else ""
        time_of_side = timing.milliseconds(timing.typical(of_side))
        lines.append(Line(OPTIMIZER, (side, time_of_side, f"{longer:.2f}", bar)))
    return lines


# ---- soak ----


def soak_lines(steps: int) -> list[Line]:
    """Steps of batches with eight lengths. Memory is compared with that after two passes."""
    import composites

    composites.enable("all")
    lengths = range(8, 72, 8)
    torch._dynamo.config.recompile_limit = 2 * len(lengths)
    model = nn.Sequential(nn.Embedding(512, 64), Block(64, 2), Block(64, 2), nn.Linear(64, 512))
    optimizer = torch.optim.AdamW(model.parameters())
    _watch_compilations()
    call = _compile(model)
    for number in range(steps):
        if number == len(lengths):
            first = len(_COMPILING)
        if number == 2 * len(lengths):
            before = _resident()
        tokens = torch.randint(512, (2, lengths[number % len(lengths)]))
        optimizer.zero_grad()
        nn.functional.cross_entropy(call(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
    late, grown = len(_COMPILING) - first, _resident() - before
    cells = str(steps), str(late), timing.kept(late, 0), f"{before:.0f}", f"{grown:.1f}"
    return [Line(SOAK, cells)]


def _resident() -> float:
    """The memory of this process, in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# ---- page ----


def cases(options: argparse.Namespace) -> Iterator[Case[Line]]:
    """All cases of all parts. Those that turn composites on have processes of their own."""
    for name in MODELS:
        yield "models", name, partial(_model_lines, name)
    yield "calls", "48 parameters", partial(alone, call_lines, 100 * options.repeats)
    for case in CASES.values():
        limits = options.repeats, options.budget, options.stock
        yield "steps", case.name, partial(step_lines, case, *limits)
    yield "optimizer", "AdamW", partial(alone, optimizer_lines, options.repeats)
    yield "soak", "lengths", partial(alone, soak_lines, options.soak)


def _model_lines(name: str) -> list[Line]:
    with environment(xla_flags(WITHOUT_YNNPACK)):
        return alone(model_lines, name)


def markdown(lines: Sequence[Line], stock: str) -> str:
    """The page."""
    beside = f"The column `{STOCK}` is {stock_versions(stock)} without composites." if stock else ""
    return page(
        "Live programs beside eager PyTorch and Inductor, on the CPU",
        "Written by `python -m benchmarks.live`, whose head says what is measured. The kernels are"
        " those of [`examples/cpu_kernels`](../examples/cpu_kernels/README.md).",
        timing.conditions(f"{time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.1f} at the end"),
        beside,
        *sections(TABLES, lines),
    )


def main() -> None:
    parser = parser_of(__doc__, repeats=6, budget=90.0)
    parser.add_argument("--parts", default="", help="a regular expression; only these parts")
    parser.add_argument("--soak", type=int, default=400, help="how many steps")
    parser.add_argument("--stock", default="", help="the Python of an environment with torch_xla")
    options = parser.parse_args()
    use_package()
    of_parts = [case for case in cases(options) if re.search(options.parts, case[0])]
    names = chosen([name for _, name, _ in of_parts], options.names)
    left = [case for case in of_parts if case[1] in names]
    results = list(measured(left, options.results, lambda _, row: Line(**row)))
    lines = [line for result in results for line in result.rows]
    publish(markdown(lines, options.stock), options.markdown)
    sys.exit(failures(results))


if __name__ == "__main__":
    main()
