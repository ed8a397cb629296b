"""Kernels of examples/gpu_kernels beside decompositions and PyTorch, on a GPU.

`benchmarks.kernels --device cuda` runs this; its head says how.

    cases -> exported programs -> a folder            a machine with torch_xla, no GPU needed
    programs with and without kernels -> times        a machine with a GPU, no torch_xla needed
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import composites
from benchmarks import records
from benchmarks.kernel_cases import (
    Case,
    attention,
    cross_entropy,
    embedding,
    grid_sampling,
    images,
    layer_norm,
    max_pool,
    softmax,
)
from benchmarks.pages import markdown_table
from benchmarks.training_steps import Batch, causal_gpt
from composites import Program
from lowering.export.listed_kernels import listed_kernels
from lowering.stablehlo import Executable, RunError, compile_module
from lowering.stablehlo.comparison.difference import error
from lowering.stablehlo.comparison.inputs import real_inputs
from lowering.stablehlo.comparison.isolate import decomposition_module
from lowering.stablehlo.comparison.timing import times_in_turns
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.kernels import PlacedKernels, outer_calls, place_kernels, put_alone
from lowering.stablehlo.run import enable_x64, local_devices

PACKAGE = Path(__file__).parents[1] / "examples" / "gpu_kernels" / "src"
LENGTHS = (1024, 2048, 4096)
BATCH, HEADS, SIZE = 4, 16, 64
"""Of attention, and of the GPT, whose width is `HEADS * SIZE`."""
LABELS = 1000
"""Random integers are less than this, which all tables and losses here have rows for."""
ALONE, STEPS = 20, 4
"""Runs that are given to the GPU at a time: of a call, and of a whole step. It then works without
waiting for Python, as in training; a time is that of one of them."""
CALLS_HEAD = (
    "call",
    "composite",
    "decomposition",
    "kernel",
    "decomposition / kernel",
    "difference",
)
COLUMNS = ("decompositions", "fast decompositions", "kernels", "PyTorch", "PyTorch, flash")
TRAINING_HEAD = (
    *("training", *COLUMNS),
    *("decompositions / kernels", "bar", "PyTorch, flash / kernels", "bar"),
    *("decompositions / fast", "bar"),
    *("temporary MB of decompositions", "of fast ones", "of kernels"),
)
LEFT = "Not measured"
ALTERNATIVES_HEAD = ("alternative", "stock", "fast", "stock / fast")
CUDA = "cuda"
Decompositions = Literal["stock", "fast", "fast for the CPU"]


# ---- cases ----


@dataclass(frozen=True, slots=True)
class Training:
    """A program that trains, and what does the same in PyTorch."""

    name: str
    export: Callable[[Decompositions], Program]
    in_pytorch: Callable[[], Mapping[str, Callable[[], object]]] | None = None
    """By column: a function that trains once on the GPU, without waiting for it."""
    bar: float | None = None
    """How many times faster than the decompositions the kernels are to be."""
    flash_bar: float | None = None
    """The share of the speed of PyTorch's flash attention that the kernels are to have."""
    fast_bar: float | None = None
    """How many times faster than stock's decompositions the fast ones are to be."""
    calls: bool = True
    """Whether its calls are measured alone, or the whole step."""
    decompositions: Sequence[Decompositions] = ("stock", "fast")
    """Those that it is exported with."""


def attention_case(length: int) -> Case:
    """Causal attention on heads that a linear layer would give: `[N, L, H, E]` in memory."""

    def operands() -> Mapping[str, Tensor]:
        shape = (BATCH, length, HEADS, SIZE)
        return {name: torch.randn(shape).to(torch.bfloat16) for name in ("q", "k", "v")}

    def call(*heads: Tensor) -> Tensor:
        query, key, value = (each.transpose(1, 2) for each in heads)
        attended = functional.scaled_dot_product_attention
        return attended(query, key, value, is_causal=True).transpose(1, 2)

    return Case(f"attention {BATCH}x{HEADS}x{length}x{SIZE}, causal, bf16", call, operands)


def rms_norm_case(rows: int, size: int, dtype: torch.dtype = torch.bfloat16) -> Case:
    def operands() -> Mapping[str, Tensor]:
        shapes = {"x": (rows, size), "weight": (size,)}
        return {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}

    def call(x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, [size], weight)

    kind = ", bf16" if dtype == torch.bfloat16 else ""
    return Case(f"rms norm {rows}x{size}{kind}", call, operands)


