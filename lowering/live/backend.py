"""The backend of torch.compile."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from composites import torch_internals
from composites.errors import (
    CompositesError,
    CompositesWarning,
    MissingPackageError,
    UnsupportedCallError,
)
from lowering import activation
from lowering.frontends import chosen
from lowering.frontends.autocast import autocast_dtype
from lowering.frontends.errors import ForeignDataError, NoKernelError, ValueReadError

if chosen.chosen() != "fx":
    raise MissingPackageError(
        'backend="composites" runs programs on JAX, in an environment without torch_xla; with'
        ' torch_xla, tensors on the device "xla" have composites, and torch.compile takes'
        ' backend="openxla"'
    )
chosen.import_package()  # turns on the entries of XLA_COMPOSITE_OP, before Dynamo traces

from lowering.export.request import make_mesh  # noqa: E402
from lowering.frontends.fx.autocast import autocast, with_cast_lists  # noqa: E402
from lowering.frontends.fx.capture import device  # noqa: E402
from lowering.frontends.fx.flex_attention import kept_whole  # noqa: E402
from lowering.frontends.fx.recorder import device_offered  # noqa: E402
from lowering.frontends.fx.tensors import LIVE_BACKENDS  # noqa: E402
from lowering.live.checks import check_every  # noqa: E402
from lowering.live.chosen_kernels import check_names  # noqa: E402
from lowering.live.devices import select_devices  # noqa: E402
from lowering.live.executable import LiveProgram  # noqa: E402
from lowering.live.input_names import InputShardings, inner_sources  # noqa: E402
from lowering.live.numbers import changing_numbers, without_reads  # noqa: E402
from lowering.live.options import Options  # noqa: E402
from lowering.live.sizes import FunctionsOfSizes, varies  # noqa: E402
from lowering.live.traced_graph import (  # noqa: E402
    control_flow,
    find_device_type,
    on_traced_device,
)

_UNSUPPORTED = (
    NoKernelError,
    ValueReadError,
    ForeignDataError,
    UnsupportedCallError,
    NotImplementedError,
    GuardOnDataDependentSymNode,
)
"""Errors of graphs that cannot become programs. PyTorch runs these graphs instead. PyTorch raises
`NotImplementedError` for an operator without a kernel for tensors that have no values, and
`GuardOnDataDependentSymNode` where a size is the value of a tensor."""


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
        example_inputs: the tensors that the graph is first called with, and sizes.
        options: see `Options`.
        mode: as for PyTorch's own backend; only `default` is accepted.

    Raises:
        CompositesError: there is no such option, mode or composite.
    """
    if mode not in (None, "default"):
        raise CompositesError(f"backend 'composites' has no mode {mode!r}; leave `mode` out")
    chosen_options = Options.read(options or {})
    check_names(chosen_options.kernels)
    divided = make_mesh(chosen_options.mesh, chosen_options.shardings, "gspmd")
    shardings = InputShardings(divided, chosen_options.shardings or {})
    sources = torch_internals.input_sources(graph.graph)
    shardings.check(
        inner_sources(sources, example_inputs), is_full_graph=torch_internals.is_full_graph()
    )
    devices = select_devices(chosen_options, shardings, find_device_type(example_inputs))
    every = check_every()

    def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[Any], **keywords: Any) -> Any:
        # Keep Dynamo out: a backward can run in a frame that Dynamo would trace.
        make = torch.compiler.disable(LiveProgram)
        program = make(graph, inputs, devices, chosen_options, check_every=every, **keywords)
        return torch_internals.not_traced(program)

    return with_composites(graph, example_inputs, compile_graph)


