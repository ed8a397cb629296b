"""pad_dilated_inputs: pad the inputs of convolutions with dilated inputs.

    convolution(%x, %w), pad = [[1, 2]], lhs_dilate = [2]
    =>
    convolution(pad %x, low = [1], high = [2], interior = [1], %w)

Such operations are gradients of convolutions with strides. LiteRT 2.3 computes wrong results,
without an error, if the padding of both sides differs, and refuses most other padding. It supports
full transposed convolutions, which are padded on both sides by the kernel's size less one. They
stay. Elements are the sums of the same products.
"""

from typing import Any

from composites.lazy_modules import lax

from ..bindings import attributes
from ..convolutions import OPERATION, Convolution
from ..in_place import rewrites
from ..insertion import attribute
from ..ir_types import IrOperation
from .expansion import computed


@rewrites(OPERATION)
def pad_dilated_inputs(operation: IrOperation) -> None:
    """Pad the inputs of convolutions with `lhs_dilation`. Full transposed convolutions stay, and so
    do convolutions with dynamic shapes or shardings."""
    parsed = Convolution.parse(operation)
    is_dilated = any(dilation > 1 for dilation in parsed.lhs_dilation)
    if not is_dilated or parsed.is_transposed or not operation.operands[0].type.has_static_shape:
        return

    def padded(x: Any) -> Any:
        around = [(0, 0, 0)] * x.ndim
        for dim, (low, high), dilation in zip(
            parsed.numbers.input_spatial_dimensions,
            parsed.padding,
            parsed.lhs_dilation,
            strict=True,
        ):
            around[dim] = (low, high, dilation - 1)
        return lax.pad(x, x.dtype.type(0), around)

    (operation.operands[0],) = computed(operation, padded, operation.operands[0])
    spatial = len(parsed.padding)
    del operation.attributes["lhs_dilation"]
    if "padding" in attributes(operation):
        operation.attributes["padding"] = attribute(
            operation, f"dense<0> : tensor<{spatial}x2xi64>"
        )
