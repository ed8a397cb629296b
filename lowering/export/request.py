"""The arguments of one export, checked before anything is recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch

from composites.errors import ExportError
from lowering.export.optimizers import OptimizerFactory, check_factory
from lowering.export.shardings import DeviceMesh, Form
from lowering.frontends.protocols import Frontend


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The arguments of `composites.export` for the recording of a module."""

    module: torch.nn.Module | torch.export.ExportedProgram
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    train: bool
    optimizer: OptimizerFactory | None
    share_decompositions: bool
    mesh: DeviceMesh | None
    shardings: Mapping[str, Any]
    sharding_form: Form
    frontend: Frontend


def check_arguments(
    module: object,
    args: object,
    kwargs: object,
    ops: object,
    passes: Sequence[object],
    *,
    train: bool,
    optimizer: OptimizerFactory | None,
) -> None:
    """Refuse arguments of wrong types, before anything is recorded.

    Raises:
        ExportError: an argument has a wrong type; the message names the right type.
    """
    if not isinstance(module, torch.nn.Module | torch.export.ExportedProgram):
        label = module.__name__ if isinstance(module, type) else f"a {type(module).__name__}"
        raise ExportError(
            f"the first argument is {label}, and an export takes a torch.nn.Module, whose forward"
            " it calls, or an ExportedProgram"
        )
    if train and isinstance(module, torch.export.ExportedProgram):
        raise ExportError("an ExportedProgram only supports inference; pass the module itself")
    if isinstance(args, str) or not isinstance(args, Sequence):
        hint = "; write (tensor,) for a single one" if isinstance(args, torch.Tensor) else ""
        raise ExportError(f"args must be a tuple or a list of arguments{hint}")
    if not isinstance(kwargs, Mapping | None):
        raise ExportError("kwargs must be a dictionary from names of arguments to their values")
    if optimizer is not None:
        check_factory(optimizer)
    if isinstance(ops, str):
        raise ExportError(f"ops must be a list of names; write ops=[{ops!r}]")
    for item in passes:
        if not callable(item):
            raise ExportError(
                f"a pass is a function from module to module, such as lowering.stablehlo.clean, not"
                f" {item!r}"
            )


def check_may_vary(devices: DeviceMesh | None, target: str | None) -> None:
    """Raise `ExportError` if options do not allow sizes that vary."""
    if devices is not None:
        raise ExportError(
            "a program for several devices cannot have dynamic shapes; export it at each size"
        )
    if target is not None:
        raise ExportError(
            f"a program for target={target!r} cannot have dynamic shapes; leave out the target, and"
            " lower the program at a size: program.at(batch=…).save(…), then composites lower"
            f" --target {target}"
        )


def make_mesh(mesh: Any, shardings: Mapping[str, Any] | None, form: str) -> DeviceMesh | None:
    """Make the mesh of devices that share the program; None for a program for one device.

    Raises:
        ExportError: the arguments about devices do not fit each other.
    """
    if form not in get_args(Form):
        raise ExportError(f"sharding_form must be 'gspmd' or 'shardy', not {form!r}")
    if mesh is None:
        if shardings:
            raise ExportError("shardings need a mesh; pass mesh={'model': 4} (--mesh model=4)")
        return None
    if shardings is not None and not isinstance(shardings, Mapping):
        raise ExportError(
            "shardings must be a mapping from patterns of names to specs, such as"
            f" {{'*.weight': ('model', None)}}, not {shardings!r}"
        )
    return DeviceMesh.from_mesh(mesh)
