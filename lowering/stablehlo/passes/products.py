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
from ..data_movement import CONVERT
from ..in_place import in_place, is_sharded, rewrites
from ..insertion import erase_unread, inserted, integers, replace_by, resized
from ..ir_types import IrModule, IrOperation, IrType, IrValue
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


_RESHAPE = "stablehlo.reshape"
_FOLLOWED = (_RESHAPE, TRANSPOSE, CONVERT, PRODUCT)


@in_place
def unmerge_batch_dimensions(module: IrModule) -> None:
    """Give products of two operands that merge the same leading dimensions these dimensions as
    batch dimensions.

        %0 = reshape %q : 2x4x16x8 -> 8x16x8       %2 = dot_general %q, %k,
        %1 = reshape %k : 2x4x8x16 -> 8x8x16   =>       batching_dims = [0, 1] x [0, 1]
        %2 = dot_general %0, %1,                        : 2x4x16x8, 2x4x8x16 -> 2x4x16x16
             batching_dims = [0] x [0]
        %3 = reshape %2 : -> 2x4x16x16

    XLA's partitioners do not keep the sharding of a dimension that is merged after another one,
    such as the heads of attention, and gather such operands on every device. Exports of the
    frontend `fx` run this pass. For torch_xla, `lowering.emission` emits composites in this form,
    and the pass is for the operations between composites, and for programs from other sources.

    Between the merge and the product there may be casts, and transposes that keep the merged
    dimension first. The numbers that are multiplied and added, and their order, stay. A compiler
    may fuse the two forms differently, so that last bits differ. Products of dynamic shape stay.
    """
    separation = _Separation()
    for operation in find_operations(module.operation, *_FOLLOWED):
        separation.visit(operation)
    erase_unread(separation.replaced, _FOLLOWED)


class _Separation:
    """The values of a module whose first dimension merges dimensions, and their unmerged forms."""

    def __init__(self) -> None:
        self._apart: dict[IrValue, IrValue] = {}
        """The value before the merge, by merged value."""
        self.replaced: list[IrValue] = []
        """The values that may be unread in the end, in program order."""

    def visit(self, operation: IrOperation) -> None:
        if operation.name == _RESHAPE:
            self._reshape(operation)
        elif operation.name == PRODUCT:
            self._dot(operation)
        elif operation.operands[0] in self._apart and _keeps_first_dimension(operation):
            self._follow(operation)

    def _reshape(self, operation: IrOperation) -> None:
        source, result = operation.operands[0], operation.results[0]
        before = self._apart.get(source)
        if before is not None and before.type == result.type:
            result.replace_all_uses_with(before)
            self.replaced.append(result)
        elif _merges(source.type, result.type):
            self._apart[result] = source
            self.replaced.append(result)

    def _follow(self, operation: IrOperation) -> None:
        """Apply the same operation to the value before the merge."""
        source, result = self._apart[operation.operands[0]], operation.results[0]
        extra = len(source.type.shape) - len(result.type.shape)
        changed: dict[str, Any] = {}
        if operation.name == TRANSPOSE:
            trailing = [int(dim) + extra for dim in attributes(operation)["permutation"]][1:]
            changed["permutation"] = integers(operation, [*range(extra + 1), *trailing])
        leading = source.type.shape[: extra + 1]
        self._apart[result] = self._new(operation, [source], leading, changed)
        self.replaced.append(result)

    def _dot(self, operation: IrOperation) -> None:
        numbers = dot_dimensions(operation)
        left, right = (self._apart.get(operand) for operand in operation.operands)
        if left is None or right is None:
            return
        if numbers.left_batch != (0,) or numbers.right_batch != (0,):
            return
        leading = _leading(left, operation.operands[0])
        if leading != _leading(right, operation.operands[1]):
            return
        extra = len(leading) - 1
        batch = tuple(range(extra + 1))
        apart = DotDimensions(
            batch,
            batch,
            tuple(dim + extra for dim in numbers.left_contracting),
            tuple(dim + extra for dim in numbers.right_contracting),
        )
        result = operation.results[0]
        product = self._new(operation, [left, right], leading, {})
        set_dot_dimensions(product.owner.operation, apart)
        merged = inserted(operation, _RESHAPE, result.type, product)
        replace_by(operation, merged)
        self._apart[merged] = product
        self.replaced.append(merged)

    def _new(
        self,
        like: IrOperation,
        operands: Sequence[IrValue],
        leading: Sequence[int],
        changed: dict[str, Any],
    ) -> IrValue:
        """The result of a copy of an operation, in front of it, with more leading dimensions."""
        type_ = like.results[0].type
        remaining = {n: a for n, a in attributes(like).items() if n not in ("xla_shape", *changed)}
        longer = resized(type_, [*leading, *type_.shape[1:]])
        created = inserted(like, like.name, longer, *operands, **remaining, **changed)
        self.replaced.append(created)
        return created


def merges(old: Sequence[int], new: Sequence[int]) -> bool:
    """Return whether a reshape from `old` to `new` sizes merges leading dimensions of which at
    least two are larger than one."""
    extra = len(old) - len(new)
    if extra < 1 or not new:
        return False
    leading, trailing = old[: extra + 1], old[extra + 1 :]
    return trailing == new[1:] and prod(leading) == new[0] and sum(size > 1 for size in leading) > 1


def _merges(before: IrType, after: IrType) -> bool:
    is_static = before.has_static_shape and after.has_static_shape
    return is_static and merges(list(before.shape), list(after.shape))


def _leading(before: IrValue, merged: IrValue) -> list[int]:
    """The dimensions that the first dimension of a merged value consists of."""
    extra = len(before.type.shape) - len(merged.type.shape)
    return list(before.type.shape[: extra + 1])


def _keeps_first_dimension(operation: IrOperation) -> bool:
    if operation.name == CONVERT:
        return True
    return int(attributes(operation)["permutation"][0]) == 0
