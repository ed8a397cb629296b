"""fold_transposes: let products with a vector read a transposed matrix in its order in memory.

    %0 = transpose %w, dims = [1, 0]
    dot_general %x, %0, contracting_dims = [1] x [0]   =>   dot_general %x, %w, [1] x [1]

In this example %x is 1x512, as when a language model decodes one token. XLA:CPU (jaxlib 0.10 to
0.12) would copy the transposed matrix first, which takes five times as long as the product. XLA
folds larger products itself. The order of the sums changes.
"""

from dataclasses import replace
from math import prod

from ..bindings import (
    DotDimensions,
    attributes,
    dot_dimensions,
    dot_dimensions_attribute,
    find_operations,
    ir,
    made_by,
)
from ..in_place import in_place, is_sharded
from ..insertion import erase_unread
from ..ir_types import IrModule, IrOperation, IrValue

PRODUCT, TRANSPOSE = "stablehlo.dot_general", "stablehlo.transpose"
_OPERANDS = {"left": 0, "right": 1}


@in_place
def fold_transposes(module: IrModule) -> None:
    """Fold the transpose of a matrix into each of its products with a vector.

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
        attribute = dot_dimensions_attribute(replace(numbers, **moved), product.context)
        product.attributes["dot_dimension_numbers"] = attribute
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
