"""Kernels of examples/gpu_kernels beside decompositions and PyTorch, on a GPU.

`benchmarks.kernels --device cuda` runs this; its head says how.

    cases -> exported programs, with and without kernels -> times
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import composites
from benchmarks.cases import BF16, UPDATE, Case, called, cross_entropy, rms_norm
from benchmarks.harness.pages import Line, page, publish, sections
from benchmarks.harness.runs import Case as Measurement
from benchmarks.harness.runs import Measured, chosen, failures, measured
from benchmarks.harness.timing import reached
from benchmarks.kernel_cases import ON_GPUS, Weighted
from benchmarks.training_models import Batch
from benchmarks.training_steps import Training, causal_gpt
from composites import Program
from lowering.export.listed_kernels import listed_kernels
from lowering.stablehlo import Executable, RunError, compile_module
from lowering.stablehlo.comparison.difference import error
from lowering.stablehlo.comparison.inputs import real_inputs
from lowering.stablehlo.comparison.timing import times_in_turns
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.kernels import PlacedKernels, outer_calls, place_kernels, put_alone
from lowering.stablehlo.run import enable_x64, local_devices
from lowering.stablehlo.single_calls import decomposition_module

PACKAGE = Path(__file__).parents[1] / "examples" / "gpu_kernels" / "src"
CUDA = "cuda"
LENGTHS = (1024, 2048, 4096)
BATCH, HEADS, SIZE = 4, 16, 64
"""The sizes of attention, and of the GPT, whose width is `HEADS * SIZE`."""
LABELS = 1000
"""Random integers are less than this, which all tables and losses here have rows for."""
ALONE, STEPS = 20, 4
"""Runs that are given to the GPU at a time: of a call, and of a whole step. It then works without
waiting for Python, as in training; a time is that of one of them."""
COLUMNS = ("decompositions", "fast decompositions", "kernels", "PyTorch", "PyTorch, flash")
TABLES: Mapping[str, Sequence[str]] = {
    "Training": (
        *("training", *COLUMNS),
        *("decompositions / kernels", "bar", "PyTorch, flash / kernels", "bar"),
        *("decompositions / fast", "bar"),
        *("temporary MB of decompositions", "of fast ones", "of kernels"),
    ),
    "Single calls": (
        *("call", "composite", "decomposition", "kernel", "decomposition / kernel", "difference"),
    ),
    "Decompositions that are fast on a CPU": ("alternative", "stock", "fast", "stock / fast"),
}
"""The title and the head of each table of the page, in its order."""
TRAINING, CALLS, ALTERNATIVES = TABLES
Decompositions = Literal["stock", "fast", "fast for the CPU"]


# ---- cases ----


@dataclass(frozen=True, slots=True)
class Trained:
    """A training case, as a program and in PyTorch."""

    name: str
    build: Callable[[], tuple[nn.Module, Any]]
    """The module, and its batch: a mapping for a whole step with AdamW, else a sequence."""
    is_step: bool = False
    """A whole step is measured, and not its calls alone."""
    in_pytorch: Callable[[], Mapping[str, Callable[[], object]]] | None = None
    """A function, by column, that trains once on the GPU, without waiting for it."""
    kernels_bar: float | None = None
    """The factor by which the kernels are to be faster than the decompositions."""
    flash_bar: float | None = None
    """The share of the speed of PyTorch's flash attention that the kernels are to have."""
    fast_bar: float | None = None
    """The factor by which the fast decompositions are to be faster than those of stock."""
    decompositions: Sequence[Decompositions] = ("stock", "fast")
    """The choices of decompositions that the case is exported with."""

    def export(self, decompositions: Decompositions = "stock") -> Program:
        """The program of the gradients, or of the step."""
        module, batch = self.build()
        args, kwargs = ((), dict(batch)) if self.is_step else (batch, None)
        return composites.export(
            module,
            args,
            kwargs,
            train=True,
            optimizer=partial(torch.optim.AdamW, lr=1e-3) if self.is_step else None,
            decompositions=decompositions.split()[0],
            target=CUDA if decompositions == "fast" else None,
        )