def gpt(length: int, width: int = HEADS * SIZE, layers: int = 8) -> tuple[nn.Module, Batch]:
    """A GPT in bf16, as many sequences as attention has."""
    torch.manual_seed(0)
    module, batch = causal_gpt(length, width=width, layers=layers)
    return module.to(torch.bfloat16), {
        name: tensor.repeat(BATCH, 1) for name, tensor in batch.items()
    }


def adamw(size: int, decompositions: Decompositions = "stock") -> Program:
    """A step that updates one matrix. Its loss, a product with the gradient, is part of it."""
    return composites.export(
        Weighted(size),
        (),
        kwargs={"gradient": torch.zeros(size, size)},
        optimizer=partial(torch.optim.AdamW, lr=1e-3),
        **_chosen(decompositions),
    )


class Weighted(nn.Module):
    """A parameter whose gradient is an input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size, size))

    def forward(self, gradient: Tensor) -> Tensor:
        return (self.weight * gradient).sum()


def adamw_in_pytorch(size: int) -> Mapping[str, Callable[[], object]]:
    batch = {"gradient": torch.randn(size, size, device="cuda")}
    return {"PyTorch": _steps_in_pytorch(Weighted(size).cuda(), batch)}


def of_case(case: Case, decompositions: Decompositions = "stock") -> Program:
    module, batch = case.build()
    return composites.export(module, batch, train=True, **_chosen(decompositions))


def of_gpt(length: int, decompositions: Decompositions = "stock") -> Program:
    module, batch = gpt(length)
    return composites.export(
        module,
        (),
        kwargs=dict(batch),
        optimizer=partial(torch.optim.AdamW, lr=1e-3),
        **_chosen(decompositions),
    )


def _chosen(decompositions: Decompositions) -> dict[str, Any]:
    target = CUDA if decompositions == "fast" else None
    return {"decompositions": decompositions.split()[0], "target": target}


def attention_in_pytorch(length: int) -> Mapping[str, Callable[[], object]]:
    """Forward and backward of PyTorch's attention: the kernel of its choice, and flash."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    given = [
        tensor.cuda().requires_grad_() for tensor in attention_case(length).operands().values()
    ]
    query, key, value = (tensor.transpose(1, 2) for tensor in given)
    gradient = torch.randn(query.shape, device="cuda", dtype=torch.bfloat16)

    def run() -> None:
        result = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        torch.autograd.grad(result, given, gradient, retain_graph=True)

    def flash() -> None:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            run()

    return {"PyTorch": run, "PyTorch, flash": flash}


def gpt_in_pytorch(length: int) -> Mapping[str, Callable[[], object]]:
    """The step in eager mode, whose attention is PyTorch's own."""
    module, batch = gpt(length)
    module, batch = module.cuda(), {name: tensor.cuda() for name, tensor in batch.items()}
    return {"PyTorch": _steps_in_pytorch(module, batch)}


def _steps_in_pytorch(module: nn.Module, batch: Batch) -> Callable[[], object]:
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)

    def run() -> None:
        optimizer.zero_grad()
        module(**batch).backward()
        optimizer.step()

    return run


