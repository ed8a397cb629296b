"""The backend of torch.compile."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch

from composites import torch_internals
from composites.errors import (
    CompositesError,
    CompositesWarning,
    MissingPackageError,
    UnsupportedCallError,
)
from lowering import activation
from lowering.export.step import Kernels
from lowering.frontends import chosen
from lowering.frontends.errors import ForeignDataError, NoKernelError, ValueReadError

if chosen.chosen() != "fx":
    raise MissingPackageError(
        'backend="composites" runs programs on JAX, in an environment without torch_xla; with'
        ' torch_xla, tensors on the device "xla" have composites, and torch.compile takes'
        ' backend="openxla"'
    )
chosen.import_package()  # turns on what XLA_COMPOSITE_OP names, before Dynamo traces anything

from lowering.frontends.fx.autocast import autocast, casts_of  # noqa: E402
from lowering.frontends.fx.device import device  # noqa: E402
from lowering.frontends.fx.recorder import device_offered  # noqa: E402
from lowering.frontends.fx.tensors import LIVE_BACKENDS  # noqa: E402
from lowering.live.executable import LiveProgram  # noqa: E402
from lowering.live.traced_graph import device_type_of, on_traced_device  # noqa: E402

_UNSUPPORTED = (
    NoKernelError,
    ValueReadError,
    ForeignDataError,
    UnsupportedCallError,
    NotImplementedError,
)
"""Errors of graphs that cannot become programs. PyTorch runs these graphs instead. PyTorch raises
`NotImplementedError` for an operator without a kernel for tensors that have no values."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `torch.compile(…, options={…})`."""

    kernels: Kernels = "auto"
    """Which kernels take composites, as `Program.compile` has it: those of registries, none, those
    that are named, or a mapping."""
    platform: str | None = None
    """The platform of JAX, such as `cpu` or `cuda`; by default that of the tensors."""

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Options:
        """The options that a user gives.

        Raises:
            CompositesError: there is no such option.
        """
        if not isinstance(options, Mapping):
            raise CompositesError(f"options must be a mapping, not {options!r}")
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise CompositesError(
                    f"backend 'composites' has no option {name!r}; it has: {', '.join(known)}"
                )
        return cls(**options)


def composites(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo for JAX's runtime, with the composites that are on.

    Args:
        graph: Dynamo's graph.
        example_inputs: the tensors that it is first called with, and sizes.
        options: see `Options`.
        mode: as PyTorch's own backend has it; nothing but `default` means something here.

    Raises:
        CompositesError: there is no such option, or no such mode.
    """
    if mode not in (None, "default"):
        raise CompositesError(f"backend 'composites' has no mode {mode!r}; leave `mode` out")
    chosen_options = Options.read(options or {})
    activation.backend()
    device_type = device_type_of(example_inputs)
    platform = chosen_options.platform or device_type
    traced = on_traced_device(graph, example_inputs, device_type)
    tensors = [read() for read in traced.attributes]
    tensors += [example_inputs[position] for position in traced.positions]
    inputs = torch_internals.fakes(tensors, device())
    compile_graph = partial(_compiled, platform=platform, kernels=chosen_options.kernels)
    try:
        with (
            device_offered(),
            casts_of(device_type),
            autocast(_autocast_dtype(device_type)),
            torch_internals.made_on_cpu(),
        ):
            function = torch_internals.compile_ahead(traced.module, inputs, compile_graph)
    except _UNSUPPORTED as error:
        if torch_internals.is_full_graph():
            raise
        warnings.warn(
            f"a graph of torch.compile runs in eager PyTorch: {_reason(error)}",
            CompositesWarning,
            stacklevel=2,
        )
        return graph.forward
    if not traced.attributes and len(traced.positions) == len(example_inputs):
        return function

    def call(*arguments: Any) -> Any:
        taken = (arguments[position] for position in traced.positions)
        return function(*(read() for read in traced.attributes), *taken)

    return call


def _reason(error: Exception) -> str:
    """The first sentence of an error, and the call in the graph that raised it, as torch.fx writes
    it below."""
    first, *rest = str(error).splitlines()
    called = (line for line in rest if line.startswith("While executing "))
    return "; ".join([first.partition(". ")[0], *called])


def _autocast_dtype(device_type: str) -> torch.dtype | None:
    if not torch.amp.autocast_mode.is_autocast_available(device_type):
        return None
    if not torch.is_autocast_enabled(device_type):
        return None
    return torch.get_autocast_dtype(device_type)


def _compiled(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], *, platform: str, kernels: Kernels
) -> Any:
    """A graph of AOTAutograd as a program. Dynamo does not trace it: a backward can run in a frame
    that Dynamo looks at."""
    program = torch.compiler.disable(LiveProgram)(graph, inputs, platform, kernels)
    run = torch.compiler.disable(program)
    run._boxed_call = True
    return run


LIVE_BACKENDS.append(composites)