def attention_case(length: int) -> Case:
    """Causal attention on heads that a linear layer would give: `[N, L, H, E]` in memory."""

    def call(*heads: Tensor) -> Tensor:
        query, key, value = (operand.transpose(1, 2) for operand in heads)
        attended = functional.scaled_dot_product_attention
        return attended(query, key, value, is_causal=True).transpose(1, 2)

    case = called("attention", call, *[(BATCH, length, HEADS, SIZE)] * 3, dtype=BF16)
    return replace(case, name=f"attention {BATCH}x{HEADS}x{length}x{SIZE}, causal, bf16")


def gpt(length: int, width: int = HEADS * SIZE, layers: int = 8) -> tuple[nn.Module, Batch]:
    """A GPT in bf16, as many sequences as attention has."""
    torch.manual_seed(0)
    module, batch = causal_gpt(length, width=width, layers=layers)
    repeated = {name: tensor.repeat(BATCH, 1) for name, tensor in batch.items()}
    return module.to(BF16), repeated


def adamw(size: int) -> Trained:
    """A step of one matrix. Its loss, a product with the gradient, is part of it."""

    def build() -> tuple[nn.Module, Batch]:
        return Weighted(size, size), {"gradient": torch.randn(size, size)}

    step = partial(step_in_pytorch, build)
    return Trained(f"AdamW {size}x{size}", build, True, step, decompositions=["stock"])


def attention_in_pytorch(length: int) -> Mapping[str, Callable[[], object]]:
    """Forward and backward of PyTorch's attention: the kernel of its choice, and flash."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    operands = [
        tensor.cuda().requires_grad_() for tensor in attention_case(length).operands().values()
    ]
    query, key, value = (tensor.transpose(1, 2) for tensor in operands)
    gradient = torch.randn(query.shape, device="cuda", dtype=BF16)

    def run() -> None:
        result = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        torch.autograd.grad(result, operands, gradient, retain_graph=True)

    def flash() -> None:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            run()

    return {"PyTorch": run, "PyTorch, flash": flash}


def step_in_pytorch(
    build: Callable[[], tuple[nn.Module, Batch]],
) -> Mapping[str, Callable[[], object]]:
    """The step in eager mode, whose attention is PyTorch's own."""
    placed = Training(build).placed(torch.Tensor.cuda)
    return {"PyTorch": lambda: placed.traced(UPDATE)}


def single_call(case: Case, decompositions: Sequence[Decompositions] = ("stock",)) -> Trained:
    """A call alone, without PyTorch."""
    return Trained(case.name, case.build, decompositions=decompositions)


def _attention(length: int) -> Trained:
    longest = length == LENGTHS[-1]
    return replace(
        single_call(attention_case(length), ("stock", "fast")),
        in_pytorch=partial(attention_in_pytorch, length),
        kernels_bar=3.0 if longest else None,
        flash_bar=0.9,
        fast_bar=2.0 if longest else None,
    )


def _gpt(length: int) -> Trained:
    build = partial(gpt, length)
    name = f"GPT d{HEADS * SIZE}, 8 layers, {BATCH}x{length}, bf16"
    return Trained(name, build, True, partial(step_in_pytorch, build))


CASES: Mapping[str, Trained] = {
    **{f"attention-{length}": _attention(length) for length in LENGTHS},
    **{f"gpt-{length}": _gpt(length) for length in LENGTHS},
    "loss": single_call(cross_entropy(4096, 50257, BF16)),
    "norm": single_call(rms_norm(16384, 4096, BF16)),
    "adamw": adamw(4096),
    **{
        f"alternative-{number:02}": single_call(case, ("stock", "fast for the CPU"))
        for number, case in enumerate(ON_GPUS)
    },
}


# ---- measuring ----


Programs = Mapping[Decompositions, Program]


def placed(program: Program) -> PlacedKernels:
    """The program with the kernels that are listed for `cuda`."""
    return place_kernels(program.module, listed_kernels(program.module, CUDA), platform=CUDA)


