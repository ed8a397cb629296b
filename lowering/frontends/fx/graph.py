"""The graph that is recorded, and the computations inserted into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import torch

from lowering.emission import hlo_proto
from lowering.emission.linking import name_of
from lowering.emission.types import TensorType
from lowering.frontends.aten_in_jax.table import RULES
from lowering.frontends.fx import capture
from lowering.frontends.tensor_types import DTYPE_OF
from lowering.frontends.thread_flag import ThreadFlag
from lowering.stablehlo.dtypes import numpy_dtype


@dataclass(frozen=True, slots=True)
class Target:
    """The purpose of a graph."""

    inside: bool
    """Whether it becomes part of a decomposition."""
    shared: bool
    """Whether it is recorded for several devices."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A module by its name, see `lowering.emission.linking`."""

    name: str
    results: tuple[TensorType, ...]


class FxGraph:
    """See `lowering.frontends.protocols.Graph`."""

    device = "CPU"  # lowerings that depend on the device run on torch_xla only
    guards_products = False
    is_partitioned = True
    drops_roundings = False
    runs = False

    def __init__(self) -> None:
        self.is_shared = False
        self.referred: dict[str, bytes] = {}
        """The modules that graphs refer to, by name."""
        self.tracing = ThreadFlag()
        """Whether this thread is tracing a decomposition."""

    @property
    def is_decomposition(self) -> bool:
        return self.tracing.active

    @property
    def target(self) -> Target:
        return Target(self.tracing.active, self.is_shared)

    def computation(self, name: str, module: bytes) -> Reference:
        named = name_of(module)
        self.referred[named] = module
        return Reference(named, _result_types(module))

    @staticmethod
    def insert(
        symbol: str, operands: Sequence[torch.Tensor], computation: Reference
    ) -> Sequence[torch.Tensor]:
        """See `lowering.frontends.protocols.Graph`."""
        given = [capture.traced(operand) for operand in operands]
        described = [
            torch.empty(type_.shape, dtype=DTYPE_OF[type_.element_type], device="meta")
            for type_ in computation.results
        ]
        results = capture.node(call_module, (given, computation), {}, described, symbol)
        below = any(isinstance(operand, capture.TracedTensor) for operand in operands)
        return list(results) if below else [capture.functional(result) for result in results]

    insert_several = insert

    @contextmanager
    def recorded(self, *, shared: bool) -> Iterator[None]:
        """A context in which graphs are recorded, for several devices if `shared`."""
        before = self.is_shared
        self.is_shared = shared
        try:
            yield
        finally:
            self.is_shared = before


def call_module(dtypes: Any, /, operands: Sequence[Any], computation: Reference) -> list[Any]:
    """A custom call in the place of a module, which is put there when the graph is linked."""
    results = [
        jax.ShapeDtypeStruct(type_.shape, numpy_dtype(type_.element_type))
        for type_ in computation.results
    ]
    one = len(results) == 1
    found = jax.ffi.ffi_call(computation.name, results[0] if one else results)(*operands)
    return [found] if one else list(found)


RULES[call_module] = call_module


def _result_types(module: bytes) -> tuple[TensorType, ...]:
    result = hlo_proto.entry_of(hlo_proto.Module.FromString(module)).program_shape.result
    parts = result.tuple_shapes if result.element_type == hlo_proto.TUPLE else [result]
    return tuple(
        TensorType(hlo_proto.ELEMENT_TYPE_NAMES[part.element_type], tuple(part.dimensions))
        for part in parts
    )
