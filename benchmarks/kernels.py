"""Kernels beside the decompositions that they replace: examples/cpu_kernels on the CPU.

    python -m benchmarks.kernels [--parts calls,growing,updates,steps,others] [--names REGEX]
        [--seconds 2] [--repeats 8] [--budget 150] [--results FILE]
        [--markdown benchmarks/KERNELS.md]

- calls: each distinct call of a composite alone, with stock's decomposition, with the faster
  alternative where the entry has one, and with the kernel.
- growing: the same calls at growing sizes; where the kernel is faster than both others, and where
  it is faster than the decomposition alone, so that it pays behind the faster alternative. The
  registry of examples/cpu_kernels records both as conditions, by which `kernels="auto"` chooses.
- updates: AdamW of one parameter in a step that owns its state, whose gradient is given. No kernel
  takes it: XLA's own loops beside PyTorch's fused one, and beside the bound for gradient,
  parameter and both averages.
- steps: whole training steps with AdamW: the exported program with stock's decompositions, with
  kernels alone, and as `auto` chooses kernels and faster alternatives; PyTorch eager,
  torch.compile, and torch_xla.
  The products of `auto` are also measured alone, in XLA and in PyTorch, and page faults are
  counted: where another side is faster, the page has both. Fresh memory, which Linux clears at
  each page fault, is a part of XLA's time that docs/usage.md says how to save.
- others: programs that nothing was tuned for, with stock's decompositions and on `auto`.

With `--results`, cases are written to a file of JSON lines as soon as they are known, and cases
that are in it are not measured again.

On a GPU, the kernels are those of examples/gpu_kernels:

    python -m benchmarks.kernels --device cuda --prepare FOLDER
    python -m benchmarks.kernels --device cuda --prepared FOLDER [--names REGEX] [--minutes 9]
        [--seconds 2] [--results FILE] [--markdown FILE]

- The first one exports the programs, and needs torch_xla but no GPU. The second one runs them, and
  needs jax for CUDA and what this package needs, but no torch_xla. With a torch for CUDA, it also
  measures PyTorch. Carry the repository, FOLDER (some MB) and a folder of wheels to the machine,
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
median of its runs; those of a training step alternate in blocks, as benchmarks/timing.py says. The
bound is the time in which this machine copies the bytes of operands and results.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch

import composites
from benchmarks import gpu_kernels, records
from benchmarks.kernel_cases import (
    CASES,
    GROWING,
    OTHERS,
    STEPS,
    UPDATES,
    Case,
    Growing,
    StepCase,
    Updated,
)
from benchmarks.pages import markdown_table
from benchmarks.products import times_of_products
from benchmarks.timing import (
    Ratio,
    affordable,
    alternated,
    conditions,
    milliseconds,
    ratio,
    samples_of,
    settings_of_malloc,
    typical,
)
from composites.functions import find_function
from composites.registry.listed_kernels import all_listed
from lowering.export.arrays import array
from lowering.stablehlo import Module, compile_module
from lowering.stablehlo.comparison.difference import error
from lowering.stablehlo.comparison.inputs import real_inputs
from lowering.stablehlo.comparison.isolate import decomposition_module
from lowering.stablehlo.comparison.timing import machine, median_times, times_in_turns
from lowering.stablehlo.composites import Signature
from lowering.stablehlo.kernels import Candidate, outer_calls, place_kernels, put_alone

PACKAGE = Path(__file__).parents[1] / "examples" / "cpu_kernels" / "src"
FEWEST = 3
"""Blocks of steps on each side, however long they take."""
PRODUCT_SECONDS = 1.0
"""For each distinct product of a step, in XLA and in PyTorch."""
SIDES = ("decompositions", "auto", "kernels", "eager", "torch.compile", "torch_xla")


def use_package() -> None:
    """Let this process find the kernels as if their package were installed."""
    sys.path.insert(0, str(PACKAGE))
    os.environ["XLA_COMPOSITE_REGISTRY"] = str(PACKAGE / "cpu_kernels" / "registry.yaml")


@dataclass(frozen=True, slots=True)
class Call:
    """A call alone. Times are in seconds."""

    case: str
    composite: str
    stock: float
    faster: float | None
    """Of the alternative that `decompositions="fast"` takes, where there is one."""
    kernel: float | None
    """None where no kernel takes the call."""
    bound: float
    difference: float | None
    """Of the kernel's results and the decomposition's, relative to the largest value."""
    bar: float | None

    @property
    def gain(self) -> float | None:
        """How many times faster the kernel is than stock's decomposition."""
        return None if self.kernel is None else self.stock / self.kernel

    @property
    def pays(self) -> bool:
        """Whether the kernel is faster than both others."""
        others = min(self.stock, self.faster or self.stock)
        return self.kernel is not None and self.kernel < others