def measured_calls(name: str, program: Program, seconds: float) -> Iterator[Line]:
    """Measure each distinct call that has a kernel, alone, on what the program computes from random
    inputs. The difference is relative to the largest value."""
    kernels = placed(program)
    arrays = list(random_inputs(program).values())
    real = real_inputs(program.module, arrays, CUDA)
    for call, decomposition in outer_calls(program.module):
        if call not in kernels.taken:
            continue
        modules = (
            decomposition_module(program.module, decomposition),
            put_alone(kernels.original, call, kernels.taken[call], CUDA),
        )
        executables = [compile_module(module, platform=CUDA) for module in modules]
        operands = real[call, decomposition].arrays
        expected, actual = (executable(*operands) for executable in executables)
        stock, kernel = _seconds([_run_on(e, operands) for e in executables], ALONE, seconds)
        times = duration(stock), duration(kernel), f"{stock / kernel:.2f}"
        yield Line(CALLS, (name, call.name, *times, f"{error(actual, expected):.1e}"))


def measured_training(case: Trained, programs: Programs, seconds: float) -> Line:
    """The programs, stock's with kernels too, and PyTorch if it has a GPU, in turns."""
    stock = programs["stock"]
    sides = {"decompositions": stock}
    if "fast" in programs:
        sides["fast decompositions"] = programs["fast"]
    sides["kernels"] = replace(stock, module=placed(stock).module)
    runs: dict[str, Run] = {}
    temporary: dict[str, int] = {}
    for side, program in sides.items():
        runs[side], temporary[side] = _program_run(program, is_step=case.is_step)
    if case.in_pytorch is not None and torch.cuda.is_available():
        runs |= {
            side: Run(run, lambda _: torch.cuda.synchronize())
            for side, run in case.in_pytorch().items()
        }
    durations = _seconds(list(runs.values()), STEPS if case.is_step else ALONE, seconds)
    times = dict(zip(runs, durations, strict=True))
    cells = [case.name, *(duration(times[side]) if side in times else "" for side in COLUMNS)]
    for side, over, bar in (
        ("decompositions", "kernels", case.kernels_bar),
        ("PyTorch, flash", "kernels", case.flash_bar),
        ("decompositions", "fast decompositions", case.fast_bar),
    ):
        ratio = times[side] / times[over] if {side, over} <= times.keys() else None
        cells += ["", ""] if ratio is None else [f"{ratio:.2f}", reached(ratio, bar)]
    cells += [f"{temporary[s] / 1e6:,.0f}" if s in temporary else "" for s in COLUMNS[:3]]
    return Line(TRAINING, cells)


def measured_alternative(case: Trained, programs: Programs, seconds: float) -> Line:
    """The program with stock's decompositions, and with those that are fast on a CPU."""
    runs = [_program_run(program, is_step=False)[0] for program in programs.values()]
    stock, fast = _seconds(runs, ALONE, seconds)
    cells = case.name, duration(stock), duration(fast), _digits(stock / fast)
    return Line(ALTERNATIVES, cells)


def duration(seconds: float) -> str:
    """Seconds as text, with three digits."""
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        if seconds * scale < 999.5:
            return f"{_digits(seconds * scale)} {unit}"
    return f"{_digits(seconds)} s"


def _digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".")


@dataclass(frozen=True, slots=True)
class Run:
    """Work for a GPU."""

    start: Callable[[], object]
    """Gives it to the GPU once, and does not wait."""
    wait: Callable[[object], object]
    """Waits for what the last start returned, and so for all before it."""

    def several(self, count: int) -> None:
        for _ in range(count):
            last = self.start()
        self.wait(last)


def _seconds(runs: Sequence[Run], count: int, seconds: float) -> list[float]:
    """The median time of each, of one in `count` that follow each other."""
    turns = times_in_turns([partial(run.several, count) for run in runs], seconds)
    return [median(times) / count for times in turns]


def _run_on(executable: Executable, arrays: Sequence[Any]) -> Run:
    import jax

    return Run(partial(executable.start, executable.place(*arrays)), jax.block_until_ready)