def linear_loss(rows: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return composites.linear_cross_entropy(rows, weight, target)


def resampling(mode: str) -> Case:
    return images(
        mode, partial(functional.interpolate, scale_factor=2.0, mode=mode), 16, 64, 64, 64
    )


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean, variance = torch.zeros_like(weight), torch.ones_like(weight)
    return functional.batch_norm(x, mean, variance, weight, bias, training=True)


FAST: Sequence[Case] = (
    attention(1024),
    attention(1024, dtype=torch.bfloat16),
    cross_entropy(4096, 50257),
    cross_entropy(4096, 50257, torch.bfloat16),
    Case(
        "linear layer and cross entropy 4096x1024 to 50257",
        linear_loss,
        lambda: {"x": torch.randn(4096, 1024), "w": torch.randn(50257, 1024)},
        lambda: (torch.randint(50257, (4096,)),),
    ),
    embedding(4096, 50257, 1024),
    layer_norm(16384, 1024),
    rms_norm_case(16384, 1024, torch.float32),
    Case(
        "batch norm 64x64x28x28",
        batch_norm,
        lambda: {"x": torch.randn(64, 64, 28, 28), "w": torch.randn(64), "b": torch.randn(64)},
    ),
    softmax(16384, 2048),
    softmax(16384, 2048, logarithm=True),
    resampling("bilinear"),
    resampling("nearest"),
    resampling("bicubic"),
    grid_sampling(16, 64, 128, 128),
    images("max pool", max_pool, 32, 64, 112, 112),
    Case(
        "the 4 largest of 65536x64",
        lambda x: torch.topk(x, 4).values,
        lambda: {"x": torch.randn(65536, 64)},
    ),
)
"""Calls that alternatives for XLA's CPU backend take."""


def _of_alternative(case: Case) -> Training:
    return Training(case.name, partial(of_case, case), decompositions=["stock", "fast for the CPU"])


CASES: Mapping[str, Training] = {
    **{
        f"attention-{length}": Training(
            attention_case(length).name,
            partial(of_case, attention_case(length)),
            partial(attention_in_pytorch, length),
            bar=3.0 if length == 4096 else None,
            flash_bar=0.9,
            fast_bar=2.0 if length == 4096 else None,
        )
        for length in LENGTHS
    },
    **{
        f"gpt-{length}": Training(
            f"GPT d{HEADS * SIZE}, 8 layers, {BATCH}x{length}, bf16",
            partial(of_gpt, length),
            partial(gpt_in_pytorch, length),
            calls=False,
        )
        for length in LENGTHS
    },
    "loss": Training(
        "cross entropy 4096x50257, bf16",
        partial(of_case, cross_entropy(4096, 50257, torch.bfloat16)),
        decompositions=["stock"],
    ),
    "norm": Training(
        "rms norm 16384x4096, bf16",
        partial(of_case, rms_norm_case(16384, 4096)),
        decompositions=["stock"],
    ),
    "adamw": Training(
        "AdamW 4096x4096",
        partial(adamw, 4096),
        partial(adamw_in_pytorch, 4096),
        calls=False,
        decompositions=["stock"],
    ),
    **{f"alternative-{number:02}": _of_alternative(case) for number, case in enumerate(FAST)},
}
"""By the name of the folder that holds the program, but for its decompositions."""


# ---- measuring ----


@dataclass(frozen=True, slots=True)
class Call:
    """A call alone. Times are in seconds."""

    case: str
    composite: str
    decomposition: float
    kernel: float
    difference: float
    """Of the results, relative to the largest value."""

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            self.case,
            self.composite,
            duration(self.decomposition),
            duration(self.kernel),
            f"{self.decomposition / self.kernel:.2f}",
            f"{self.difference:.1e}",
        )


@dataclass(frozen=True, slots=True)
class Trained:
    """A program that trains. Times are in seconds, by column."""

    name: str
    times: Mapping[str, float]
    temporary: Mapping[str, int] = field(default_factory=dict)
    """Bytes, by column."""
    bar: float | None = None
    flash_bar: float | None = None
    fast_bar: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        gain, share = self._ratio("decompositions"), self._ratio("PyTorch, flash")
        fast = self._ratio("decompositions", "fast decompositions")
        return (
            self.name,
            *(duration(self.times[side]) if side in self.times else "" for side in COLUMNS),
            *(_number(gain), _bar(gain, self.bar), _number(share), _bar(share, self.flash_bar)),
            *(_number(fast), _bar(fast, self.fast_bar)),
            *(
                f"{self.temporary[s] / 1e6:,.0f}" if s in self.temporary else ""
                for s in COLUMNS[:3]
            ),
        )

    def _ratio(self, side: str, over: str = "kernels") -> float | None:
        known = {side, over} <= self.times.keys()
        return self.times[side] / self.times[over] if known else None


def duration(seconds: float) -> str:
    """As text, with three digits."""
    unit, scale = next(
        ((unit, scale) for unit, scale in (("µs", 1e6), ("ms", 1e3)) if seconds * scale < 999.5),
        ("s", 1.0),
    )
    return f"{_digits(seconds * scale)} {unit}"


def _digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _bar(value: float | None, bar: float | None) -> str:
    if value is None or bar is None:
        return ""
    return f"{bar:g} {'met' if value >= bar else 'missed'}"


def placed(program: Program, platform: str) -> PlacedKernels:
    """The program with the kernels that are listed for `cuda`."""
    candidates = listed_kernels(program.module, "cuda")
    return place_kernels(program.module, candidates, platform=platform)


def measured_calls(
    name: str, program: Program, seconds: float, platform: str = "cuda"
) -> Iterator[Call]:
    """Each distinct call that has a kernel, alone, on what the program computes from random
    inputs."""
    kernels = placed(program, platform)
    arrays = list(random_inputs(program).values())
    real = real_inputs(program.module, arrays, platform)
    for call, decomposition in outer_calls(program.module):
        if call not in kernels.taken:
            continue
        modules = (
            decomposition_module(program.module, decomposition),
            put_alone(kernels, call, platform),
        )
        executables = [compile_module(module, platform=platform) for module in modules]
        operands = real[call, decomposition].arrays
        expected, found = (each(*operands) for each in executables)
        runs = [_of_arrays(executable, operands) for executable in executables]
        stock, kernel = _seconds(runs, ALONE, seconds)
        yield Call(name, call.name, stock, kernel, error(found, expected))


