"""Quantized types and back, with StableHLO's own operations."""

import math

from .. import bindings
from ..bindings import building, find_operations, ir, made_by
from ..composites import composite_name, find_composites, signature
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..insertion import erase_unread, inserted, replace_by, resized
from ..ir_types import IrModule, IrOperation, IrType
from ..module import Module
from .decompositions import drop_unused_functions

QUANTIZE, DEQUANTIZE = "ptxla.quantize_per_tensor", "ptxla.dequantize_per_tensor"
_BITCAST = "stablehlo.bitcast_convert"


def to_quantized_types(module: Module) -> Module:
    """Replace composites of PyTorch's `quantize_per_tensor` and `dequantize_per_tensor`.

        %1 = composite "ptxla.quantize_per_tensor" %0 {composite_attributes = {dtype = "i8",
               quant_max = 127, quant_min = -128, scale = 0.5 : f64, zero_point = 1 : i64}, ..}
        =>
        %1 = uniform_quantize %0 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:1>>
        %2 = bitcast_convert %1 : (tensor<4x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<4xi8>

    A tensor that is quantized and dequantized with the same numbers has no integers in between.
    `from_quantized_types` reverts to arithmetic of floats.

    Scale and zero point must be attributes; composites that have them as operands stay. StableHLO
    divides by the scale, and PyTorch multiplies by the reciprocal, so that an integer can differ if
    a number lies between two integers.

    Raises:
        UnsupportedOperationError: the scale is not a positive number, or the zero point is not
            between the bounds.
    """
    result = module.copy_ir()
    for composite in find_composites(result):
        name = composite_name(composite)
        if name == QUANTIZE:
            quantized = _quantized(composite, composite.results[0].type, composite.operands[0].type)
            value = inserted(
                composite, "stablehlo.uniform_quantize", quantized, composite.operands[0]
            )
            value = inserted(composite, _BITCAST, composite.results[0].type, value)
        elif name == DEQUANTIZE:
            quantized = _quantized(composite, composite.operands[0].type, composite.results[0].type)
            value = inserted(composite, _BITCAST, quantized, composite.operands[0])
            value = inserted(
                composite, "stablehlo.uniform_dequantize", composite.results[0].type, value
            )
        else:
            continue
        replace_by(composite, value)
    for bitcast in find_operations(result.operation, _BITCAST):
        # Read the quantized tensor that the integers come from, if it has the same type.
        inner = made_by(bitcast.operands[0], _BITCAST)
        if inner is not None and inner.operands[0].type == bitcast.results[0].type:
            bitcast.results[0].replace_all_uses_with(inner.operands[0])
    bitcasts = find_operations(result.operation, _BITCAST)
    erase_unread((bitcast.results[0] for bitcast in bitcasts), [_BITCAST])
    return drop_unused_functions(Module(result))


def _quantized(composite: IrOperation, integers: IrType, floats: IrType) -> IrType:
    """The type of the quantized tensor."""
    attributes = signature(composite).python_attributes()
    low, high = attributes["quant_min"], attributes["quant_max"]
    scale, zero_point = attributes["scale"], attributes["zero_point"]
    if not (scale > 0 and math.isfinite(scale) and low <= zero_point <= high):
        raise UnsupportedOperationError(
            f"{composite_name(composite)} has the scale {scale} and the zero point {zero_point};"
            f" quantized types have a positive scale, and a zero point from {low} to {high}"
        )
    width = str(integers.element_type).removeprefix("u").removeprefix("i")
    storage = f"u{width}" if low >= 0 else f"i{width}"
    element = (
        f"!quant.uniform<{storage}<{low}:{high}>:{floats.element_type}, {scale!r}:{zero_point}>"
    )
    with building(composite.context):
        return resized(floats, element=ir().Type.parse(element))


# The first pass broadcasts with CHLO, which jaxlib 0.7.1 expands as if sizes varied.
_PASSES = (
    *("stablehlo-legalize-quant-to-math", "chlo-legalize-to-stablehlo", "canonicalize"),
    *("shape-legalize-to-stablehlo", "stablehlo-canonicalize-dynamism", "canonicalize", "cse"),
)


@in_place
def from_quantized_types(module: IrModule) -> None:
    """Replace quantized types by integers, and their operations by arithmetic (official passes).

        %1 = uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<4xf32>
        =>
        %1 = convert %0 : (tensor<4xi8>) -> tensor<4xi32>     and a subtraction, a multiplication

    Raises:
        VerificationError: the passes have no rule for an operation.
    """
    bindings.run_pipeline(module, f"builtin.module(func.func({','.join(_PASSES)}))")
    for bitcast in find_operations(module.operation, "stablehlo.bitcast_convert"):
        if bitcast.operands[0].type == bitcast.results[0].type:
            replace_by(bitcast, bitcast.operands[0])