def _program_run(program: Program, *, is_step: bool) -> tuple[Run, int]:
    """The program with random inputs, or a step that begins with its weights and goes on; and the
    temporary memory of a run, in bytes."""
    import jax

    named = random_inputs(program)
    if not is_step:
        executable = compile_module(program.module, platform=CUDA)
        return _run_on(executable, list(named.values())), executable.temporary_bytes
    step = program.compile(CUDA, None)
    device = local_devices(CUDA)[0]
    weights = {name: value for name, value in named.items() if name.startswith(("param", "buffer"))}
    with enable_x64():  # of classes
        batch = {
            name.removeprefix("kwarg:"): jax.device_put(value, device)
            for name, value in named.items()
            if name.startswith("kwarg:")
        }
    current = [step.init(weights)]

    def start() -> object:
        loss, current[0] = step(current[0], **batch)
        return loss, dict(current[0].values)

    return Run(start, jax.block_until_ready), step.temporary_bytes


def random_inputs(program: Program) -> dict[str, Any]:
    """A value for each input, by its name. Those of a program with an optimizer are small."""
    random = np.random.default_rng(0)
    has_optimizer = any(value.updates is not None for value in program.outputs)
    scale = np.float32(0.02 if has_optimizer else 1.0)
    values = {}
    for value in program.inputs:
        dtype = numpy_dtype(value.dtype)
        if np.issubdtype(dtype, np.integer):
            values[value.name] = random.integers(0, LABELS, value.sizes).astype(dtype)
            continue
        numbers = random.standard_normal(value.sizes, np.float32) * scale
        if value.name.startswith("state:"):  # squares are in it
            numbers = np.abs(numbers)
        values[value.name] = numbers.astype(dtype)
    return values


# ---- the command ----


def run(options: argparse.Namespace) -> None:
    """Measure the cases that are chosen.

    Raises:
        SystemExit: there is no GPU, or a case has failed.
    """
    titles = chosen([f"{key}: {case.name}" for key, case in CASES.items()], options.names)
    keys = [title.partition(":")[0] for title in titles]
    use_package()
    device = _device()
    # A page is of one machine: rows of another one in the file of results do not count.
    every = ((device, CASES[key].name, partial(_rows, CASES[key], options.seconds)) for key in keys)
    cases = _until(time.monotonic() + 60 * options.minutes, every)
    results = list(measured(cases, options.results, lambda _, row: Line(**row)))
    publish(markdown(device, results), options.markdown)
    sys.exit(failures(results))


def _until(end: float, cases: Iterator[Measurement[Line]]) -> Iterator[Measurement[Line]]:
    """The cases that begin before this time."""
    for case in cases:
        if time.monotonic() > end:
            return
        yield case


def _rows(case: Trained, seconds: float) -> Iterator[Line]:
    programs = {key: case.export(key) for key in case.decompositions}
    if "fast for the CPU" in programs:
        yield measured_alternative(case, programs, seconds)
        return
    if case.in_pytorch is not None:
        yield measured_training(case, programs, seconds)
    if not case.is_step:
        yield from measured_calls(case.name, programs["stock"], seconds)


def markdown(device: str, measured: Sequence[Measured[Line]]) -> str:
    """The page. It names the cases that are missing."""
    done = {case.name for case in measured if case.rows}
    left = [case.name for case in CASES.values() if case.name not in done]
    return page(
        "Kernels beside decompositions and PyTorch, on a GPU",
        "Written by `python -m benchmarks.kernels --device cuda`; its head says what is measured.",
        device,
        *sections(TABLES, (line for case in measured for line in case.rows)),
        f"Not measured: {', '.join(left)}." if left else "",
    )


def use_package() -> None:
    """Let this process find the kernels as if their package were installed, and leave PyTorch some
    of the GPU's memory, of which jax would take most at its start."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ["XLA_COMPOSITE_REGISTRY"] = str(PACKAGE / "gpu_kernels" / "registry.yaml")
    if str(PACKAGE) not in sys.path:
        sys.path.insert(0, str(PACKAGE))


def _device() -> str:
    """The GPU and the versions, or the end of the program where there is none."""
    import jax

    try:
        device = local_devices("cuda")[0]
    except RunError as error:
        raise SystemExit(
            f"--device cuda needs an NVIDIA GPU; nothing was measured: {error}"
        ) from None
    torch_text = f"torch {torch.__version__}"
    if not torch.cuda.is_available():
        torch_text += " without a GPU, so that its columns are empty"
    return f"{device.device_kind}; jax {jax.__version__}, {torch_text}."
