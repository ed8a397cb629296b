"""The backend kernels of `composites.operators.wide_products`: one instruction per operator, made
with the rules of `lowering.frontends.aten_in_jax`."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from lowering.emission import hlo_proto
from lowering.emission.builder import insertable
from lowering.emission.types import TensorType
from lowering.frontends.protocols import Dispatching, Kernel, Override
from lowering.frontends.torch_xla.graph import Purpose, XlaGraph
from lowering.frontends.torch_xla.tensors import XlaTensors
from lowering.stablehlo.dtypes import numpy_dtype


def implement(dispatching: Dispatching, graph: XlaGraph) -> tuple[Override, ...]:
    """Register the kernels of both operators, for as long as the result is kept."""
    return tuple(
        dispatching.implement(name, _kernel(graph, name)) for name in ("matmul", "convolution")
    )


def _kernel(graph: XlaGraph, name: str) -> Kernel:
    """A backend kernel: the operator as a computation of one instruction."""
    symbol = f"composites::{name}"

    @lru_cache(maxsize=1024)
    def computation(
        operands: tuple[TensorType, ...], geometry: tuple[Any, ...], dtype: torch.dtype, _: Purpose
    ) -> Any:
        from jax.lax import optimization_barrier

        from composites.registry.operators import overload
        from lowering.frontends.aten_in_jax.table import find_rule
        from lowering.frontends.jax.functions import lower_to_hlo

        rule = find_rule(overload(symbol))
        blank = torch.empty(0, dtype=dtype, device="meta")
        result_dtype = numpy_dtype(XlaTensors.tensor_type(blank).element_type)
        # As in `emit_composite`, for products outside composites.
        guarded = graph.guards_products and operands[0].element_type == "bf16"

        def function(left: Any, right: Any) -> Any:
            result = rule(result_dtype, left, right, *geometry, dtype)
            return optimization_barrier(result) if guarded else result

        # Without JAX's metadata: locations of operations are those of torch_xla.
        module = hlo_proto.Module.FromString(lower_to_hlo(function, operands).module)
        return graph.computation(name, insertable(module))

    def kernel(left: Tensor, right: Tensor, *arguments: Any) -> Tensor:
        *listed, out_dtype = arguments
        geometry = tuple(tuple(o) if isinstance(o, list) else o for o in listed)
        types = (XlaTensors.tensor_type(left), XlaTensors.tensor_type(right))
        handle = computation(types, geometry, out_dtype, graph.target)
        (result,) = graph.insert(symbol, (left, right), handle)
        return result  # type: ignore[no-any-return]

    return kernel