def with_composites(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compile_graph: Callable[..., Any],
    *,
    runs_here: bool = True,
) -> Callable[..., Any]:
    """A graph of Dynamo as a function whose forward and backward, with the composites that are on,
    are compiled.

    Args:
        example_inputs: the tensors that the graph is first called with, and sizes.
        compile_graph, runs_here: see `torch_internals.compile_ahead`. A graph that cannot be
            compiled, for one of the reasons in `_UNSUPPORTED`, runs in eager PyTorch.
    """
    activation.backend()
    if any(isinstance(x, list) for x in example_inputs):  # compiled autograd's own graph
        _warn_of_eager("it takes a list of tensors, as the backward of compiled autograd does")
        return graph.forward
    numbers = changing_numbers(graph.graph)
    written = without_reads(graph, numbers)
    constants = numbers if written is None else ()
    sources = torch_internals.input_sources(graph.graph)  # Dynamo forgets them
    for position in numbers:
        sources[position] = ""
    compile_inputs = partial(
        _function,
        written or graph,
        compile_ahead=partial(
            torch_internals.compile_ahead, compile_graph=compile_graph, runs_here=runs_here
        ),
        constants=constants,
        sources=sources,
        otherwise=graph.forward,
        device_type=find_device_type(example_inputs),
        is_full_graph=torch_internals.is_full_graph(),
        keeps_whole=not runs_here,
    )
    if not numbers and not any(map(varies, example_inputs)):
        return compile_inputs(example_inputs)

    def otherwise(*arguments: Any) -> Any:
        _warn_of_eager("a changing number cannot become a tensor; pass a tensor to the graph")
        return graph.forward(*arguments)

    # In its own trace, AOTAutograd would make Dynamo write the numbers as constants.
    return FunctionsOfSizes(compile_inputs, example_inputs, numbers=constants, otherwise=otherwise)


def _function(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    compile_ahead: Callable[..., Any],
    constants: Collection[int],
    sources: Sequence[str],
    otherwise: Callable[..., Any],
    device_type: str,
    is_full_graph: bool,
    keeps_whole: bool,
) -> Callable[..., Any]:
    """Compile a graph for inputs of fixed sizes.

    Args:
        keeps_whole: see `lowering.frontends.fx.flex_attention.kept_whole`.
        constants: see `on_traced_device`.
        sources: see `torch_internals.input_sources`.
        otherwise: runs the graph in eager PyTorch.
    """
    traced = on_traced_device(graph, inputs, device_type, constants)
    tensors = [read() for read in traced.attributes]
    tensors += [inputs[position] for position in traced.positions]
    fakes = torch_internals.fakes(tensors, device())
    named = ["" for _ in traced.attributes] + [sources[n] for n in traced.positions]
    has_autocast = torch.amp.autocast_mode.is_autocast_available(device_type)
    try:
        with (
            device_offered(),
            with_cast_lists(device_type),
            autocast(autocast_dtype(device_type) if has_autocast else None),
            torch_internals.made_on_cpu(),
            kept_whole(keeps_whole),
        ):
            function: Callable[..., Any] = compile_ahead(
                traced.module, fakes, sources=inner_sources(named, tensors)
            )
    except Exception as error:
        if torch_internals.restarts_trace(error):
            raise
        # AOTAutograd has errors of many types for gradients of control flow that it cannot trace.
        reason, operators = _reason(error), control_flow(graph.graph)
        is_read = isinstance(
            error, GuardOnDataDependentSymNode
        )  # in gradients of control flow, too
        if isinstance(error, _UNSUPPORTED) and not (is_read and operators):
            if is_full_graph:
                raise
        elif isinstance(error, CompositesError):  # a mistake of the user
            raise
        elif operators:
            reason = f"PyTorch does not trace {', '.join(operators)} in it ({reason})"
            if "while_loop" in operators and torch.is_grad_enabled():
                reason += "; while_loop has no gradient: use scan, or torch.no_grad()"
            if is_full_graph:
                raise UnsupportedCallError(reason) from error
        else:
            raise
        _warn_of_eager(reason)
        return otherwise
    if not traced.attributes and len(traced.positions) == len(inputs):
        return function

    def call(*arguments: Any) -> Any:
        taken = (arguments[position] for position in traced.positions)
        return function(*(read() for read in traced.attributes), *taken)

    return call


def _warn_of_eager(reason: str) -> None:
    warnings.warn(
        f"a graph of torch.compile runs in eager PyTorch: {reason}", CompositesWarning, stacklevel=5
    )


def _reason(error: Exception) -> str:
    """The first sentence of an error, or its type if it has no text, and the call in the graph that
    raised the error, which torch.fx appends to its text."""
    first, *rest = str(error).strip().splitlines() or [type(error).__name__]
    called = (line for line in rest if line.startswith("While executing "))
    return "; ".join([first.partition(". ")[0], *called])


LIVE_BACKENDS.append(composites)
