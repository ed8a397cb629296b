"""`composites.export`: a module's inference or training step as StableHLO with composites.

    module, example inputs
        -> placeholders for every parameter, buffer, argument and optimizer state
        -> the module's own Python runs on them: forward, loss.backward(), optimizer.step()
        -> the recorded graph as StableHLO, cleaned, with names for inputs and outputs

Nothing is executed and no weight is copied, because placeholders have shapes but no data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch

from composites.errors import ExportError
from lowering import activation
from lowering.export.manifest import Value
from lowering.export.program import Program
from lowering.export.tracing import (
    Lowered,
    OptimizerFactory,
    graph_of,
    recording_of,
    trace_inference,
    trace_training,
)
from lowering.stablehlo import (
    Pass,
    clean_passes,
    expand_batch_norm_grad,
    legalize_chlo,
    legalize_reduce_inits,
    rename_decompositions,
    run_passes,
    unshare_decompositions,
)


def export(
    module: torch.nn.Module | torch.export.ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    train: bool = False,
    optimizer: OptimizerFactory | None = None,
    ops: Sequence[str] | None = None,
    decompositions: str | None = None,
    passes: Sequence[Pass] = (),
    share_decompositions: bool = True,
    portable: bool = False,
) -> Program:
    """Export a module's inference, its gradients, or a whole training step.

    Buffers and arguments that the module writes to are also outputs. Small tensors that it makes
    itself become constants. Other threads must not build graphs during an export, because these
    would be recorded too.

    Args:
        module: on any device, including `meta`. Its training mode is not changed. An
            `ExportedProgram` is accepted for inference.
        args: example arguments. Only shapes and dtypes of tensors are read. Other values become
            constants of the program.
        kwargs: example keyword arguments, treated in the same way.
        train: whether to export a training step. The module must return a scalar loss (a tensor, an
            object with `.loss`, or a tuple that starts with it). The program returns the loss and
            the gradient of every parameter that requires one.
        optimizer: makes an optimizer from parameters, such as `partial(torch.optim.AdamW,
            lr=1e-3)`. The program then also returns the updated parameters and optimizer state.
            Implies `train`.
        ops: composites to turn on, as in XLA_COMPOSITE_OP; by default the active ones, or all if
            none is active.
        decompositions: which decompositions they have, as in XLA_COMPOSITE_DECOMPOSITION, such as
            `fast`; by default those that are active.
        passes: functions from module to module that run on the result.
        share_decompositions: use one function for all equal decompositions. Otherwise each call
            gets its own function, which some consumers use to group operations.
        portable: remove operations that consumers are known to lack: CHLO, the gradient of batch
            norm, and maxima that start from the last finite number.

    Raises:
        ExportError: the loss is not a scalar, the module reads values while it runs, or it computes
            with a large tensor that is not an input.
    """
    train = train or optimizer is not None
    if train and isinstance(module, torch.export.ExportedProgram):
        raise ExportError("an ExportedProgram only supports inference; pass the module itself")
    if isinstance(args, torch.Tensor):
        raise ExportError("args must be a tuple of arguments; write (tensor,) for a single one")
    with _progress() as step, activation.for_export(ops, decompositions):
        frontend = activation.backend().frontend
        step("tracing")
        if isinstance(module, torch.export.ExportedProgram):
            module = graph_of(module, frontend.tensors)
        if train:
            traced = trace_training(frontend, module, args, kwargs or {}, optimizer)
        else:
            traced = trace_inference(frontend, module, args, kwargs or {})
        step("lowering to StableHLO")
        recorded = traced.lower(recording_of(frontend))
        step("cleaning")
        if recorded.clean:
            sharing = [] if share_decompositions else [unshare_decompositions]
            cleaning: list[Pass] = [*sharing, rename_decompositions]
        else:
            cleaning = clean_passes(share=share_decompositions)
        graph = run_passes(recorded.module, cleaning, verify=False)  # verified once, below
        last = [legalize_chlo, expand_batch_norm_grad, legalize_reduce_inits] if portable else []
        lowered = run_passes(graph, [*passes, *last])
    return Program(lowered, recorded.inputs, _outputs(recorded))


def _outputs(recorded: Lowered) -> tuple[Value, ...]:
    """The outputs of `@main`.

    Where the module writes to a tensor that it does not read, there is no input to update. Where it
    puts a tensor of another type in the place of one, this is not the input's next value.
    """
    of_inputs = {value.name: value.type for value in recorded.inputs}
    return tuple(
        value
        if value.updates is not None and of_inputs.get(value.updates) == value.type
        else replace(value, updates=None)
        for value in recorded.outputs
    )


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show the current step on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield lambda description: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("export")
        yield lambda description: progress.update(task, description=description)
