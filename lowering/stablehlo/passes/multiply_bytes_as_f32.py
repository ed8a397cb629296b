"""multiply_bytes_as_f32: compute matmuls of bytes, with sums in i32, as matmuls of f32.

    dot_general %x, %y : (4x8xi8, 8x2xi8) -> 4x2xi32
    =>
    convert(dot_general convert(%x), convert(%y) : (4x8xf32, 8x2xf32) -> 4x2xf32)

LiteRT 2.3 has products of bytes only as parts of quantized operators. A sum of 1,024 products of
bytes is exact in f32, so longer sums are split into parts, which are added in i32.
"""

from collections.abc import Callable, Sequence
from typing import Any

from composites.lazy_modules import lax, np

from ..bindings import dot_dimensions
from ..ir_types import IrOperation
from .expansion import expands

_TERMS = 2**24 // 2**14
"""The number of products of signed bytes whose sum f32 holds without rounding."""
_BYTES = ("i8", "ui8")


@expands("stablehlo.dot_general")
def multiply_bytes_as_f32(product: IrOperation) -> Callable[..., Any] | None:
    """Change each product of two tensors of bytes that has a result in i32."""
    elements = [str(operand.type.element_type) for operand in product.operands]
    result = str(product.results[0].type.element_type)
    if result != "i32" or any(element not in _BYTES for element in elements):
        return None
    numbers = dot_dimensions(product)
    if 0 in product.operands[0].type.shape:
        return None
    most = _TERMS // (4 if "ui8" in elements else 1)

    def multiplied(x: Any, y: Any) -> Any:
        left, left_batch = _with_terms_last(x, numbers.left_contracting, numbers.left_batch)
        right, right_batch = _with_terms_last(y, numbers.right_contracting, numbers.right_batch)
        last = ([left.ndim - 1], [right.ndim - 1])
        total: Any = None
        for start in range(0, left.shape[-1], most):
            end = min(start + most, left.shape[-1])
            parts = (
                lax.slice_in_dim(operand, start, end, axis=-1).astype(np.float32)
                for operand in (left, right)
            )
            product_of_floats = lax.dot_general(
                *parts, (last, (left_batch, right_batch)), precision="highest"
            )
            part = product_of_floats.astype(np.int32)
            total = part if total is None else total + part
        return total

    return multiplied


def _with_terms_last(
    x: Any, contracting: Sequence[int], batch: Sequence[int]
) -> tuple[Any, Sequence[int]]:
    """Move the contracting dimensions of an operand to the end, joined into one. Also return the
    new numbers of its batch dimensions."""
    outer = [dim for dim in range(x.ndim) if dim not in contracting]
    moved = lax.transpose(x, [*outer, *contracting])
    return moved.reshape(*moved.shape[: len(outer)], -1), [outer.index(dim) for dim in batch]
