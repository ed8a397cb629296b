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

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch

import composites
from benchmarks.harness import memory
from benchmarks.harness.pages import markdown_table, page, publish
from benchmarks.harness.processes import alone, environment, xla_flags
from benchmarks.harness.runs import chosen, parser_of
from benchmarks.harness.timing import conditions, kept
from benchmarks.kernel_cases import STEPS, StepCase
from benchmarks.kernels import (
    OPTIMIZER,
    Build,
    Run,
    eager,
    of_step,
    on_torch_xla,
    use_package,
)
from benchmarks.training_steps import Batch, causal_gpt

MEMORY_SIDES = ("torch_xla", "decompositions", "kernels")
LOSS_SIDES = ("eager", "decompositions", "kernels")
MEMORY_BAR = 1.05
LOSS_BAR = 1e-4
GPT = StepCase("GPT d128, 2 layers, L 256, 512 tokens", partial(causal_gpt, 256, 512, 128, 2))
CASES = {case.name: case for case in (*STEPS, GPT)}

# ---- one side, in its own process ----


def learnable(case: StepCase) -> tuple[torch.nn.Module, Batch]:
    """The module and its batch, whose labels, where it has some, are functions of its tokens."""
    torch.manual_seed(0)
    module, batch = case.build()
    if case is GPT:
        batch = {**batch, "labels": (batch["tokens"] * 7 + 3) % 512}
    return module.train(), batch


def exported(build: Build, kernels: str | None) -> Run:
    """The exported step, with kernels or without."""
    use_package()
    module, batch = build()
    step = composites.export(module, (), kwargs=dict(batch), optimizer=OPTIMIZER).compile(
        "cpu", kernels
    )
    taken = sum(use.count for use in step.kernels if use.kernel is not None)
    if (taken > 0) != (kernels is not None):
        raise RuntimeError(f"{taken} calls have kernels")
    return of_step(step, module, batch)


MAKERS: Mapping[str, Callable[[Build], Run]] = {
    "eager": eager,
    "torch_xla": on_torch_xla,
    "decompositions": partial(exported, kernels=None),
    "kernels": partial(exported, kernels="auto"),
}


def run_side(side: str, name: str, steps: int, folder: str) -> tuple[list[float], int | None]:
    """The losses of steps, and the bytes of the last program. From the second step on, the program
    of torch_xla has the optimizer's state."""
    step = MAKERS[side](partial(learnable, CASES[name]))
    losses = [float(step()) for _ in range(steps)]
    return losses, memory.of_last_program(Path(folder))


def in_process(side: str, case: StepCase, steps: int) -> tuple[list[float], int | None]:
    """The same in a process of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        environment(xla_flags(memory.DUMP.format(folder=folder))),
    ):
        return alone(run_side, side, case.name, steps, folder)


# ---- tables ----


MEMORY_HEAD = ("step", *MEMORY_SIDES, "kernels / torch_xla", "bar")
LOSS_HEAD = ("after steps", *LOSS_SIDES, "kernels beside decompositions", "bar")


def memory_row(case: StepCase) -> tuple[str, ...]:
    """The bytes of the second step, of each side."""
    sizes = [in_process(side, case, 2)[1] or 0 for side in MEMORY_SIDES]
    ratio = sizes[MEMORY_SIDES.index("kernels")] / sizes[MEMORY_SIDES.index("torch_xla")]
    written = (f"{size / 1e6:,.0f} MB" for size in sizes)
    return case.name, *written, f"{ratio:.2f}", kept(ratio, MEMORY_BAR)


def loss_rows(case: StepCase, steps: int) -> Iterator[tuple[str, ...]]:
    """The losses of some of the steps, of each side."""
    losses = [in_process(side, case, steps)[0] for side in LOSS_SIDES]
    for number in sorted({1, steps // 4, steps // 2, steps} - {0}):
        row = [of_side[number - 1] for of_side in losses]
        apart = abs(row[2] - row[1])
        bar = kept(apart, LOSS_BAR) if number == steps else ""
        yield str(number), *(f"{loss:.6f}" for loss in row), f"{apart:.1e}", bar


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    names = chosen(CASES, options.names)
    by_memory = [memory_row(case) for case in STEPS if case.name in names]
    by_loss = list(loss_rows(GPT, options.steps)) if GPT.name in names else []
    text = page(
        "Training with kernels, on the CPU",
        "Written by `python -m benchmarks.kernel_training`, whose head says what is measured.",
        conditions("each side in a process of its own"),
        "## Memory",
        markdown_table(MEMORY_HEAD, by_memory),
        "## Losses",
        f"{GPT.name}, AdamW.",
        markdown_table(LOSS_HEAD, by_loss),
    )
    publish(text, options.markdown)


if __name__ == "__main__":
    main()
