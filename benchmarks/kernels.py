"""Kernels beside the decompositions that they replace: examples/cpu_kernels on the CPU.

    python -m benchmarks.kernels [--parts calls,growing,steps,others] [--names REGEX]
        [--seconds 2] [--repeats 8] [--budget 150] [--results FILE]
        [--markdown benchmarks/KERNELS.md]

- calls: each distinct call of a composite alone, with stock's decomposition, with the faster
  alternative where the entry has one, and with the kernel.
- growing: the same calls at growing sizes; where the kernel is faster than both others, and where
  it is faster than the decomposition alone, so that it pays behind the faster alternative. The
  registry of examples/cpu_kernels records both as conditions, by which `kernels="auto"` chooses.
- steps: whole training steps with AdamW: the exported program with stock's decompositions, with
  kernels alone, and as `auto` chooses kernels and faster alternatives; PyTorch eager,
  torch.compile, and torch_xla.
- others: programs that nothing was tuned for, with stock's decompositions and on `auto`.

With `--results`, cases are written to a file of JSON lines as soon as they are known, and cases
that are in it are not measured again.

On a GPU, the kernels are those of examples/gpu_kernels:

    python -m benchmarks.kernels --device cuda [--names REGEX] [--minutes 9]
        [--seconds 2] [--results FILE] [--markdown FILE]

- This needs jax for CUDA and what this package needs, but no torch_xla: PyTorch 2.10 or newer
  exports the programs. With a torch for CUDA, it also measures PyTorch. Carry the repository and a
  folder of wheels to the machine,
  `pip install --no-index --find-links WHEELS 'jax[cuda12]' torch pydantic pyyaml jinja2 protobuf`,
  and run it in the repository: no network is needed, and it begins no row after nine minutes.
- training: attention, forward and backward, and whole steps of a GPT, at lengths of 1024, 2048 and
  4096 in bf16: with stock's decompositions, with those that are fast for `target="cuda"`, with
  kernels, and PyTorch in eager mode. `PyTorch` is its own choice of attention, and `PyTorch, flash`
  its flash kernel. Of attention, PyTorch is given the gradient, which the program computes from a
  weighted sum. Temporary memory is what XLA needs beside inputs and results.
  AdamW is a step of one matrix, whose gradient is an input.
- calls: attention, cross entropy and RMS norm alone. Operands lie as the composite has them;
  cuDNN's rows include a copy to another layout, which a whole program does not need.
- alternatives: forward and backward with stock's decompositions, and with those that are fast for
  XLA's CPU backend.

A time on a GPU is that of one run of twenty that are started without waiting (four of a whole
step), so that what Python needs to start one is hidden where the GPU has enough to do. It is the
median of several such turns, which all sides of a row take one after the other.

On the CPU, all sides of a row run in one process too. Those of a call take turns, and a time is the
median of its runs; those of a training step alternate in blocks, as benchmarks/harness/timing.py
says. The bound is the time in which this machine copies the bytes of operands and results.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch

import composites
from benchmarks.cases import UPDATE, Case
from benchmarks.harness.pages import Line, page, publish, sections
from benchmarks.harness.runs import Case as Measurement
from benchmarks.harness.runs import chosen, failures, measured, parser_of
from benchmarks.harness.timing import (
    affordable,
    alternated,
    conditions,
    milliseconds,
    ratio,
    reached,
    samples_of,
    settings_of_malloc,
    settle,
    typical,
)
from benchmarks.kernel_cases import CASES, GROWING, OTHERS, STEPS, Growing, StepCase
from benchmarks.training_models import Batch
from benchmarks.training_steps import Training
from composites.functions import find_function
from composites.registry.listed_kernels import all_listed
from lowering.export.arrays import array
from lowering.stablehlo import Module, compile_module
from lowering.stablehlo.candidates import Candidate
from lowering.stablehlo.comparison.difference import error
from lowering.stablehlo.comparison.inputs import real_inputs
from lowering.stablehlo.comparison.timing import machine, median_times
from lowering.stablehlo.composites import Signature
from lowering.stablehlo.kernels import outer_calls, place_kernels, put_alone
from lowering.stablehlo.single_calls import decomposition_module

PACKAGE = Path(__file__).parents[1] / "examples" / "cpu_kernels" / "src"
FEWEST = 3
"""Blocks of steps on each side, however long they take."""
SIDES = ("decompositions", "auto", "kernels", "eager", "torch.compile", "torch_xla")
OPTIMIZER = partial(torch.optim.AdamW, lr=1e-3)

TABLES: Mapping[str, Sequence[str]] = {
    "Single calls": (
        *("call", "composite", "decomposition", "faster alternative", "kernel", "bound"),
        *("decomposition / kernel", "bar", "difference"),
    ),
    "Where kernels pay": (
        *("composite", "by size: fastest other / kernel", "the kernel pays where"),
        "behind the alternative",
    ),
    "Training steps": (
        *("step", *SIDES, "calls with kernels", "with alternatives"),
        *("decompositions / auto", "middle half", "bar", "fastest"),
    ),
}
CALLS, WHERE, STEPPED = TABLES
PARTS = ("calls", "growing", "steps", "others")

Build = Callable[[], tuple[torch.nn.Module, Batch]]
Run = Callable[[], Any]
"""Runs one training step, and returns its loss."""


def use_package() -> None:
    """Let this process find the kernels as if their package were installed."""
    sys.path.insert(0, str(PACKAGE))
    os.environ["XLA_COMPOSITE_REGISTRY"] = str(PACKAGE / "cpu_kernels" / "registry.yaml")


# ---- calls ----


@dataclass(frozen=True, slots=True)
class Call:
    """A call alone. Times are in seconds."""

    case: str
    composite: str
    stock: float
    faster: float | None
    """The seconds of the alternative that `decompositions="fast"` takes, where there is one."""
    kernel: float | None
    """The seconds of the kernel; None where no kernel takes the call."""
    bound: float
    difference: float | None
    """The kernel's difference from the decomposition, relative to the largest value."""
    bar: float | None

    @property
    def gain(self) -> float | None:
        """The factor by which the kernel is faster than stock's decomposition."""
        return None if self.kernel is None else self.stock / self.kernel

    @property
    def line(self) -> Line:
        cells = (
            self.case,
            self.composite,
            *map(milliseconds, (self.stock, self.faster, self.kernel, self.bound)),
            "" if self.gain is None else f"{self.gain:.2f}",
            reached(self.gain, self.bar),
            "" if self.difference is None else f"{self.difference:.1e}",
        )
        return Line(CALLS, cells)