def measured_training(
    case: Training,
    programs: Mapping[Decompositions, Program],
    seconds: float,
    platform: str = "cuda",
) -> Trained:
    """The programs, stock's with kernels too, and PyTorch if it has a GPU, in turns.

    Args:
        programs: by the name of their decompositions.
    """
    stock = programs["stock"]
    sides = {"decompositions": stock}
    if "fast" in programs:
        sides["fast decompositions"] = programs["fast"]
    sides["kernels"] = replace(stock, module=placed(stock, platform).module)
    runs: dict[str, Run] = {}
    temporary: dict[str, int] = {}
    for side, each in sides.items():
        runs[side], temporary[side] = _of_program(each, platform, whole=not case.calls)
    if case.in_pytorch is not None and torch.cuda.is_available():
        runs |= {side: Run(run, _torch_is_done) for side, run in case.in_pytorch().items()}
    times = _seconds(list(runs.values()), ALONE if case.calls else STEPS, seconds)
    found = dict(zip(runs, times, strict=True))
    return Trained(case.name, found, temporary, case.bar, case.flash_bar, case.fast_bar)


def measured_alternative(
    case: Training, programs: Mapping[Decompositions, Program], seconds: float, platform: str = CUDA
) -> Sequence[str]:
    """A row: the program with stock's decompositions, and with those that are fast on a CPU."""
    runs = [_of_program(each, platform, whole=False)[0] for each in programs.values()]
    stock, fast = _seconds(runs, ALONE, seconds)
    return case.name, duration(stock), duration(fast), _digits(stock / fast)


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


def _torch_is_done(_: object) -> None:
    torch.cuda.synchronize()


def _of_arrays(executable: Executable, arrays: Sequence[Any]) -> Run:
    import jax

    return Run(partial(executable.start, executable.place(*arrays)), jax.block_until_ready)


def _of_program(program: Program, platform: str, *, whole: bool) -> tuple[Run, int]:
    """The program with random inputs, or a step that begins with its weights and goes on; and the
    temporary memory of a run, in bytes."""
    import jax

    given = random_inputs(program)
    if not whole:
        executable = compile_module(program.module, platform=platform)
        return _of_arrays(executable, list(given.values())), executable.temporary_bytes
    step = program.compile(platform, None)
    device = local_devices(platform)[0]
    weights = {name: value for name, value in given.items() if name.startswith(("param", "buffer"))}
    with enable_x64():  # of classes
        batch = {
            name.removeprefix("kwarg:"): jax.device_put(value, device)
            for name, value in given.items()
            if name.startswith("kwarg:")
        }
    current = [step.init(weights)]

    def start() -> object:
        loss, current[0] = step(current[0], **batch)
        return loss, dict(current[0].values)

    return Run(start, jax.block_until_ready), step.temporary_bytes


def random_inputs(program: Program) -> dict[str, Any]:
    """A value for each input, by its name. Parameters are small."""
    random = np.random.default_rng(0)
    found = {}
    for value in program.inputs:
        dtype = numpy_dtype(value.dtype)
        if np.issubdtype(dtype, np.integer):
            found[value.name] = random.integers(0, LABELS, value.sizes).astype(dtype)
            continue
        scale = 0.02 if program_trains(program) else 1.0
        numbers = random.standard_normal(value.sizes, np.float32) * np.float32(scale)
        if value.name.startswith("state:"):  # squares are in it
            numbers = np.abs(numbers)
        found[value.name] = numbers.astype(dtype)
    return found


def program_trains(program: Program) -> bool:
    """Whether it has an optimizer."""
    return any(value.updates is not None for value in program.outputs)


# ---- the command ----


Kind = Literal["training", "calls", "alternatives"]
TABLES: Mapping[Kind, tuple[str, Sequence[str]]] = {
    "training": ("Training", TRAINING_HEAD),
    "calls": ("Single calls", CALLS_HEAD),
    "alternatives": ("Decompositions that are fast on a CPU", ALTERNATIVES_HEAD),
}
"""The title and the head of each table of the page, in its order."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a case has in the tables."""

    device: str
    """The GPU and the versions."""
    name: str
    """A key of `CASES`."""
    rows: Sequence[tuple[Kind, Sequence[str]]]
    """The cells of each row."""


