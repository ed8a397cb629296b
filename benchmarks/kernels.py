"""C++ kernels against the decompositions that they replace, on the CPU through jax's PJRT client.

    python benchmarks/kernels.py [--repeats 30] [--markdown benchmarks/KERNELS.md]

For each composite of a training step, one program that holds it alone is run three times over: as
exported (XLA compiles the decomposition), with a custom call by `to_custom_call`, and with the
kernel bound as decomposition by `bind`. The kernels are those of examples/kernels, plain loops on
one thread. The runs alternate; a time is the least of its samples, the copy of the inputs to the
device left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import jax
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import composites
from lowering.stablehlo import Executable, Module, bind, compile_module, to_custom_call

KERNELS = Path(__file__).parents[1] / "examples" / "kernels" / "activations.py"
COLUMNS = ("composite", "type", "decomposition", "to_custom_call", "bind", "kernel / decomposition")
CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "gelu, erf": (torch.nn.functional.gelu, (512, 3072)),
    "gelu, tanh": (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), (512, 3072)),
    "softmax": (lambda x: x.softmax(-1), (12, 512, 512)),
}


class Forward(torch.nn.Module):
    """One operator."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Gradient(torch.nn.Module):
    """One operator's input as a parameter, so that the program has its backward."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]):
        super().__init__()
        self.function = function
        self.x = torch.nn.Parameter(torch.empty(shape, device="meta"))

    def forward(self, weights: torch.Tensor) -> torch.Tensor:
        return (self.function(self.x) * weights).sum()


def programs(function: Any, shape: tuple[int, ...]) -> dict[str, Module]:
    """By what they hold: the forward alone, and forward with backward."""
    x = torch.empty(shape, device="meta")
    return {
        "forward": composites.export(Forward(function), (x,)).module,
        "forward + backward": composites.export(Gradient(function, shape), (x,), train=True).module,
    }


def variants(module: Module, kernels: Any) -> list[Executable]:
    found = set(composites_of(module))
    targets = {name: target for name, target in kernels.targets.items() if name in found}
    functions = {name: function for name, function in kernels.functions.items() if name in found}
    changed = (module, to_custom_call(module, targets), bind(module, functions, platform="cpu"))
    return [compile_module(each) for each in changed]


def composites_of(module: Module) -> list[str]:
    from lowering.stablehlo import composite_count

    return list(composite_count(module))


def measure(executables: Sequence[Executable], shape: tuple[int, ...], repeats: int) -> list[float]:
    random = np.random.default_rng(0)
    best = [float("inf")] * len(executables)
    arrays = [
        jax.device_put(random.standard_normal(shape, np.float32), executables[0].device)
        for _ in executables[0].inputs
    ]
    for sample in range(repeats + 1):
        for number, executable in enumerate(executables):
            start = time.perf_counter()
            results = executable.loaded.execute_sharded(arrays)
            for shards in results.disassemble_into_single_device_arrays():
                shards[0].block_until_ready()
            elapsed = time.perf_counter() - start
            if sample:  # the first one warms up
                best[number] = min(best[number], elapsed)
    return best


def load_kernels() -> Any:
    spec = importlib.util.spec_from_file_location("activations", KERNELS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load()


def markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [
        "# C++ kernels against decompositions",
        "",
        f"Written by `python benchmarks/kernels.py`, whose head says how it measures. jax"
        f" {jax.__version__}; CPU with {os.cpu_count()} cores.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * len(COLUMNS) + "|",
    ]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    kernels = load_kernels()
    rows = []
    for name, (function, shape) in CASES.items():
        for what, module in programs(function, shape).items():
            times = measure(variants(module, kernels), shape, options.repeats)
            written = [f"{seconds * 1e3:.2f} ms" for seconds in times]
            type_ = f"f32[{','.join(map(str, shape))}]"
            rows.append([f"{name}, {what}", type_, *written, f"{times[1] / times[0]:.2f}"])
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if options.markdown:
        options.markdown.write_text(markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