def measured_calls(case: Case, seconds: float) -> Iterator[Call]:
    """Forward and backward of one case, of those composites that a kernel is listed for."""
    module, batch = case.build()
    stock = composites.export(module, batch, train=True)
    faster = composites.export(module, batch, train=True, decompositions="fast").module
    listed = {kernel.composite for kernel in all_listed()}
    placed = place_kernels(stock.module, _every_kernel, platform="cpu")
    real = real_inputs(stock.module, _arrays(stock, module, batch), "cpu")
    alternatives = {_key(call): name for call, name in outer_calls(faster)}
    for call, name in outer_calls(stock.module):
        if call.name not in listed:
            continue
        modules: dict[str, Module] = {"stock": decomposition_module(stock.module, name)}
        if _key(call) in alternatives:
            other = decomposition_module(faster, alternatives[_key(call)])
            if other.text != modules["stock"].text:
                modules["faster"] = other
        if call in placed.taken:
            modules["kernel"] = put_alone(placed.original, call, placed.taken[call], "cpu")
        executables = [compile_module(module, platform="cpu") for module in modules.values()]
        operands = real[call, name].arrays
        results = dict(zip(modules, (run(*operands) for run in executables), strict=True))
        medians = median_times(executables, operands, seconds=seconds)
        times = dict(zip(modules, medians, strict=True))
        bytes_ = sum(np.asarray(array).nbytes for array in (*operands, *results["stock"]))
        kernel = results.get("kernel")
        yield Call(
            case=case.name,
            composite=call.name,
            stock=times["stock"],
            faster=times.get("faster"),
            kernel=times.get("kernel"),
            bound=bytes_ / machine("cpu").copy_bandwidth,
            difference=None if kernel is None else error(kernel, results["stock"]),
            bar=case.bars.get(call.name.rpartition(".")[2]),
        )


