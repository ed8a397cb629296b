"""pad_dilated_inputs: pad the inputs of convolutions with dilated inputs.

    convolution(%x, %w), pad = [[1, 2]], lhs_dilate = [2]
    =>
    convolution(pad %x, low = [1], high = [2], interior = [1], %w)

These are gradients of convolutions with strides. LiteRT 2.3 computes them wrongly, without an
error, where the padding of both sides differs, and refuses them for most other padding. It has
those that are whole transposed convolutions: padded on both sides by the kernel's size less one.
They stay. Elements are the sums of the same products.
"""

from ..bindings import IrModule, IrOperation, attributes, find_operations
from ..convolutions import OPERATION, Convolution
from ..in_place import in_place
from ..insertion import attribute, constant, inserted, integers, resized
from ..sharding_attributes import is_sharded


@in_place
def pad_dilated_inputs(module: IrModule) -> None:
    """Pad the inputs of convolutions with `lhs_dilation`. Whole transposed convolutions stay, and
    those with dynamic shapes or shardings."""
    for convolution in find_operations(module.operation, OPERATION):
        parsed = Convolution.of(convolution)
        is_dilated = any(dilation > 1 for dilation in parsed.lhs_dilation)
        is_static = convolution.operands[0].type.has_static_shape
        if is_dilated and is_static and not (parsed.is_transposed or is_sharded(convolution)):
            _pad(convolution, parsed)


def _pad(operation: IrOperation, parsed: Convolution) -> None:
    operand = operation.operands[0]
    rank = len(operand.type.shape)
    low, high, interior, sizes = [0] * rank, [0] * rank, [0] * rank, [*operand.type.shape]
    for dim, around, dilation in zip(
        parsed.numbers.input_spatial, parsed.padding, parsed.lhs_dilation, strict=True
    ):
        (low[dim], high[dim]), interior[dim] = around, dilation - 1
        spread = (sizes[dim] - 1) * dilation + 1 if sizes[dim] else 0
        sizes[dim] = spread + sum(around)
    is_integer = str(operand.type.element_type).startswith(("i", "ui"))
    zero = constant(operation, resized(operand.type, []), "0" if is_integer else "0.0")
    operation.operands[0] = inserted(
        operation,
        "stablehlo.pad",
        resized(operand.type, sizes),
        operand,
        zero,
        edge_padding_low=integers(operation, low),
        edge_padding_high=integers(operation, high),
        interior_padding=integers(operation, interior),
    )
    spatial = len(parsed.padding)
    del operation.attributes["lhs_dilation"]
    if "padding" in attributes(operation):
        operation.attributes["padding"] = attribute(
            operation, f"dense<0> : tensor<{spatial}x2xi64>"
        )