def matching(pattern: str) -> list[str]:
    """The keys of the cases whose key or name has the regular expression.

    Raises:
        SystemExit: there is none.
    """
    keys = [
        key
        for key, case in CASES.items()
        if re.search(pattern, key) or re.search(pattern, case.name)
    ]
    if not keys:
        known = "; ".join(f"{key}: {case.name}" for key, case in CASES.items())
        raise SystemExit(f"--names {pattern!r} matches no case; there are {known}")
    return keys


def prepare(folder: Path, names: Sequence[str]) -> None:
    """Export the programs of these cases, each to a folder of its own. Needs torch_xla."""
    for name in names:
        case = CASES[name]
        for decompositions in case.decompositions:
            path = folder / _folder(name, decompositions)
            case.export(decompositions).save(path)
            print(f"{path}: {case.name}, decompositions: {decompositions}", flush=True)


def _folder(name: str, decompositions: Decompositions) -> str:
    return name + {"stock": "", "fast": "-fast", "fast for the CPU": "-cpu"}[decompositions]


def measure(
    names: Sequence[str],
    *,
    prepared: Path | None,
    seconds: float,
    minutes: float,
    results: Path | None = None,
) -> list[Measured]:
    """Measure these cases but for those that `results` has, and print their rows.

    Args:
        prepared: the folder that `prepare` has written; by default, programs are exported here.
        seconds: for each side of a row.
        minutes: after which no case is begun.
        results: a file of JSON lines, which may have cases from an earlier run.

    Returns:
        The cases of the file and those of this run.

    Raises:
        SystemExit: there is no GPU, a program was not prepared, or the file is from another GPU or
            other versions.
    """
    use_package()
    device = _device()
    known = read(results)
    others = {one.device for one in known} - {device}
    if others:
        raise SystemExit(
            f"{results} is from another machine, {others.pop()} This is {device} Name another file"
            " with --results, since a page is of one machine."
        )
    done = {one.name for one in known}
    names = [name for name in names if name not in done]
    if prepared is not None:
        folders = [_folder(name, each) for name in names for each in CASES[name].decompositions]
        missing = [prepared / folder for folder in folders if not (prepared / folder).is_dir()]
        if missing:
            raise SystemExit(f"{missing[0]} is missing; write it with --prepare {prepared}")
    print(device, flush=True)
    until = time.monotonic() + 60 * minutes
    for position, name in enumerate(names):
        if time.monotonic() > until:
            print(f"{LEFT}: {', '.join(CASES[each].name for each in names[position:])}", flush=True)
            break
        rows = []
        for kind, cells in _rows(name, prepared, seconds):
            print(" | ".join(cells), flush=True)
            rows.append((kind, cells))
        known.append(Measured(device, name, rows))
        records.append(results, known[-1:])
    return known


def _rows(name: str, prepared: Path | None, seconds: float) -> Iterator[tuple[Kind, Sequence[str]]]:
    case = CASES[name]
    programs = {
        each: case.export(each)
        if prepared is None
        else Program.load(prepared / _folder(name, each))
        for each in case.decompositions
    }
    if "fast for the CPU" in programs:
        yield "alternatives", measured_alternative(case, programs, seconds)
        return
    if case.in_pytorch is not None:
        yield "training", measured_training(case, programs, seconds).cells
    if case.calls:
        for call in measured_calls(case.name, programs["stock"], seconds):
            yield "calls", call.cells


def read(path: Path | None) -> list[Measured]:
    """The cases of an earlier run."""
    return [Measured(**found) for found in records.read(path)]


def page(measured: Sequence[Measured]) -> str:
    """The results as Markdown. It names the cases that are missing."""
    found = {one.name: one for one in measured}
    lines = [
        "# Kernels beside decompositions and PyTorch, on a GPU",
        "",
        "Written by `python -m benchmarks.kernels --device cuda`; its head says what is measured.",
        "",
        *dict.fromkeys(one.device for one in measured),
        "",
    ]
    for kind, (title, head) in TABLES.items():
        rows = [
            cells
            for name in CASES
            if name in found
            for given, cells in found[name].rows
            if given == kind
        ]
        if rows:
            lines += [f"## {title}", "", *markdown_table(head, rows), ""]
    left = [case.name for name, case in CASES.items() if name not in found]
    if left:
        lines += [f"{LEFT}: {', '.join(left)}.", ""]
    return "\n".join(lines)


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
    except RunError as found:
        raise SystemExit(
            f"--device cuda needs an NVIDIA GPU; nothing was measured: {found}"
        ) from None
    of_torch = f"torch {torch.__version__}"
    if not torch.cuda.is_available():
        of_torch += " without a GPU, so that its columns are empty"
    return f"{device.device_kind}; jax {jax.__version__}, {of_torch}."
