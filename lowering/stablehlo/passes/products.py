"""Products in the forms that consumers compute correctly, or fast."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from composites.lazy_modules import lax, np

from ..bindings import (
    DotDimensions,
    attributes,
    dot_dimensions,
    find_operations,
    ir,
    made_by,
    set_dot_dimensions,
)
from ..in_place import in_place, is_sharded, rewrites
from ..insertion import erase_unread, inserted, integers, resized
from ..ir_types import IrModule, IrOperation, IrValue
from .expansion import expands

PRODUCT, TRANSPOSE = "stablehlo.dot_general", "stablehlo.transpose"
_OPERANDS = {"left": 0, "right": 1}


@in_place
def fold_transposes(module: IrModule) -> None:
    """Let products with a vector read a transposed matrix in its order in memory.

        %0 = transpose %w, dims = [1, 0]
        dot_general %x, %0, contracting_dims = [1] x [0]   =>   dot_general %x, %w, [1] x [1]

    In this example %x is 1x512, as when a language model decodes one token. XLA:CPU (jaxlib 0.10 to
    0.12) would copy the transposed matrix first, which takes five times as long as the product. XLA
    folds larger products itself. The order of the sums changes.

    Products of dynamic shape or with shardings stay, and so do products whose dimensions would be
    in another order.
    """
    folded: list[IrValue] = []
    for product in find_operations(module.operation, PRODUCT):
        if not is_sharded(product):
            folded += _fold(product)
    erase_unread(folded, (TRANSPOSE,))


def has_vectors(module: IrModule) -> bool:
    """Return whether an operand of a product is a vector or a batch of vectors."""
    return any(
        _is_vector(product, dot_dimensions(product), side)
        for product in find_operations(module.operation, PRODUCT)
        for side in _OPERANDS
    )


def _fold(product: IrOperation) -> list[IrValue]:
    """Fold the transposes of a product's operands, and return these operands."""
    folded = []
    for side, opposite in (("left", "right"), ("right", "left")):
        numbers = dot_dimensions(product)
        operand = product.operands[_OPERANDS[side]]
        transpose = made_by(operand, TRANSPOSE)
        if transpose is None:
            continue
        permutation = list(ir().DenseI64ArrayAttr(attributes(transpose)["permutation"]))
        free = [permutation[dim] for dim in _free(operand, numbers, side)]
        if free != sorted(free) or not _is_vector(product, numbers, opposite):
            continue
        moved = {
            name: tuple(permutation[dim] for dim in getattr(numbers, name))
            for name in (f"{side}_batch", f"{side}_contracting")
        }
        product.operands[_OPERANDS[side]] = transpose.operands[0]
        set_dot_dimensions(product, replace(numbers, **moved))
        folded.append(operand)
    return folded


def _free(operand: IrValue, numbers: DotDimensions, side: str) -> list[int]:
    """The dimensions of an operand that are neither batch dimensions nor contracting dimensions."""
    used = {*getattr(numbers, f"{side}_batch"), *getattr(numbers, f"{side}_contracting")}
    return [dim for dim in range(len(operand.type.shape)) if dim not in used]


def _is_vector(product: IrOperation, numbers: DotDimensions, side: str) -> bool:
    operand = product.operands[_OPERANDS[side]]
    if not operand.type.has_static_shape:
        return False
    rows: int = prod(operand.type.shape[dim] for dim in _free(operand, numbers, side))
    return rows == 1


@rewrites(PRODUCT)
def order_contractions(product: IrOperation) -> None:
    """Give contracting dimensions the same order in both operands, by a transpose of the second.

        dot_general %x, %y, contracting_dims = [0, 2] x [1, 0]
        =>
        %0 = transpose %y, dims = [1, 0]
        dot_general %x, %0, contracting_dims = [0, 2] x [0, 1]

    LiteRT 2.3 pairs contracting dimensions in the order of each operand's dimensions, so that it
    computes another product, without an error. Bilinear upsampling and `einsum` have such products.
    Elements are the sums of the same products.

    Products with shardings stay.
    """
    numbers, operand = dot_dimensions(product), product.operands[1]
    pairs = sorted(zip(numbers.left_contracting, numbers.right_contracting, strict=True))
    left, right = (tuple(pair[side] for pair in pairs) for side in (0, 1))
    in_order = tuple(sorted(right))
    if right == in_order:
        return
    order = [*range(len(operand.type.shape))]
    for dim, position in zip(right, in_order, strict=True):
        order[position] = dim
    type_ = resized(operand.type, [operand.type.shape[dim] for dim in order])
    written = {"permutation": integers(product, order)}
    product.operands[1] = inserted(product, TRANSPOSE, type_, operand, **written)
    ordered = replace(numbers, left_contracting=left, right_contracting=in_order)
    set_dot_dimensions(product, ordered)


_TERMS = 2**24 // 2**14
"""The number of products of signed bytes whose sum f32 holds without rounding."""
_BYTES = ("i8", "ui8")


@expands(PRODUCT)
def multiply_bytes_as_f32(product: IrOperation) -> Callable[..., Any] | None:
    """Compute matmuls of two tensors of bytes, with a result in i32, as matmuls of f32.

        dot_general %x, %y : (4x8xi8, 8x2xi8) -> 4x2xi32
        =>
        convert(dot_general convert(%x), convert(%y) : (4x8xf32, 8x2xf32) -> 4x2xf32)

    LiteRT 2.3 has products of bytes only as parts of quantized operators. A sum of 1,024 products
    of bytes is exact in f32, so longer sums are split into parts, which are added in i32.
    """
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