def call_lines(case: Case, seconds: float) -> Iterator[Line]:
    """The lines of the calls of one case."""
    for call in measured_calls(case, seconds):
        yield call.line


def _key(call: Signature) -> tuple[object, ...]:
    """Equal for equal calls of two programs."""
    return call.name, call.version, str(call.attributes), call.operands, call.results


def _every_kernel(call: Signature) -> list[Candidate]:
    """The kernels that are listed, also for calls that are too small for their conditions."""
    return [
        Candidate(find_function(kernel.name), kernel.ignores, listed_as=kernel.name)
        for kernel in all_listed()
        if kernel.composite == call.name and kernel.platform == "cpu" and not kernel.is_target
    ]


def _arrays(program: Any, module: torch.nn.Module, batch: Sequence[torch.Tensor]) -> list[Any]:
    named: dict[str, torch.Tensor] = {
        f"param:{name}": value for name, value in module.named_parameters()
    }
    named["rng_seed"] = torch.tensor(1)
    rest = iter(batch)
    taken = [named[value.name] if value.name in named else next(rest) for value in program.inputs]
    return [
        np.asarray(array(value.name, tensor))
        for value, tensor in zip(program.inputs, taken, strict=True)
    ]


# ---- growing ----


def growth(growing: Growing, seconds: float) -> Iterator[Line]:
    """Lines on where the kernels of some composites pay. The condition behind the alternative is
    empty where it is the first one: a registry lists the kernel again for it, with a negative
    priority."""
    calls = [(size, call) for size, case in growing.cases for call in measured_calls(case, seconds)]
    for name in growing.composites:
        taken = sorted(
            (size, call.stock, call.faster or call.stock, call.kernel)
            for size, call in calls
            if call.composite == name and call.kernel is not None
        )
        gains = [(size, min(stock, faster) / kernel) for size, stock, faster, kernel in taken]
        over_stock = [(size, stock / kernel) for size, stock, _, kernel in taken]
        first, behind = _where(growing.size, gains), _where(growing.size, over_stock)
        written = ", ".join(f"{size}: {gain:.2f}" for size, gain in gains)
        cells = name, written, f"`{first}`", "" if behind == first else f"`{behind}`"
        yield Line(WHERE, cells)


def _where(measure: str, gains: Sequence[tuple[int, float]]) -> str:
    """The registry's condition for sizes with gains of at least 1. The last run has no end."""
    runs: list[list[int]] = []
    paid = False
    for size, gain in gains:
        if gain >= 1:
            runs = [*runs[:-1], [*runs[-1], size]] if paid else [*runs, [size]]
        paid = gain >= 1
    largest = gains[-1][0] if gains else None
    conditions = (
        f"{measure} >= {run[0]}" if run[-1] == largest else f"{run[0]} <= {measure} <= {run[-1]}"
        for run in runs
    )
    return " or ".join(conditions) or "never"


# ---- steps ----


