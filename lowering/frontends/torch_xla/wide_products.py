"""The backend kernels of `composites.operators.wide_products`: one instruction each, made with
the rules of `lowering.frontends.aten_in_jax`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lowering.emission.types import TensorType
from lowering.frontends.protocols import Dispatching, Override
from lowering.frontends.torch_xla.graph import XlaGraph
from lowering.frontends.torch_xla.tensors import XlaTensors
from lowering.stablehlo.dtypes import numpy_dtype

_MOST_COMPUTATIONS = 1024
"""The number of distinct calls that are cached for each operator."""


class _Kernel:
    """A backend kernel: the operator as a computation of one instruction, cached for each call."""

    def __init__(self, graph: XlaGraph, name: str) -> None:
        self.graph = graph
        self.symbol = f"composites::{name}"
        self.name = name
        self.computations: dict[Any, Any] = {}

    def __call__(self, *arguments: Any) -> Tensor:
        *others, out_dtype = arguments[2:]
        operands = [XlaTensors.type_of(t) for t in arguments[:2]]
        geometry = [tuple(o) if isinstance(o, list) else o for o in others]
        key = (*operands, *geometry, out_dtype, self.graph.target)
        computation = self.computations.get(key)
        if computation is None:
            computation = self._computation(operands, geometry, out_dtype)
            if len(self.computations) >= _MOST_COMPUTATIONS:
                self.computations.clear()
            self.computations[key] = computation
        (result,) = self.graph.insert(self.symbol, arguments[:2], computation)
        return result  # type: ignore[no-any-return]

    def _computation(
        self, operands: Sequence[TensorType], geometry: Sequence[Any], out_dtype: torch.dtype
    ) -> Any:
        from lowering.frontends import jax
        from lowering.frontends.aten_in_jax.table import overload, rule_of

        rule = rule_of(overload(self.symbol))
        blank = torch.empty(0, dtype=out_dtype, device="meta")
        dtype = numpy_dtype(XlaTensors.type_of(blank).element_type)
        # As in `emit_composite`, for products outside composites.
        guarded = self.graph.guards_products and operands[0].element_type == "bf16"

        def function(one: Any, other: Any) -> Any:
            result = rule(dtype, one, other, *geometry, out_dtype)
            return jax.optimization_barrier(result) if guarded else result

        return self.graph.computation(self.name, jax.lower_to_hlo(function, operands).module)


def implement(dispatching: Dispatching, graph: XlaGraph) -> tuple[Override, ...]:
    """Register both operators' kernels, for as long as the result is kept."""
    return tuple(
        dispatching.implement(name, _Kernel(graph, name)) for name in ("matmul", "convolution")
    )
