"""`composites.export`: a module's inference or training step as StableHLO with composites.

    module, example inputs
        -> placeholders for every parameter, buffer, argument and optimizer state
        -> the module's Python code runs on them: forward, loss.backward(), optimizer.step()
        -> the recorded graph as StableHLO, cleaned, with names for inputs and outputs

Nothing is executed and no weight is copied, because placeholders have shapes but no data.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, overload

import torch

from composites.errors import ExportError
from composites.registry.model import PORTABLE
from lowering import activation
from lowering.export.dynamic_shapes import dynamic_arguments
from lowering.export.generation import GenerationPrograms, with_inputs_of
from lowering.export.generation_call import generation_call, with_cache
from lowering.export.optimizers import OptimizerFactory
from lowering.export.program import Program
from lowering.export.recording import record
from lowering.export.request import ExportRequest, check_arguments, check_may_vary, make_mesh
from lowering.export.shardings import Form
from lowering.export.varying_sizes import record_for_sizes
from lowering.frontends import chosen
from lowering.frontends.errors import ValueReadError
from lowering.stablehlo import Pass, RefusedOperationError, run_passes, target_passes


@overload
def export(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = ...,
    *,
    decode: Literal[True],
    **options: Any,
) -> GenerationPrograms: ...


@overload
def export(
    module: torch.nn.Module | torch.export.ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = ...,
    *,
    train: bool = ...,
    decode: Literal[False] = ...,
    optimizer: OptimizerFactory | None = ...,
    ops: Sequence[str] | None = ...,
    decompositions: str | None = ...,
    passes: Sequence[Pass] = ...,
    share_decompositions: bool = ...,
    target: str | None = ...,
    portable: bool = ...,
    mesh: Any = ...,
    shardings: Mapping[str, Any] | None = ...,
    sharding_form: Form = ...,
    dynamic_shapes: Any = ...,
    frontend: str | None = ...,
) -> Program: ...


def export(  # type: ignore[misc]  # the options of the first signature are those of the second
    module: torch.nn.Module | torch.export.ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    train: bool = False,
    decode: bool = False,
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
) -> Program | GenerationPrograms:
    """Export a module's inference, its gradients, or a whole training step.

    Buffers and arguments that the module writes to are also outputs. Small tensors that it creates
    become constants. Other threads must not build graphs during an export, because these graphs
    would be recorded too.

    Args:
        module: a module on any device, including `meta`. Its training mode is not changed. An
            `ExportedProgram` is accepted for inference.
        args: example arguments. Only shapes and dtypes of tensors are read. Other values become
            constants of the program.
        kwargs: example keyword arguments, treated in the same way.
        train: whether to export a training step. The module must return a scalar loss (a tensor, an
            object with `.loss`, or a tuple that starts with the loss). The program returns the loss
            and the gradient of every parameter that requires a gradient.
        decode: whether to export generation with a causal language model of transformers: one
            program for a prompt and one for each further token, with a static cache as state. The
            arguments are those of `generate`: `args=(tokens,), kwargs={"max_length": 64}`, and
            `cache` (or `past_key_values`) for a `KVCache`.
        optimizer: a function that makes an optimizer from parameters, such as
            `partial(torch.optim.AdamW, lr=1e-3)`. The program then also returns the updated
            parameters and optimizer state. Implies `train`.
        ops: composites to turn on, as in XLA_COMPOSITE_OP; by default the active ones, or all if
            none is active.
        decompositions: the decompositions to use, as in XLA_COMPOSITE_DECOMPOSITION, such as
            `fast`; by default the active decompositions.
        passes: functions from module to module that run on the result.
        share_decompositions: use one function for all equal decompositions. Otherwise each call
            gets its own function, which some consumers use to group operations.
        target: the consumer: `xla`, `cuda`, `iree`, `litert`, or `portable` for all of them.
            Operations that it is known to lack are replaced; an operation that cannot be replaced
            is an error. The decompositions `fast` and `small` are chosen for the target. `cuda` is
            XLA on NVIDIA's GPUs.
        portable: the same as `target="portable"`.
        mesh: devices that share the program: names and sizes of its axes, such as `{"data": 2,
            "model": 4}`, or a mesh of jax or torch_xla. Marks of torch_xla's `mark_sharding` on
            parameters, buffers, arguments and values inside the module are kept.
        shardings: the shardings of inputs, by pattern of their names: `{"*.weight": ("model",
            None)}` divides the first dimension of the parameters that match. `arg:0` is an
            argument. Gradients, updated parameters and optimizer state are divided like their
            parameters.
        sharding_form: the form of shardings in the StableHLO: `gspmd` (`mhlo.sharding`, which both
            of XLA's partitioners read) or `shardy` (`sdy.sharding`).
        dynamic_shapes: dimensions of arguments whose size varies, as torch.export takes them:
            `{"x": {0: torch.export.Dim("batch", max=64)}}`, or a tuple with one item for each
            argument. The program then has `?` in its types, and takes all sizes of these
            `dimensions`. An `ExportedProgram` has its own dynamic shapes. Dynamic shapes need the
            frontend `fx`. If a size may be 1, a program whose inputs have up to 1 GiB also runs
            once on the CPU, to check its results.
        frontend: the recorder of the program: `xla` (torch_xla), or `fx` (PyTorch and JAX alone).
            By default torch_xla if it is installed. A process has one frontend.

    Returns:
        The program; with `decode`, both programs.

    Raises:
        ExportError: the loss is not a scalar, the module reads values while it runs, it computes
            with a large tensor that is not an input, a sharding does not fit, or the module is a
            different program at different sizes.
    """
    train = train or optimizer is not None
    if decode and (train or dynamic_shapes is not None):
        raise ExportError(
            "decode=True exports inference at fixed sizes; leave out train, optimizer and"
            " dynamic_shapes"
        )
    devices = make_mesh(mesh, shardings, sharding_form)
    if portable and target not in (None, PORTABLE):
        raise ExportError(f"portable=True and target={target!r} are two targets; leave one out")
    target = PORTABLE if portable else target
    every = [*passes, *(() if target is None else target_passes(target))]
    check_arguments(module, args, kwargs, ops, passes, train=train, optimizer=optimizer)
    call = generation_call(module, *args, **(kwargs or {})) if decode else None
    varying = dynamic_arguments(module, args, kwargs or {}, dynamic_shapes)
    if varying is not None:
        check_may_vary(devices, target)
    keeps = decompositions is not None or activation.has_chosen_decompositions()
    with (
        chosen.choosing(frontend),
        progress("export") as step,
        activation.for_export(ops, decompositions, target),
    ):
        request = ExportRequest(
            module=module,
            args=args,
            kwargs=kwargs or {},
            train=train,
            optimizer=optimizer,
            share_decompositions=share_decompositions,
            mesh=devices,
            shardings=shardings or {},
            sharding_form=sharding_form,
            frontend=activation.backend().frontend,
            progress=step,
        )
        program = partial(_program, passes=every, keeps_decompositions=keeps)
        if call is not None:
            try:
                return _generation(program, request, call, placed=False)
            except ExportError as error:
                if not isinstance(error.__cause__, ValueReadError):
                    raise
            # Models such as OPT make positions of the number of tokens in the cache.
            return _generation(program, request, call, placed=True)
        if varying is None:
            return program(request)
        recorded = record_for_sizes(request, varying)
        lowered = run_passes(recorded.module, passes)
        return replace(recorded, module=lowered, keeps_decompositions=keeps)


def _generation(
    program: Callable[[ExportRequest], Program],
    request: ExportRequest,
    call: tuple[torch.Tensor, int, Any],
    *,
    placed: bool,
) -> GenerationPrograms:
    """Record the programs for a prompt and for a token by `program`; see `with_cache`."""
    prompt, max_length, _ = call
    with with_cache(request, *call, placed=placed):
        prefill, further = (
            program(replace(request, args=(), kwargs={"input_ids": tokens}))
            for tokens in (prompt, prompt[:, :1])
        )
    return GenerationPrograms(with_inputs_of(further, prefill), further, max_length)


def _program(request: ExportRequest, passes: Sequence[Pass], keeps_decompositions: bool) -> Program:
    """Record the program of a request, and run passes on it.

    Raises:
        RefusedOperationError: a pass refuses an operation. The error names the line that the
            operation comes from, for which the module is recorded again with locations.
    """
    program = record(request)
    try:
        lowered = run_passes(program.module, passes)
    except RefusedOperationError as error:
        raise _with_source(error, request, passes) from None
    return replace(program, module=lowered, keeps_decompositions=keeps_decompositions)


def _with_source(
    error: RefusedOperationError, request: ExportRequest, passes: Sequence[Pass]
) -> RefusedOperationError:
    """Record the module again with locations, and return the refusal of the same operation, which
    names its source. Return `error` if that fails."""
    try:
        with request.frontend.recording.located():
            run_passes(record(request, located=True).module, passes)
    except RefusedOperationError as first:
        for refusal in (first, *first.others):
            if refusal.operation == error.operation and refusal.source:
                return refusal
    except Exception:  # an error of the search does not replace the refusal
        return error
    return error


@contextmanager
def progress(description: str) -> Iterator[Callable[[str], None]]:
    """Show the current step on a terminal, first `description`. Show nothing without a terminal."""
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield lambda description: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(description)
        yield lambda description: shown.update(task, description=description)
