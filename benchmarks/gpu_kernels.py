"""Kernels of examples/gpu_kernels beside decompositions and PyTorch, on a GPU.

`benchmarks.kernels --device cuda` runs this; its head says how.

    cases -> exported programs -> a folder            a machine with torch_xla, no GPU needed
    programs with and without kernels -> times        a machine with a GPU, no torch_xla needed
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import composites
from benchmarks.kernel_cases import Case, cross_entropy
from benchmarks.timing import milliseconds
from benchmarks.training_steps import Batch, causal_gpt
from composites import Program
from lowering.export.listed_kernels import listed_kernels
from lowering.stablehlo import RunError, compile_module
from lowering.stablehlo.comparison.difference import error
from lowering.stablehlo.comparison.inputs import real_inputs
from lowering.stablehlo.comparison.isolate import decomposition_module
from lowering.stablehlo.comparison.timing import median_times, times_in_turns
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.kernels import PlacedKernels, outer_calls, place_kernels, put_alone
from lowering.stablehlo.run import local_devices

PACKAGE = Path(__file__).parents[1] / "examples" / "gpu_kernels" / "src"
LENGTHS = (1024, 2048, 4096)
BATCH, HEADS, SIZE = 4, 16, 64
"""Of attention, and of the GPT, whose width is `HEADS * SIZE`."""
LABELS = 1000
"""Random integers are less than this, which all tables and losses here have rows for."""
CALLS_HEAD = (
    "call",
    "composite",
    "decomposition",
    "kernel",
    "decomposition / kernel",
    "difference",
)
TRAINING_HEAD = (
    *("training", "decompositions", "kernels", "PyTorch", "PyTorch, flash"),
    *("decompositions / kernels", "bar", "PyTorch, flash / kernels", "bar"),
)


# ---- cases ----


@dataclass(frozen=True, slots=True)
class Training:
    """A program that trains, and what does the same in PyTorch."""

    name: str
    export: Callable[[], Program]
    in_pytorch: Callable[[], Mapping[str, Callable[[], object]]] | None = None
    """By column: a function that trains once on the GPU."""
    bar: float | None = None
    """How many times faster than the decompositions the kernels are to be."""
    flash_bar: float | None = None
    """The share of the speed of PyTorch's flash attention that the kernels are to have."""
    calls: bool = True
    """Whether its calls are measured alone, or the whole step."""


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


def rms_norm_case(rows: int, size: int) -> Case:
    def operands() -> Mapping[str, Tensor]:
        shapes = {"x": (rows, size), "weight": (size,)}
        return {name: torch.randn(shape).to(torch.bfloat16) for name, shape in shapes.items()}

    def call(x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, [size], weight)

    return Case(f"rms norm {rows}x{size}, bf16", call, operands)


def gpt(length: int, width: int = HEADS * SIZE, layers: int = 8) -> tuple[nn.Module, Batch]:
    """A GPT in bf16, as many sequences as attention has."""
    torch.manual_seed(0)
    module, batch = causal_gpt(length, width=width, layers=layers)
    return module.to(torch.bfloat16), {
        name: tensor.repeat(BATCH, 1) for name, tensor in batch.items()
    }


def adamw(size: int) -> Program:
    """The update of one matrix, with a step that costs little beside it."""

    class Summed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(size, size))

        def forward(self) -> Tensor:
            return self.weight.sum()

    return composites.export(Summed(), (), optimizer=partial(torch.optim.AdamW, lr=1e-3))


def of_case(case: Case) -> Program:
    module, batch = case.build()
    return composites.export(module, batch, train=True)


def of_gpt(length: int) -> Program:
    module, batch = gpt(length)
    optimizer = partial(torch.optim.AdamW, lr=1e-3)
    return composites.export(module, (), kwargs=dict(batch), optimizer=optimizer)


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
        torch.cuda.synchronize()

    def flash() -> None:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            run()

    return {"PyTorch": run, "PyTorch, flash": flash}


def gpt_in_pytorch(length: int) -> Mapping[str, Callable[[], object]]:
    """The step in eager mode, whose attention is PyTorch's own."""
    module, batch = gpt(length)
    module, batch = module.cuda(), {name: tensor.cuda() for name, tensor in batch.items()}
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)

    def run() -> None:
        optimizer.zero_grad()
        module(**batch).backward()
        optimizer.step()
        torch.cuda.synchronize()

    return {"PyTorch": run}


CASES: Mapping[str, Training] = {
    **{
        f"attention-{length}": Training(
            attention_case(length).name,
            partial(lambda n: of_case(attention_case(n)), length),
            partial(attention_in_pytorch, length),
            bar=3.0 if length == 4096 else None,
            flash_bar=0.9,
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
        lambda: of_case(cross_entropy(4096, 50257, torch.bfloat16)),
    ),
    "norm": Training("rms norm 16384x4096, bf16", lambda: of_case(rms_norm_case(16384, 4096))),
    "adamw": Training("AdamW 4096x4096", lambda: adamw(4096)),
}
"""By the name of the folder that holds the program."""


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
            milliseconds(self.decomposition),
            milliseconds(self.kernel),
            f"{self.decomposition / self.kernel:.2f}",
            f"{self.difference:.1e}",
        )


