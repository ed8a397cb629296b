"""order_contractions: give contracting dimensions the same order in both operands of a product.

    dot_general %x, %y, contracting_dims = [0, 2] x [1, 0]
    =>
    %0 = transpose %y, dims = [1, 0]
    dot_general %x, %0, contracting_dims = [0, 2] x [0, 1]

LiteRT 2.3 pairs contracting dimensions in the order of each operand's dimensions, so that it
computes another product, without an error. Bilinear upsampling and `einsum` have such products.
Elements are the sums of the same products.
"""

from dataclasses import replace

from ..bindings import DotDimensions, dot_dimensions, dot_dimensions_attribute
from ..in_place import rewrites
from ..insertion import inserted, integers, resized
from ..ir_types import IrOperation


@rewrites("stablehlo.dot_general")
def order_contractions(product: IrOperation) -> None:
    """Transpose the second operand of each product that pairs dimensions in another order than that
    of both operands. Products with shardings stay."""
    numbers = _by_first_operand(dot_dimensions(product))
    in_order = tuple(sorted(numbers.right_contracting))
    if numbers.right_contracting != in_order:
        _transpose(product, numbers.right_contracting, in_order)
        ordered = replace(numbers, right_contracting=in_order)
        attribute = dot_dimensions_attribute(ordered, product.context)
        product.attributes["dot_dimension_numbers"] = attribute


def _by_first_operand(numbers: DotDimensions) -> DotDimensions:
    """The same pairs of dimensions, in the order of the first operand's dimensions."""
    pairs = sorted(zip(numbers.left_contracting, numbers.right_contracting, strict=True))
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    return replace(numbers, left_contracting=tuple(left), right_contracting=tuple(right))


def _transpose(product: IrOperation, dims: tuple[int, ...], positions: tuple[int, ...]) -> None:
    """Move dimensions of the second operand to `positions`."""
    operand = product.operands[1]
    order = [*range(len(operand.type.shape))]
    for dim, position in zip(dims, positions, strict=True):
        order[position] = dim
    sizes = [operand.type.shape[dim] for dim in order]
    product.operands[1] = inserted(
        product,
        "stablehlo.transpose",
        resized(operand.type, sizes),
        operand,
        permutation=integers(product, order),
    )
