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
from functools import partial
from glob import escape
from importlib.util import find_spec
from typing import Any, get_args

import torch

from composites.errors import ExportError
from composites.registry.model import PORTABLE
from lowering import activation
from lowering.export.dynamic_shapes import dynamic_arguments
from lowering.export.manifest import Value
from lowering.export.optimizers import OptimizerFactory, check_factory
from lowering.export.partitioning import annotation
from lowering.export.program import Program
from lowering.export.shardings import DeviceMesh, Form, of_inputs, of_output
from lowering.export.tracing import (
    Lowered,
    graph_of,
    model_name,
    nothing_kept,
    recording_of,
    trace_inference,
    trace_training,
)
from lowering.export.varying_sizes import Recorded, program_for_sizes
from lowering.frontends import chosen
from lowering.stablehlo import (
    Module,
    Pass,
    RefusedOperationError,
    clean_passes,
    rename_decompositions,
    rename_module,
    run_passes,
    target_passes,
    unshare_decompositions,
)
from lowering.stablehlo.passes.annotate_shardings import marks


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
    target: str | None = None,
    portable: bool = False,
    mesh: Any = None,
    shardings: Mapping[str, Any] | None = None,
    sharding_form: Form = "gspmd",
    dynamic_shapes: Any = None,
    frontend: str | None = None,
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
        target: the consumer: `xla`, `cuda`, `iree`, `litert`, or `portable` for all of them.
            Operations that it is known to lack are replaced, and what cannot be is an error. The
            decompositions `fast` and `small` are those that suit it; `cuda` is XLA on NVIDIA's
            GPUs.
        portable: the same as `target="portable"`.
        mesh: devices that share the program: names and sizes of its axes, such as `{"data": 2,
            "model": 4}`, or a mesh of jax or torch_xla. Marks of torch_xla's `mark_sharding` on
            parameters, buffers, arguments and values inside the module are kept.
        shardings: how inputs are divided, by pattern of their names: `{"*.weight": ("model",
            None)}` divides the first dimension of the parameters that the pattern means.
            `arg:0` is an argument. Gradients, updated parameters and optimizer state are divided as
            their parameters are.
        sharding_form: how the StableHLO says this: `gspmd` (`mhlo.sharding`, which both of
            XLA's partitioners read) or `shardy` (`sdy.sharding`).
        dynamic_shapes: dimensions of arguments whose size varies, as torch.export takes them:
            `{"x": {0: torch.export.Dim("batch", max=64)}}`, or a tuple with one item for each
            argument. The program then has `?` in its types, and takes all sizes of these
            `dimensions`. An `ExportedProgram` has its own. For inference only. The module is
            recorded at several sizes; where a size may be 1, a program whose inputs have up to 1
            GiB also runs once on the CPU, to see whether it holds there.
        frontend: what records the program: `xla` (torch_xla), or `fx` (PyTorch and JAX alone). By
            default torch_xla if it is installed. A process has one frontend.

    Raises:
        ExportError: the loss is not a scalar, the module reads values while it runs, it computes
            with a large tensor that is not an input, a sharding does not fit, or it is a different
            program at different sizes.
    """
    _check_arguments(module, ops, passes)
    if optimizer is not None:
        check_factory(optimizer)
    devices = _mesh(mesh, shardings, sharding_form)
    target = _target(target, portable)
    for_target = () if target is None else target_passes(target)
    train = train or optimizer is not None
    if train and isinstance(module, torch.export.ExportedProgram):
        raise ExportError("an ExportedProgram only supports inference; pass the module itself")
    if isinstance(args, torch.Tensor):
        raise ExportError("args must be a tuple of arguments; write (tensor,) for a single one")
    varying = dynamic_arguments(module, args, kwargs or {}, dynamic_shapes)
    if varying is not None:
        _check_may_vary(train, devices, target)
    name = model_name(module)
    keeps = decompositions is not None or activation.has_chosen_decompositions()
    with (
        chosen.choosing(frontend),
        _progress() as step,
        activation.for_export(ops, decompositions, target),
    ):
        parts = activation.backend().frontend
        if isinstance(module, torch.export.ExportedProgram):
            module = graph_of(module, parts.tensors)  # its class is one of torch.fx

        def record(
            args: Sequence[Any], kwargs: Mapping[str, Any], *, located: bool = False
        ) -> Recorded:
            shared = devices is not None
            step("tracing")
            with nothing_kept(parts, module):
                if train:
                    traced = trace_training(parts, module, args, kwargs, optimizer, shared=shared)
                else:
                    traced = trace_inference(parts, module, args, kwargs, shared=shared)
                step("lowering to StableHLO")
                recorded = traced.lower(recording_of(parts), located=located)
            step("cleaning")
            inputs, outputs = _sharded(
                recorded.inputs, _outputs(recorded), traced.marks, devices, shardings or {}
            )
            cleaning = _cleaning(recorded, share_decompositions, name)
            if devices is None:
                _check_unmarked(recorded.module)
            else:
                cleaning.append(annotation(inputs, outputs, devices, sharding_form))
            # Verified once, below.
            return Recorded(run_passes(recorded.module, cleaning, verify=False), inputs, outputs)

        if varying is None:
            found = record(args, kwargs or {})
            lowering = [*passes, *for_target]
            try:
                lowered = run_passes(found.module, lowering)
            except RefusedOperationError as error:
                with recording_of(parts).located():
                    again = partial(record, args, kwargs or {}, located=True)
                    raise _with_source(error, again, lowering) from None
            return Program(
                lowered, found.inputs, found.outputs, devices, keeps_decompositions=keeps
            )
        general = program_for_sizes(record, varying)
        cleaned = run_passes(general.module, [rename_decompositions, *passes])
        return Program(
            cleaned,
            general.inputs,
            general.outputs,
            dimensions=general.dimensions,
            keeps_decompositions=keeps,
        )


def _check_arguments(module: object, ops: object, passes: Sequence[object]) -> None:
    """Refuse what is another argument by mistake, before anything is recorded."""
    if not isinstance(module, torch.nn.Module | torch.export.ExportedProgram):
        what = module.__name__ if isinstance(module, type) else f"a {type(module).__name__}"
        raise ExportError(
            f"the first argument is {what}, and an export takes a torch.nn.Module, whose forward"
            " it calls, or an ExportedProgram"
        )
    if isinstance(ops, str):
        raise ExportError(f"ops must be a list of names; write ops=[{ops!r}]")
    for each in passes:
        if not callable(each):
            raise ExportError(
                f"a pass is a function from module to module, such as lowering.stablehlo.clean, not"
                f" {each!r}"
            )


def _with_source(
    error: RefusedOperationError, again: Callable[[], Recorded], passes: Sequence[Pass]
) -> RefusedOperationError:
    """The refusal of such an operation in the same module, recorded again with locations. Where
    that is not possible, it is the same refusal."""
    try:
        run_passes(again().module, passes)
    except RefusedOperationError as first:
        for found in (first, *first.others):
            if found.operation == error.operation and found.source:
                return found
    except Exception:  # whatever a search for the source meets, the refusal stays what it is
        return error
    return error


def _cleaning(recorded: Lowered, share: bool, name: str) -> list[Pass]:
    """The passes that make a recorded graph readable."""
    if recorded.clean:
        sharing = [] if share else [unshare_decompositions]
        return [*sharing, rename_decompositions, partial(rename_module, name=name)]
    return [*clean_passes(share=share), partial(rename_module, name=name)]


def _check_may_vary(train: bool, devices: DeviceMesh | None, target: str | None) -> None:
    """Raise for what cannot be exported with sizes that vary."""
    for given, what, instead in (
        (train, "a training step", "export one step for each size"),
        (devices is not None, "a program for several devices", "export it at each size"),
        (
            target is not None,
            f"a program for target={target!r}",
            "leave out the target, and lower the program at a size: program.at(batch=…).save(…),"
            f" then composites lower --target {target}",
        ),
    ):
        if given:
            raise ExportError(f"{what} cannot have dynamic shapes; {instead}")


def _target(target: str | None, portable: bool) -> str | None:
    if portable and target not in (None, PORTABLE):
        raise ExportError(f"portable=True and target={target!r} are two targets; leave one out")
    return PORTABLE if portable else target


def _mesh(mesh: Any, shardings: Mapping[str, Any] | None, form: str) -> DeviceMesh | None:
    if form not in get_args(Form):
        raise ExportError(f"sharding_form must be 'gspmd' or 'shardy', not {form!r}")
    if mesh is None:
        if shardings:
            raise ExportError("shardings need the mesh that they name; pass mesh={'model': 4}")
        return None
    if shardings is not None and not isinstance(shardings, Mapping):
        raise ExportError(
            "shardings must be a mapping from patterns of names to specs, such as"
            f" {{'*.weight': ('model', None)}}, not {shardings!r}"
        )
    return DeviceMesh.of(mesh)


def _check_unmarked(module: Module) -> None:
    for _, text in marks(module.ir):
        raise ExportError(
            f"the module marks a value as {text}; pass mesh=, the mesh that it marks it with"
        )


def _sharded(
    inputs: tuple[Value, ...],
    outputs: tuple[Value, ...],
    marks: Mapping[str, str],
    mesh: DeviceMesh | None,
    shardings: Mapping[str, Any],
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Inputs and outputs with their shardings.

    Args:
        marks: what torch_xla's `mark_sharding` has noted, by input.
    """
    if mesh is None:
        if marks:
            name, mark = next(iter(marks.items()))
            raise ExportError(
                f"{name} is marked as {mark}; pass mesh=, the mesh that it was marked with"
            )
        return inputs, outputs
    shapes = {value.name: value.sizes for value in inputs}
    known: dict[str, Any] = {}
    for name, mark in marks.items():
        if name in shapes:
            known[name] = mesh.spec_of(mark, len(shapes[name]))
            if known[name] is None:
                raise ExportError(f"{name} is marked as {mark}, which is no division of the mesh")
    specs = of_inputs(mesh, {escape(n): s for n, s in known.items()} | dict(shardings), shapes)
    return (
        tuple(replace(value, sharding=specs.get(value.name)) for value in inputs),
        tuple(
            replace(value, sharding=of_output(value.name, value.updates, specs))
            for value in outputs
        ),
    )


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
