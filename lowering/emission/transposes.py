"""Products read matrices directly, instead of their transposes.

    transposed = f32[64,128] transpose(weight: f32[128,64])
    dot(x, transposed), rhs_contracting_dims={0}  =>  dot(x, weight), rhs_contracting_dims={1}

XLA does the same, but after its partitioner, which gathers a matrix and its transpose separately. A
backward that computes a product again needs both: a linear layer multiplies by the transpose of its
weight, and the gradient of its input by the weight itself.
"""

from collections.abc import Sequence
from typing import Any


def fold_transposes(body: Any) -> None:
    """Rewrite, in place, the products of a computation (protobuf) that read the transposes of
    matrices, or of stacks of matrices. Transposes that nothing uses any more stay."""
    by_id = {item.id: item for item in body.instructions}
    for item in body.instructions:
        numbers = item.dot_dimension_numbers
        if item.opcode != "dot":
            continue
        for position, contracted, batch in (
            (0, numbers.lhs_contracting_dimensions, numbers.lhs_batch_dimensions),
            (1, numbers.rhs_contracting_dimensions, numbers.rhs_batch_dimensions),
        ):
            operand = by_id[item.operand_ids[position]]
            if operand.opcode == "transpose" and _is_of_matrices(operand, batch):
                item.operand_ids[position] = operand.operand_ids[0]
                contracted[:] = [operand.dimensions[dimension] for dimension in contracted]


def _is_of_matrices(transpose: Any, batch: Sequence[int]) -> bool:
    """Return whether a transpose exchanges the last two dimensions, and the others are a batch."""
    order = list(transpose.dimensions)
    matrix = len(order) - 2
    stays = list(range(matrix))
    return order == [*stays, matrix + 1, matrix] and list(batch) == stays
