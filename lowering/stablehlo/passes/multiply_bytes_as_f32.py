"""multiply_bytes_as_f32: matrix products of bytes, with sums in i32, as products of f32.

    dot_general %x, %y : (4x8xi8, 8x2xi8) -> 4x2xi32
    =>
    convert(dot_general convert(%x), convert(%y) : (4x8xf32, 8x2xf32) -> 4x2xf32)

LiteRT 2.3 has products of bytes only as parts of quantized operators. A sum of 1,024 products of
bytes is a number of f32, so longer sums are made of parts, which are added in i32.
"""

from collections.abc import Callable
from typing import Any

from ..bindings import IrOperation, dot_dimensions
from .expansion import expands

_TERMS = 2**24 // 2**14
"""How many products of bytes with signs f32 adds up without rounding."""
_BYTES = ("i8", "ui8")


@expands("stablehlo.dot_general")
def multiply_bytes_as_f32(product: IrOperation) -> Callable[..., Any] | None:
    """Change each product of two tensors of bytes that has a result in i32."""
    elements = [str(operand.type.element_type) for operand in product.operands]
    result = str(product.results[0].type.element_type)
    if result != "i32" or any(element not in _BYTES for element in elements):
        return None
    numbers = dot_dimensions(product)
    contracting = numbers.left_contracting, numbers.right_contracting
    if 0 in product.operands[0].type.shape:
        return None
    dimensions = contracting, (numbers.left_batch, numbers.right_batch)

    def multiplied(x: Any, y: Any) -> Any:
        import numpy as np
        from jax import lax

        if not contracting[0]:
            return lax.dot_general(x.astype(np.float32), y.astype(np.float32), dimensions)
        total: Any = None
        left, right = contracting[0][0], contracting[1][0]
        others = np.prod([x.shape[dim] for dim in contracting[0][1:]], dtype=int)
        step = max(1, _TERMS // (4 if "ui8" in elements else 1) // max(1, int(others)))
        for start in range(0, x.shape[left], step):
            end = min(start + step, x.shape[left])
            parts = (
                lax.slice_in_dim(x, start, end, axis=left).astype(np.float32),
                lax.slice_in_dim(y, start, end, axis=right).astype(np.float32),
            )
            part = lax.dot_general(*parts, dimensions, precision="highest").astype(np.int32)
            total = part if total is None else total + part
        return total

    return multiplied