def measured_step(
    case: StepCase, repeats: int, budget: float, sides: Sequence[str] = SIDES
) -> Iterator[Line]:
    """Measure all sides of a training step, in alternating blocks: each side as in its own training
    loop, and not just after another side has filled the caches. The fastest side is one of those
    that a user can choose."""
    torch.manual_seed(0)
    module, batch = case.build()
    program = composites.export(module, (), kwargs=dict(batch), optimizer=OPTIMIZER)
    steps = {"decompositions": program.compile("cpu", None), "auto": program.compile("cpu")}
    if "kernels" in sides:
        listed = sorted({kernel.composite for kernel in all_listed() if kernel.platform == "cpu"})
        named = [name for name in listed if name in program.composites]
        steps["kernels"] = program.compile("cpu", named)
    runs: dict[str, Run] = {side: step_run(step, module, batch) for side, step in steps.items()}
    loops = {
        "eager": partial(eager, case.build),
        "torch.compile": partial(eager, case.build, torch.compile),
        "torch_xla": partial(on_torch_xla, case.build),
    }
    runs |= {side: make() for side, make in loops.items() if side in sides}
    called = [partial(samples_of, run) for run in runs.values()]
    together = sum(min(samples(1)) for samples in called)
    limits = affordable(together, budget, FEWEST, repeats)
    blocks = dict(zip(runs, alternated(called, *limits), strict=True))
    times = {side: typical(side_blocks) for side, side_blocks in blocks.items()}
    gain = ratio(blocks["auto"], blocks["decompositions"])
    uses = steps["auto"].kernels
    cells = (
        case.name,
        *(milliseconds(times.get(side)) for side in SIDES),
        str(sum(use.count for use in uses if use.kernel is not None)),
        str(sum(use.count for use in uses if use.alternative is not None)),
        f"{gain.median:.2f}",
        gain.middle_half,
        reached(gain.median, case.bar),
        min(times.keys() - {"decompositions"}, key=lambda side: times[side]),
    )
    yield Line(STEPPED, cells)


def step_run(step: Any, module: torch.nn.Module, batch: Mapping[str, Any]) -> Run:
    """A compiled step that begins with the module's weights and goes on."""
    import jax

    current = [step.init(module)]

    def run() -> Any:
        outputs, current[0] = step(current[0], **batch)
        jax.block_until_ready((outputs, dict(current[0].values)))
        return outputs["loss"] if isinstance(outputs, Mapping) else outputs

    return run


def eager(build: Build, wrap: Callable[[Any], Any] = lambda module: module) -> Run:
    """The step in PyTorch on the CPU, with what `wrap` makes of the module."""
    torch.manual_seed(0)
    placed = Training(build).placed(torch.clone, wrap)
    return lambda: placed.traced(UPDATE)[0]


def on_torch_xla(build: Build) -> Run:
    """The step on torch_xla's device."""
    torch.manual_seed(0)
    placed = Training(build).placed(lambda tensor: tensor.to("xla"))
    settle()

    def run() -> Any:
        (loss,) = placed.traced(UPDATE)
        settle()
        return loss

    return run


# ---- page ----


def markdown(lines: Iterable[Line]) -> str:
    """The page. It is also written with settings of malloc, and the repository has both."""
    settings = " with settings of malloc" if settings_of_malloc() else ""
    return page(
        f"Kernels beside decompositions{settings}, on the CPU",
        "Written by `python -m benchmarks.kernels`, whose head says what is measured. The kernels"
        " are those of [`examples/cpu_kernels`](../examples/cpu_kernels/README.md).",
        conditions(f"load {os.getloadavg()[0]:.1f} at the end"),
        *sections(TABLES, lines),
    )


def cases(options: argparse.Namespace) -> Iterator[Measurement[Line]]:
    """Yield all cases of all parts."""
    for case in CASES:
        yield "calls", case.name, partial(call_lines, case, options.seconds)
    for growing in GROWING:
        yield "growing", growing.name, partial(growth, growing, options.seconds / 4)
    limits = options.repeats, options.budget
    for step in STEPS:
        yield "steps", step.name, partial(measured_step, step, *limits)
    for other in OTHERS:
        yield "others", other.name, partial(measured_step, other, *limits, SIDES[:2])


def main() -> None:
    parser = parser_of(__doc__, repeats=8, budget=150.0)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each side of a call")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--minutes", type=float, default=9.0, help="with cuda: begin none later")
    options = parser.parse_args()
    if options.device == "cuda":
        from benchmarks import gpu_kernels

        gpu_kernels.run(options)
        return
    parts = options.parts.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r} (there are {', '.join(PARTS)})")
    use_package()
    selected = [case for case in cases(options) if case[0] in parts]
    names = chosen([name for _, name, _ in selected], options.names)
    left = [case for case in selected if case[1] in names]
    results = list(measured(left, options.results, lambda _, row: Line(**row)))
    publish(markdown(line for case in results for line in case.rows), options.markdown)
    sys.exit(failures(results))


if __name__ == "__main__":
    main()
