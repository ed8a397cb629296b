"""unmerge_batch_dimensions: keep the batch dimensions of products separate.

    %0 = reshape %q : 2x4x16x8 -> 8x16x8       %2 = dot_general %q, %k,
    %1 = reshape %k : 2x4x8x16 -> 8x8x16   =>       batching_dims = [0, 1] x [0, 1]
    %2 = dot_general %0, %1,                        : 2x4x16x8, 2x4x8x16 -> 2x4x16x16
         batching_dims = [0] x [0]
    %3 = reshape %2 : -> 2x4x16x16

XLA's partitioners do not keep the sharding of a dimension that is merged after another one, such as
the heads of attention, and gather such operands on every device. Exports of the frontend `fx` run
this pass. For torch_xla, `lowering.emission` emits composites in this form, and the pass is for the
operations between composites, and for programs from other sources.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from ..bindings import (
    DotDimensions,
    attributes,
    dot_dimensions,
    find_operations,
    set_dot_dimensions,
)
from ..data_movement import CONVERT
from ..in_place import in_place
from ..insertion import erase_unread, inserted, integers, replace_by, resized
from ..ir_types import IrModule, IrOperation, IrType, IrValue

_RESHAPE, _TRANSPOSE, _DOT = "stablehlo.reshape", "stablehlo.transpose", "stablehlo.dot_general"
_FOLLOWED = (_RESHAPE, _TRANSPOSE, CONVERT, _DOT)


@in_place
def unmerge_batch_dimensions(module: IrModule) -> None:
    """Give products of two operands that merge the same leading dimensions these dimensions as
    batch dimensions.

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
        elif operation.name == _DOT:
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
        if operation.name == _TRANSPOSE:
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