@dataclass(frozen=True, slots=True)
class Trained:
    """A program that trains. Times are in seconds, by column."""

    name: str
    times: Mapping[str, float]
    bar: float | None = None
    flash_bar: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        columns = TRAINING_HEAD[1:5]
        gain, share = self._ratio("decompositions"), self._ratio("PyTorch, flash")
        return (
            self.name,
            *(milliseconds(self.times[side]) if side in self.times else "" for side in columns),
            *(_number(gain), _bar(gain, self.bar), _number(share), _bar(share, self.flash_bar)),
        )

    def _ratio(self, side: str) -> float | None:
        return self.times[side] / self.times["kernels"] if side in self.times else None


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
        stock, kernel = median_times(executables, operands, seconds=seconds)
        yield Call(name, call.name, stock, kernel, error(found, expected))


def measured_training(
    case: Training, program: Program, seconds: float, platform: str = "cuda"
) -> Trained:
    """The program without and with kernels, and PyTorch if it has a GPU, in turns."""
    with_kernels = replace(program, module=placed(program, platform).module)
    runs = {
        side: run_of(each, platform, whole=not case.calls)
        for side, each in (("decompositions", program), ("kernels", with_kernels))
    }
    if case.in_pytorch is not None and torch.cuda.is_available():
        runs |= case.in_pytorch()
    times = map(median, times_in_turns(list(runs.values()), seconds))
    return Trained(case.name, dict(zip(runs, times, strict=True)), case.bar, case.flash_bar)


def run_of(program: Program, platform: str, *, whole: bool) -> Callable[[], object]:
    """A function that runs a program once: a whole step with its state, or only the program."""
    import jax

    given = random_inputs(program)
    if not whole:
        executable = compile_module(program.module, platform=platform)
        buffers = executable.place(*given.values())
        return lambda: executable.execute(buffers)
    step = program.compile(platform, None)
    weights = {name: value for name, value in given.items() if name.startswith(("param", "buffer"))}
    batch = {
        name.removeprefix("kwarg:"): value
        for name, value in given.items()
        if name.startswith("kwarg:")
    }
    current = [step.init(weights)]

    def run() -> None:
        loss, current[0] = step(current[0], **batch)
        jax.block_until_ready((loss, dict(current[0].values)))

    return run


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


@dataclass
class Table:
    """Rows, printed as they come."""

    title: str
    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def add(self, cells: Sequence[str]) -> None:
        self.rows.append(cells)
        print(" | ".join(cells), flush=True)

    @property
    def lines(self) -> list[str]:
        head = ["| " + " | ".join(self.head) + " |", "|---" * len(self.head) + "|"]
        body = ["| " + " | ".join(row) + " |" for row in self.rows]
        return [f"## {self.title}", "", *head, *body, ""]


def prepare(folder: Path, names: Sequence[str]) -> None:
    """Export the programs of these cases, each to a folder of its own. Needs torch_xla."""
    for name in names:
        CASES[name].export().save(folder / name)
        print(f"{folder / name}: {CASES[name].name}", flush=True)


def measure(
    names: Sequence[str], *, prepared: Path | None, seconds: float, minutes: float
) -> list[Table]:
    """Measure these cases.

    Args:
        prepared: the folder that `prepare` has written; by default, programs are exported here.
        seconds: for each side of a row.
        minutes: after which no case is begun.

    Raises:
        SystemExit: there is no GPU, or a program was not prepared.
    """
    use_package()
    described = _device()
    if prepared is not None:
        for name in names:
            if not (prepared / name).is_dir():
                path = prepared / name
                raise SystemExit(f"{path} is missing; write it with --prepare {prepared}")
    print(described, flush=True)
    until = time.monotonic() + 60 * minutes
    calls, training = Table("Single calls", CALLS_HEAD), Table("Training", TRAINING_HEAD)
    for position, name in enumerate(names):
        if time.monotonic() > until:
            print(f"not measured, for want of time: {', '.join(names[position:])}", flush=True)
            break
        case = CASES[name]
        program = case.export() if prepared is None else Program.load(prepared / name)
        if case.in_pytorch is not None:
            training.add(measured_training(case, program, seconds).cells)
        for call in measured_calls(case.name, program, seconds) if case.calls else ():
            calls.add(call.cells)
    return [training, calls]


def page(tables: Sequence[Table]) -> str:
    """The results as Markdown."""
    lines = [
        "# Kernels beside decompositions and PyTorch, on a GPU",
        "",
        "Written by `python -m benchmarks.kernels --device cuda`; its head says what is measured.",
        "",
        _device(),
        "",
    ]
    return "\n".join([*lines, *(line for table in tables if table.rows for line in table.lines)])


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
