"""Recording a whole program without running it, and lowering it to StableHLO."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch_xla
from torch_xla.experimental import scan

from composites import torch_internals
from composites.contexts import with_attributes
from composites.errors import ExportError
from lowering.emission.types import TensorType
from lowering.frontends.errors import (
    ControlFlowError,
    ForeignDataError,
    check_constant,
    other_device,
)
from lowering.frontends.protocols import Bounds, GraphParameter, LoweredGraph
from lowering.frontends.tensor_types import description
from lowering.frontends.torch_xla.graph import XlaGraph, lowered
from lowering.frontends.torch_xla.labels import XlaLabels
from lowering.frontends.torch_xla.missing_kernels import decomposed
from lowering.frontends.torch_xla.modes import tracing_mode
from lowering.frontends.torch_xla.random import (
    advances_since_mark,
    advancing,
    marked,
    states_offered,
)
from lowering.frontends.torch_xla.tensors import has_no_value, read_values
from lowering.frontends.torch_xla.value_guard import is_guarded, values_readable, values_unreadable
from lowering.hlo.convert import to_located_stablehlo, to_stablehlo
from lowering.stablehlo import (
    Linear,
    Module,
    clean_passes,
    constant_inputs,
    join_inputs,
    run_passes,
)
from lowering.stablehlo.dtypes import numpy_dtype, shape_and_element_type
from lowering.stablehlo.run import function_types
from lowering.stablehlo.symbols import functions

_XLAC = torch_xla._XLAC

_SPARSE = ("'SparseXLA'", "'SparseCsrXLA'", "new_compressed_tensor")
_NESTED = ("NestedTensor", "NestedInt")
"""Parts of PyTorch's messages about sparse and nested tensors."""

_NOT_FAKE = "allow_non_fake_inputs"
"""A part of AOTAutograd's message about a tensor that a function reads but does not receive. Scans
trace their functions with AOTAutograd."""


_OPERATOR_ON_FUNCTIONS = re.compile(
    r"^(\w+) (?:doesn't work unless it is|must be) captured completely"
    r"|^could not find kernel for HigherOrderOperator (\w+)"
)
"""PyTorch's messages about an operator that takes functions: called by the user, or in the graph of
torch.export."""


class XlaRecording:
    """See `lowering.frontends.protocols.Recording`."""

    def __init__(self, graph: XlaGraph) -> None:
        self._graph = graph

    @contextmanager
    def recording(self, *, shared: bool = False) -> Iterator[None]:
        try:
            # The mode comes first, because it waits for other threads.
            with (
                tracing_mode(),
                marked(),
                states_offered(),
                self._graph.recorded(shared=shared),
                values_unreadable(),
                decomposed(),
                torch_internals.printing(_text),
                _own_graphs_of_scans(),
                # A device that was registered after the first backward has no thread.
                torch.autograd.set_multithreading_enabled(False),
            ):
                yield
        except (RuntimeError, AssertionError, AttributeError) as error:
            explained = _explained(str(error))
            if explained is None:
                raise
            raise explained from error

    def symbolic(self, dimensions: Bounds) -> AbstractContextManager[Mapping[str, Any]]:
        raise ExportError(
            "dynamic_shapes: graphs of torch_xla have fixed sizes; pass frontend='fx', in a process"
            " that has not used torch_xla's"
        )

    def unchanged(
        self, tensors: Sequence[torch.Tensor], placeholders: Sequence[torch.Tensor]
    ) -> list[bool]:
        if not tensors or not placeholders:
            return [False for _ in tensors]
        context = lowered("unchanged", placeholders)
        return [context.tensor_parameter_id(tensor) >= 0 for tensor in tensors]

    def has_no_value(self, tensor: torch.Tensor) -> bool:
        return has_no_value(tensor)

    def lower_graph(
        self,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        *,
        located: bool = False,
    ) -> LoweredGraph:
        context = lowered("IrToHlo", outputs)
        convert = to_located_stablehlo if located else to_stablehlo
        module = convert(context.hlo())
        if module is None:
            # This also lowers the outputs in order, so parameters get the same numbers.
            bytecode = _XLAC._get_stablehlo(list(outputs), "", [], True)
            converted = Module.from_bytes(bytecode, "torch_xla's StableHLO")
            module = run_passes(converted, clean_passes(), verify=False)
        positions = {context.tensor_parameter_id(t): n for n, t in enumerate(inputs)}
        data = context.device_parameter_id_tensor_mapping()
        parameters: list[GraphParameter] = []
        constants: dict[int, Any] = {}
        # The dtype of a tensor in `data` is signed even if the parameter is unsigned.
        types, results = _main_types(module)
        with values_readable():
            counts = {n: advances_since_mark(data[n]) for n in sorted(data) if n not in positions}
            # Each composite, each other operator and each part that the backward computes again may
            # have a separate parameter with the generator's state.
            states = {n: count for n, count in counts.items() if count is not None}
            seed = min(states, key=states.__getitem__, default=None)
            for number in sorted(data):
                if number in positions or number == seed:
                    parameters.append(GraphParameter(positions.get(number), types[number]))
                elif number not in states:
                    constants[number] = _constant(data[number], types[number])
        kept = [number for number in sorted(data) if number not in constants]
        if constants:
            module = constant_inputs(module, constants)
        if seed is not None and any(number != seed or count for number, count in states.items()):
            joined = {kept.index(n): Linear(*advancing(count)) for n, count in states.items()}
            module = join_inputs(module, kept.index(seed), joined)
        return LoweredGraph(module, tuple(parameters), results)

    def located(self) -> AbstractContextManager[None]:
        return XlaLabels().kept()