@dataclass(frozen=True, slots=True)
class Growth:
    """The calls of one composite at growing sizes."""

    composite: str
    size: str
    gains: Mapping[int, float]
    """By size: how many times faster the kernel is than the fastest other."""
    over_stock: Mapping[int, float]
    """By size: how many times faster it is than stock's decomposition."""

    @property
    def first(self) -> str:
        """Where the kernel pays, as a registry says it."""
        return self._where(self.gains)

    @property
    def behind(self) -> str:
        """Where it pays if the faster alternative does not take the call. Empty where this is no
        other condition. A registry lists it again for these, with a negative priority."""
        found = self._where(self.over_stock)
        return "" if found == self.first else found

    def _where(self, gains: Mapping[int, float]) -> str:
        sizes = sorted(gains)
        runs: list[list[int]] = []
        for before, size in zip([None, *sizes], sizes, strict=False):
            if gains[size] < 1:
                continue
            if before is not None and runs and runs[-1][-1] == before:
                runs[-1].append(size)
            else:
                runs.append([size])
        return " or ".join(self._between(run[0], run[-1], sizes) for run in runs) or "never"

    def _between(self, least: int, most: int, sizes: Sequence[int]) -> str:
        """A condition for sizes of a run. It has no end at the largest one that was measured."""
        if most == sizes[-1]:
            return f"{self.size} >= {least}"
        return f"{least} <= {self.size} <= {most}"


@dataclass(frozen=True, slots=True)
class Update:
    """An update of one parameter by AdamW. Times are in seconds."""

    shape: str
    step: float
    """Of the donated step."""
    fused: float
    """Of PyTorch's `AdamW(fused=True)`."""
    bound: float

    @property
    def excess(self) -> float:
        """How many times longer than the bound the step takes."""
        return self.step / self.bound


@dataclass(frozen=True, slots=True)
class Stepped:
    """A training step."""

    name: str
    blocks: Mapping[str, Sequence[Sequence[float]]]
    """Seconds, by side."""
    taken: int
    """Calls of composites that have a kernel, of the side `auto`."""
    faster: int
    """Calls that have a faster alternative, of the same side."""
    bar: float | None
    products: tuple[float, float] | None = None
    """Seconds that the products of `auto` take alone, in XLA and in PyTorch."""
    faults: Mapping[str, int] | None = None
    """Page faults of a step, by side: how often it writes to a page of memory that is fresh."""

    @property
    def fastest(self) -> str:
        """The side that takes the least time, of those that a user can choose."""
        users = {side: time for side, time in self.times.items() if side != "decompositions"}
        return min(users, key=lambda side: users[side])

    @property
    def times(self) -> dict[str, float]:
        """Seconds of a step, by side."""
        return {side: typical(blocks) for side, blocks in self.blocks.items()}

    @property
    def gain(self) -> Ratio:
        """The time with stock's decompositions to that of `auto`."""
        return ratio(self.blocks["auto"], self.blocks["decompositions"])


