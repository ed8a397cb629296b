"""What kernels of examples/cpu_kernels do to training over many steps, and to its memory.

    python -m benchmarks.kernel_training [--steps 200] [--names REGEX]
        [--markdown benchmarks/KERNEL_TRAINING.md]

- memory: the buffers of one training step with AdamW, by XLA's own statistics: live on torch_xla,
  and exported and donated, without kernels and with them. What a kernel allocates for itself is not
  in them.
- losses: a small GPT over many steps from the same weights, on data that it can learn, with PyTorch
  on the CPU, without kernels and with them.

Each side runs in a process of its own, since XLA's reports are those of a process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch

import composites
from benchmarks import memory
from benchmarks.calls import UPDATE
from benchmarks.kernel_cases import STEPS, StepCase
from benchmarks.kernels import use_package
from benchmarks.pages import markdown_table
from benchmarks.timing import conditions
from benchmarks.training_steps import Training, causal_gpt

MEMORY_SIDES = ("torch_xla", "decompositions", "kernels")
LOSS_SIDES = ("eager", "decompositions", "kernels")
MEMORY_BAR = 1.05
LOSS_BAR = 1e-4
GPT = StepCase("GPT d128, 2 layers, L 256, 512 tokens", partial(causal_gpt, 256, 512, 128, 2))
CASES = {case.name: case for case in (*STEPS, GPT)}

Step = Callable[[], float]
"""Runs one training step, and returns its loss."""


# ---- one side, in its own process ----


def learnable(case: StepCase) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """The module and its batch, whose labels, where it has some, are functions of its tokens."""
    torch.manual_seed(0)
    module, batch = case.build()
    found = dict(batch)
    if case is GPT:
        found["labels"] = (found["tokens"] * 7 + 3) % 512
    return module.train(), found


def eager(case: StepCase) -> Step:
    placed = Training(partial(learnable, case)).placed(lambda tensor: tensor)
    return lambda: float(placed.traced(UPDATE)[0])


def live(case: StepCase) -> Step:
    import torch_xla

    placed = Training(partial(learnable, case)).placed(lambda tensor: tensor.to("xla"))
    torch_xla.sync(wait=True)

    def run() -> float:
        (loss,) = placed.traced(UPDATE)
        torch_xla.sync(wait=True)
        return float(loss)

    return run


def exported(case: StepCase, kernels: str | None) -> Step:
    use_package()
    module, batch = learnable(case)
    optimizer = partial(torch.optim.AdamW, lr=1e-3)
    program = composites.export(module, (), kwargs=batch, optimizer=optimizer)
    step = program.compile("cpu", kernels)
    taken = sum(use.count for use in step.kernels if use.kernel is not None)
    if (taken > 0) != (kernels is not None):
        raise RuntimeError(f"{taken} calls of {case.name} have kernels")
    state = [step.init(module)]

    def run() -> float:
        outputs, state[0] = step(state[0], **batch)
        return float(outputs["loss"] if isinstance(outputs, Mapping) else outputs)

    return run


MAKERS: Mapping[str, Callable[[StepCase], Step]] = {
    "eager": eager,
    "torch_xla": live,
    "decompositions": partial(exported, kernels=None),
    "kernels": partial(exported, kernels="auto"),
}


def run_side(side: str, case: StepCase, steps: int, dump: str) -> dict[str, Any]:
    """The losses of a number of steps, or of two: from the second one on, torch_xla's program has
    the optimizer's state."""
    step = MAKERS[side](case)
    losses = [step() for _ in range(steps or 2)]
    return {"losses": losses, "bytes": memory.of_last_program(Path(dump)) if dump else None}


def in_process(side: str, case: StepCase, steps: int = 0) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        arguments = ["--side", side, "--case", case.name, "--steps", str(steps)]
        if not steps:
            flags = f"{environment.get('XLA_FLAGS', '')} {memory.DUMP.format(folder=folder)}"
            environment["XLA_FLAGS"] = flags.strip()
            arguments += ["--dump", folder]
        command = [sys.executable, "-m", "benchmarks.kernel_training", *arguments]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---- tables ----


@dataclass(frozen=True, slots=True)
class Memory:
    case: str
    bytes: Mapping[str, int]

    @property
    def cells(self) -> tuple[str, ...]:
        ratio = self.bytes["kernels"] / self.bytes["torch_xla"]
        return (
            self.case,
            *(f"{self.bytes[side] / 1e6:,.0f} MB" for side in MEMORY_SIDES),
            f"{ratio:.2f}",
            f"{MEMORY_BAR} " + ("met" if ratio <= MEMORY_BAR else "missed"),
        )


def memories(cases: Sequence[StepCase]) -> Iterator[Memory]:
    for case in cases:
        yield Memory(case.name, {side: in_process(side, case)["bytes"] for side in MEMORY_SIDES})


def loss_rows(case: StepCase, steps: int) -> Iterator[tuple[str, ...]]:
    losses = {side: in_process(side, case, steps)["losses"] for side in LOSS_SIDES}
    for number in sorted({1, steps // 4, steps // 2, steps}):
        row = [losses[side][number - 1] for side in LOSS_SIDES]
        apart = abs(row[2] - row[1])
        bar = ""
        if number == steps:
            bar = f"{LOSS_BAR:g} " + ("met" if apart <= LOSS_BAR else "missed")
        yield str(number), *(f"{loss:.6f}" for loss in row), f"{apart:.1e}", bar


MEMORY_HEAD = ("step", *MEMORY_SIDES, "kernels / torch_xla", "bar")
LOSS_HEAD = ("after steps", *LOSS_SIDES, "kernels beside decompositions", "bar")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--names", default="", help="only rows whose name matches")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--side", choices=sorted(MAKERS), help=argparse.SUPPRESS)
    parser.add_argument("--case", choices=sorted(CASES), help=argparse.SUPPRESS)
    parser.add_argument("--dump", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(options.side, CASES[options.case], options.steps, options.dump)))
        return
    chosen = [case for case in STEPS if re.search(options.names, case.name)]
    by_memory = [found.cells for found in memories(chosen)]
    by_loss = list(loss_rows(GPT, options.steps)) if re.search(options.names, GPT.name) else []
    lines = [
        "# Training with kernels, on the CPU",
        "",
        "Written by `python -m benchmarks.kernel_training`, whose head says what is measured.",
        "",
        conditions("each side in a process of its own"),
        "",
        "## Memory",
        "",
        *markdown_table(MEMORY_HEAD, by_memory),
        "",
        "## Losses",
        "",
        f"{GPT.name}, AdamW.",
        "",
        *markdown_table(LOSS_HEAD, by_loss),
    ]
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