def _text(tensor: Any) -> str | None:
    """The printed form of a traced tensor. The user's module may print tensors, and AOTAutograd
    writes traced values to a log."""
    is_traced = isinstance(tensor, torch.Tensor) and tensor.is_xla and is_guarded()  # type: ignore[attr-defined]
    return description(tensor) if is_traced else None


def _own_graphs_of_scans() -> AbstractContextManager[None]:
    """A context in which torch_xla's `scan`, which also runs `scan_layers` and torch.nn.GRU, traces
    every function again.

    `scan` keeps the graphs of pure functions. Their operators depend on the composites that were
    on, and they may hold tensors. So a recorded program neither uses a graph from outside nor
    leaves one.
    """
    return with_attributes(scan, _SCAN_COMPUTATION_CACHE=WeakKeyDictionary())


def _explained(text: str) -> ForeignDataError | ControlFlowError | None:
    """The exception that replaces an error with a text; None if the error is raised as it is."""
    foreign = other_device(text)
    if foreign is not None:
        return foreign
    for parts, advice in (
        (_SPARSE, "sparse tensor; make it dense with .to_dense()"),
        (_NESTED, "nested tensor; pad it with torch.nested.to_padded_tensor"),
    ):
        if any(part in text for part in parts):
            return ForeignDataError(
                f"an operator takes or makes a {advice} ({text.partition('. ')[0]})"
            )
    if _NOT_FAKE in text:
        return ForeignDataError(
            "the function of a loop (scan, scan_layers) reads a tensor from outside; pass it to the"
            " loop, in the carry or as an argument of the layers"
        )
    operator = _OPERATOR_ON_FUNCTIONS.match(text)
    if operator is None:
        return None
    return ControlFlowError(
        f"torch_xla cannot record PyTorch's {(operator[1] or operator[2]).lower()}; export in an"
        " environment with PyTorch 2.10 or later and without torch_xla, where frontend='fx' can"
    )


def _constant(tensor: torch.Tensor, type_: TensorType) -> Any:
    """The values of a tensor that the program made itself, as a numpy array."""
    check_constant(type_, tensor.numel() * tensor.element_size())
    return read_values(tensor).view(numpy_dtype(type_.element_type))


def _main_types(module: Module) -> tuple[list[TensorType], tuple[TensorType, ...]]:
    """The types of the arguments and results of `@main`."""

    def read(text: str) -> TensorType:
        parts = shape_and_element_type(text)
        assert parts is not None, f"{text} in a recorded graph"
        shape, element_type = parts
        return TensorType(element_type, shape)

    arguments, results = function_types(functions(module.ir)["main"])
    return [read(text) for text in arguments], tuple(read(text) for text in results)
