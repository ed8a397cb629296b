"""Products that read the transposes of matrices, in what is emitted where devices share a graph."""

from typing import Any

import pytest
from composites_testing.hlo import add, stays

from lowering.emission import hlo_proto
from lowering.emission.products import fold_transposes


def product(order: list[int], batch: int) -> Any:
    """`dot(x, transpose(y))`, with so many batch dimensions; the product is over the first
    dimension behind them of what the transpose gives."""
    leading = (2, 3)[:batch]
    y = (*leading, 5, 4)
    x = (*leading, 7, tuple(y[dimension] for dimension in order)[batch])
    turned = [y[dimension] for dimension in order]
    body = hlo_proto.Computation(id=1)
    add(body, "parameter", (), x)
    add(body, "parameter", (), y)
    add(body, "transpose", (2,), turned, dimensions=order)
    numbers = add(body, "dot", (1, 3), (*leading, 7, turned[-1])).dot_dimension_numbers
    numbers.lhs_batch_dimensions.extend(range(batch))
    numbers.rhs_batch_dimensions.extend(range(batch))
    numbers.lhs_contracting_dimensions.append(batch + 1)
    numbers.rhs_contracting_dimensions.append(batch)
    body.root_id = 4
    return body


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_matrix_is_read_as_it_is_given(batch: int) -> None:
    body = product([*range(batch), batch + 1, batch], batch)
    fold_transposes(body)
    dot = body.instructions[-1]
    assert list(dot.operand_ids) == [1, 2]
    assert list(dot.dot_dimension_numbers.rhs_contracting_dimensions) == [batch + 1]
    assert list(dot.dot_dimension_numbers.lhs_contracting_dimensions) == [batch + 1]
    # What is multiplied has the same size on both sides, as before.
    x, y = (body.instructions[index].shape.dimensions for index in (0, 1))
    assert x[batch + 1] == y[batch + 1]


def test_other_transposes_stay() -> None:
    """Transposes of batches, of batches and rows, and of all dimensions stay."""
    for order, batch in (([1, 0, 2, 3], 2), ([0, 2, 1, 3], 2), ([2, 0, 1], 1)):
        stays(product(order, batch), fold_transposes)