Part = Literal["calls", "growing", "updates", "steps", "others"]
Row = Call | Growth | Update | Stepped
KINDS: Mapping[Part, type[Row]] = {
    "calls": Call,
    "growing": Growth,
    "updates": Update,
    "steps": Stepped,
    "others": Stepped,
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What one case of a part has given."""

    part: Part
    name: str
    rows: Sequence[Row]


# ---- calls ----


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
        plain = decomposition_module(stock.module, name)
        modules: dict[str, Module] = {"stock": plain}
        if _key(call) in alternatives:
            other = decomposition_module(faster, alternatives[_key(call)])
            if other.text != plain.text:
                modules["faster"] = other
        if call in placed.taken:
            modules["kernel"] = put_alone(placed, call, "cpu")
        executables = [compile_module(each, platform="cpu") for each in modules.values()]
        operands = real[call, name].arrays
        results = dict(zip(modules, (each(*operands) for each in executables), strict=True))
        times = dict(
            zip(modules, median_times(executables, operands, seconds=seconds), strict=True)
        )
        bytes_ = sum(np.asarray(each).nbytes for each in (*operands, *results["stock"]))
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
    others = iter(batch)
    given = [named[value.name] if value.name in named else next(others) for value in program.inputs]
    return [
        np.asarray(array(value.name, tensor))
        for value, tensor in zip(program.inputs, given, strict=True)
    ]


def growth(growing: Growing, seconds: float) -> Iterator[Growth]:
    """Where the kernels of some composites pay."""
    gains: dict[str, dict[int, float]] = {name: {} for name in growing.full_names}
    over_stock: dict[str, dict[int, float]] = {name: {} for name in growing.full_names}
    for case in growing.cases:
        for call in measured_calls(case, seconds):
            if call.composite in gains and call.kernel is not None:
                fastest = min(call.stock, call.faster or call.stock)
                size = growing.measure(case)
                gains[call.composite][size] = fastest / call.kernel
                over_stock[call.composite][size] = call.stock / call.kernel
    for name, found in gains.items():
        yield Growth(name, growing.size, found, over_stock[name])


# ---- updates ----


def measured_update(shape: tuple[int, ...], seconds: float) -> Update:
    """XLA's own update in a donated step, and PyTorch's fused one, in turns."""
    import jax

    torch.manual_seed(0)
    module, gradient = Updated(*shape), torch.randn(shape)
    optimizer = partial(torch.optim.AdamW, lr=1e-3)
    batch = {"gradient": gradient}
    program = composites.export(module, (), kwargs=batch, optimizer=optimizer)
    placed = {"gradient": jax.numpy.asarray(gradient.numpy())}
    fused = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)
    run = _of_step(program.compile("cpu", None), module, placed)
    module.parameter.grad = gradient
    runs: list[Callable[[], object]] = [run, fused.step]
    of_step, of_fused = map(median, times_in_turns(runs, seconds))
    # Parameter, gradient and two averages are read, and three of them written.
    bytes_ = 7 * gradient.nbytes
    name = "x".join(map(str, shape))
    return Update(name, of_step, of_fused, bytes_ / machine("cpu").copy_bandwidth)


# ---- steps ----


def measured_step(
    case: StepCase, repeats: int, budget: float, sides: Sequence[str] = SIDES
) -> Stepped:
    """All sides of a training step, in alternating blocks: each as its own training loop has it,
    and not as it is just after another side has filled the caches."""
    torch.manual_seed(0)
    module, batch = case.build()
    optimizer = partial(torch.optim.AdamW, lr=1e-3)
    program = composites.export(module, (), kwargs=dict(batch), optimizer=optimizer)
    steps = {"decompositions": program.compile("cpu", None), "auto": program.compile("cpu")}
    if "kernels" in sides:
        listed = sorted({kernel.composite for kernel in all_listed() if kernel.platform == "cpu"})
        named = [name for name in listed if name in program.composites]
        steps["kernels"] = program.compile("cpu", named)
    runs: dict[str, Callable[[], object]] = {
        side: _of_step(step, module, batch) for side, step in steps.items()
    }
    makers = {"eager": _eager, "torch.compile": _compiled, "torch_xla": _torch_xla}
    runs |= {side: maker(case) for side, maker in makers.items() if side in sides}
    called = [partial(samples_of, run) for run in runs.values()]
    together = sum(min(each(1)) for each in called)
    blocks = alternated(called, *affordable(together, budget, FEWEST, repeats))
    uses = steps["auto"].kernels
    taken = sum(use.count for use in uses if use.kernel is not None)
    faster = sum(use.count for use in uses if use.alternative is not None)
    of_sides = dict(zip(runs, blocks, strict=True))
    products = None
    if "eager" in sides:
        products = times_of_products(steps["auto"].module, PRODUCT_SECONDS)
    faults = {side: _page_faults(run) for side, run in runs.items()}
    return Stepped(case.name, of_sides, taken, faster, case.bar, products, faults)


def _page_faults(run: Callable[[], object]) -> int:
    run()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    run()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _of_step(step: Any, module: torch.nn.Module, batch: Mapping[str, Any]) -> Callable[[], object]:
    import jax

    current = [step.init(module)]

    def run() -> None:
        loss, current[0] = step(current[0], **batch)
        jax.block_until_ready((loss, dict(current[0].values)))

    return run


def _eager(
    case: StepCase, wrap: Callable[[Any], Any] = lambda module: module
) -> Callable[[], object]:
    torch.manual_seed(0)
    module, batch = case.build()
    called = wrap(module.train())
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)

    def run() -> None:
        optimizer.zero_grad()
        called(**batch).backward()
        optimizer.step()

    return run


def _compiled(case: StepCase) -> Callable[[], object]:
    return _eager(case, torch.compile)


def _torch_xla(case: StepCase) -> Callable[[], object]:
    import torch_xla
    import torch_xla.core.xla_model as xm

    torch.manual_seed(0)
    module, batch = case.build()
    module = module.train().to("xla")
    placed = {name: tensor.to("xla") for name, tensor in batch.items()}
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)

    def run() -> None:
        optimizer.zero_grad()
        module(**placed).backward()
        optimizer.step()
        torch_xla.sync()
        xm.wait_device_ops()

    return run


# ---- page ----

CALLS_HEAD = (
    *("call", "composite", "decomposition", "faster alternative", "kernel", "bound"),
    *("decomposition / kernel", "bar", "difference"),
)
GROWTH_HEAD = (
    *("composite", "by size: fastest other / kernel", "the kernel pays where"),
    *("behind the alternative", "registry"),
)
UPDATES_HEAD = ("parameter", "donated step", "PyTorch fused", "bound", "step / bound")
STEPS_HEAD = (
    *("step", *SIDES, "calls with kernels", "with alternatives"),
    *("decompositions / auto", "middle half", "bar", "products: XLA", "PyTorch", "fastest"),
)


def call_cells(call: Call) -> tuple[str, ...]:
    return (
        call.case,
        call.composite,
        milliseconds(call.stock),
        "" if call.faster is None else milliseconds(call.faster),
        "" if call.kernel is None else milliseconds(call.kernel),
        milliseconds(call.bound),
        "" if call.gain is None else f"{call.gain:.2f}",
        _bar(call.gain, call.bar),
        "" if call.difference is None else f"{call.difference:.1e}",
    )


def growth_cells(found: Growth) -> tuple[str, ...]:
    gains = ", ".join(f"{size}: {gain:.2f}" for size, gain in sorted(found.gains.items()))
    behind = f"`{found.behind}`" if found.behind else ""
    listed = [
        kernel
        for kernel in all_listed()
        if kernel.composite == found.composite and kernel.platform == "cpu"
    ]
    recorded = (
        " and ".join(f"`{text}`" for text in kernel.when.where) or "always"
        for kernel in sorted(listed, key=lambda kernel: -kernel.priority)
    )
    return found.composite, gains, f"`{found.first}`", behind, ", then ".join(recorded)


def update_cells(update: Update) -> tuple[str, ...]:
    times = map(milliseconds, (update.step, update.fused, update.bound))
    return update.shape, *times, f"{update.excess:.2f}"


def step_cells(step: Stepped) -> tuple[str, ...]:
    return (
        step.name,
        *(milliseconds(step.times[side]) if side in step.times else "" for side in SIDES),
        str(step.taken),
        str(step.faster),
        f"{step.gain.median:.2f}",
        step.gain.middle_half,
        _bar(step.gain.median, step.bar),
        *(("", "") if step.products is None else map(milliseconds, step.products)),
        step.fastest,
    )


def why_not_fastest(step: Stepped) -> str | None:
    """A sentence about a step in which another side is faster than `auto`; None about others."""
    if step.fastest == "auto":
        return None
    less = step.times["auto"] - step.times[step.fastest]
    text = f"{step.name}: {step.fastest} takes {milliseconds(less)} less than auto."
    if step.products is not None:
        in_xla, in_pytorch = step.products
        compared = "less" if in_pytorch < in_xla else "more"
        difference = milliseconds(abs(in_xla - in_pytorch))
        text += f" Products alone take {difference} {compared} in PyTorch than in XLA."
    if step.faults is not None:
        text += (
            f" A step of auto has {step.faults['auto']:,} page faults, and one of {step.fastest}"
            f" {step.faults[step.fastest]:,}."
        )
    return text


def _bar(gain: float | None, bar: float | None) -> str:
    if bar is None:
        return ""
    return f"{bar:g} " + ("met" if gain is not None and gain >= bar else "missed")


CELLS: Mapping[Part, Callable[[Any], tuple[str, ...]]] = {
    "calls": call_cells,
    "growing": growth_cells,
    "updates": update_cells,
    "steps": step_cells,
    "others": step_cells,
}


def title_of_page() -> str:
    """The benchmark is also run with settings of malloc, and the repository has both pages."""
    settings = " with settings of malloc" if settings_of_malloc() else ""
    return f"Kernels beside decompositions{settings}, on the CPU"


def markdown(rows: Mapping[Part, Sequence[Row]], described: str) -> str:
    """The page."""
    text = [
        f"# {title_of_page()}",
        "",
        "Written by `python -m benchmarks.kernels`, whose head says what is measured. The kernels"
        " are those of [`examples/cpu_kernels`](../examples/cpu_kernels/README.md).",
        "",
        described,
        "",
    ]
    sections: Sequence[tuple[str, Sequence[str], Sequence[Part]]] = (
        ("Single calls", CALLS_HEAD, ("calls",)),
        ("Where kernels pay", GROWTH_HEAD, ("growing",)),
        ("Updates of AdamW", UPDATES_HEAD, ("updates",)),
        ("Training steps", STEPS_HEAD, ("steps", "others")),
    )
    for title, head, parts in sections:
        cells = [CELLS[part](row) for part in parts for row in rows.get(part, ())]
        if not cells:
            continue
        text += [f"## {title}", ""]
        if "calls" in parts:
            text += ["![Times](KERNELS.svg)", ""]
        text += [*markdown_table(head, cells), ""]
        steps = [row for part in parts for row in rows.get(part, ()) if isinstance(row, Stepped)]
        for sentence in filter(None, map(why_not_fastest, steps)):
            text += [f"- {sentence}"]
    return "\n".join(text).rstrip("\n") + "\n"


def plot(calls: Sequence[Call], path: Path) -> None:
    """Times of decompositions and kernels, with the bound as a line."""
    from benchmarks.charts import COLOURS, GREY, chart

    height = 0.4 * len(calls) + 1
    with chart(path, (9, height)) as figure:
        axes = figure.add_subplot()
        places = range(len(calls))
        axes.barh(
            [place - 0.2 for place in places],
            [call.stock * 1e3 for call in calls],
            0.38,
            color=COLOURS[2],
            label="decomposition",
        )
        axes.barh(
            [place + 0.2 for place in places],
            [(call.kernel or 0) * 1e3 for call in calls],
            0.38,
            color=COLOURS[0],
            label="kernel",
        )
        for place, call in zip(places, calls, strict=True):
            label = "bound: the bytes are copied" if place == 0 else None
            bound = call.bound * 1e3
            axes.plot([bound, bound], [place - 0.45, place + 0.45], color=GREY, label=label)
        names = [f"{call.case}, {_direction(call)}" for call in calls]
        axes.set_yticks(list(places), names)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlabel("milliseconds")
        axes.legend(frameon=False)


def _direction(call: Call) -> str:
    return "backward" if call.composite.endswith("_backward") else "forward"


def on_gpu(options: argparse.Namespace) -> None:
    """Prepare programs, or measure them."""
    names = gpu_kernels.matching(options.names)
    if options.prepare:
        gpu_kernels.prepare(options.prepare, names)
        return
    measured = gpu_kernels.measure(
        names,
        prepared=options.prepared,
        seconds=options.seconds,
        minutes=options.minutes,
        results=options.results,
    )
    if options.markdown:
        options.markdown.write_text(gpu_kernels.page(measured), encoding="utf-8")


def cases(options: argparse.Namespace) -> Iterator[tuple[Part, str, Callable[[], Iterable[Row]]]]:
    """Of each case its part, its name, and what measures it."""
    for case in CASES:
        yield "calls", case.name, partial(measured_calls, case, options.seconds)
    for growing in GROWING:
        yield "growing", growing.name, partial(growth, growing, options.seconds / 4)
    for shape in UPDATES:
        name = "AdamW " + "x".join(map(str, shape))
        yield "updates", name, partial(_one, measured_update, shape, options.seconds)
    given = options.repeats, options.budget
    for step in STEPS:
        yield "steps", step.name, partial(_one, measured_step, step, *given)
    for other in OTHERS:
        yield "others", other.name, partial(_one, measured_step, other, *given, SIDES[:2])


def _one(measure: Callable[..., Row], *given: Any) -> list[Row]:
    return [measure(*given)]


def read(path: Path | None) -> list[Measured]:
    """The cases of an earlier run."""
    return [
        Measured(found["part"], found["name"], [_row(found["part"], row) for row in found["rows"]])
        for found in records.read(path)
    ]


def _row(part: Part, data: dict[str, Any]) -> Row:
    if part != "growing":
        return KINDS[part](**data)
    # JSON has texts where the mapping has sizes.
    for name in ("gains", "over_stock"):
        data[name] = {int(size): gain for size, gain in data[name].items()}
    return Growth(**data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", default=",".join(KINDS), help="comma-separated")
    parser.add_argument("--names", default="", help="only cases whose name matches")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each side of a call")
    parser.add_argument("--repeats", type=int, default=8, help="blocks of steps on each side")
    parser.add_argument("--budget", type=float, default=150.0, help="seconds for a step, about")
    parser.add_argument("--results", type=Path, help="JSON lines; go on with an earlier run")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--prepare", type=Path, help="with cuda: write programs, measure nothing")
    parser.add_argument("--prepared", type=Path, help="with cuda: read these programs")
    parser.add_argument("--minutes", type=float, default=9.0, help="with cuda: begin none later")
    options = parser.parse_args()
    if options.device == "cuda":
        on_gpu(options)
        return
    parts = options.parts.split(",")
    unknown = [part for part in parts if part not in KINDS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r} (there are {', '.join(KINDS)})")
    use_package()
    known = {(one.part, one.name): one for one in read(options.results)}
    rows: dict[Part, list[Row]] = {part: [] for part in KINDS}
    for part, name, measure in cases(options):
        if part not in parts or not re.search(options.names, name):
            continue
        found = known.get((part, name))
        if found is None:
            found = Measured(part, name, list(measure()))
            records.append(options.results, [found])
        rows[part] += found.rows
        for row in found.rows:
            print(" | ".join(CELLS[part](row)), flush=True)
    if options.markdown:
        busy = f"load {os.getloadavg()[0]:.1f} at the end"
        options.markdown.write_text(markdown(rows, conditions(busy)), encoding="utf-8")
        calls = [row for row in rows["calls"] if isinstance(row, Call)]
        if calls:
            plot(calls, options.markdown.with_suffix(".svg"))


if __name__ == "__main__":
    main()
