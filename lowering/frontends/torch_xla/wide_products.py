"""The backend kernels of `composites.operators.wide_products`: one instruction each, made with
JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    def __init__(self, graph: XlaGraph, name: str, function: Callable[..., Any]) -> None:
        self.graph = graph
        self.name = name
        self.function = function
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
        symbol = f"composites::{self.name}"
        (result,) = self.graph.insert(symbol, arguments[:2], computation)
        return result  # type: ignore[no-any-return]

    def _computation(
        self, operands: Sequence[TensorType], geometry: Sequence[Any], out_dtype: torch.dtype
    ) -> Any:
        from lowering.frontends import jax

        blank = torch.empty(0, dtype=out_dtype, device="meta")
        dtype = numpy_dtype(XlaTensors.type_of(blank).element_type)
        # As in `emit_composite`, for products outside composites.
        guarded = self.graph.guards_products and operands[0].element_type == "bf16"

        def function(one: Any, other: Any) -> Any:
            result = self.function(one, other, *geometry, dtype)
            return jax.optimization_barrier(result) if guarded else result

        return self.graph.computation(self.name, jax.lower_to_hlo(function, operands).module)


def _jax_matmul(self: Any, other: Any, dtype: Any) -> Any:
    import jax

    batch = tuple(range(self.ndim - 2))
    contracted = ((self.ndim - 1,), (self.ndim - 2,))
    return jax.lax.dot_general(
        self, other, (contracted, (batch, batch)), preferred_element_type=dtype
    )


def _jax_convolution(
    input: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    dtype: Any,
) -> Any:
    import jax

    spatial = weight.shape[2:]
    # PyTorch also accepts one number for all spatial dimensions.
    stride, padding, dilation, output_padding = (
        tuple(sizes) * len(spatial) if len(sizes) == 1 else tuple(sizes)
        for sizes in (stride, padding, dilation, output_padding)
    )
    around = [(size, size) for size in padding]
    widened: dict[str, Any] = {"window_strides": stride, "padding": around}
    if transposed:  # the gradient of a convolution: dilated input, flipped kernel
        weight = _turned(weight, groups)
        reach = [step * (size - 1) for step, size in zip(dilation, spatial, strict=True)]
        widened = {
            "window_strides": (1,) * len(spatial),
            "lhs_dilation": stride,
            "padding": [
                (far - size, far - size + extra)
                for far, size, extra in zip(reach, padding, output_padding, strict=True)
            ],
        }
    return jax.lax.conv_general_dilated(
        input,
        weight,
        rhs_dilation=dilation,
        feature_group_count=groups,
        preferred_element_type=dtype,
        **widened,
    )


def _turned(weight: Any, groups: int) -> Any:
    """Turn `[I, O / groups, …]` into the flipped kernel `[O, I / groups, …]` of the convolution
    above."""
    inputs, outputs, *spatial = weight.shape
    split = weight.reshape(groups, inputs // groups, outputs, *spatial)
    swapped = split.swapaxes(1, 2).reshape(groups * outputs, inputs // groups, *spatial)
    return swapped[(slice(None), slice(None), *[slice(None, None, -1)] * len(spatial))]


def implement(dispatching: Dispatching, graph: XlaGraph) -> tuple[Override, ...]:
    """Register both operators' kernels, for as long as the result is kept."""
    functions: dict[str, Callable[..., Any]] = {
        "matmul": _jax_matmul,
        "convolution": _jax_convolution,
    }
    return tuple(
        dispatching.implement(name, _Kernel(graph, name, function))
        for name, function in functions.items()
    )
