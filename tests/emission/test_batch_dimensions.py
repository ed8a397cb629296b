"""Products over merged batch dimensions, in what is emitted."""

from functools import partial
from typing import Any

import pytest
from composites_testing.hlo import add, assert_in_order, stays

from lowering.emission import hlo_proto
from lowering.emission.products import separate_batch_dimensions

Row = tuple[str, tuple[int, ...], tuple[int, ...]]
"""Opcode, operands' numbers, and dimensions."""


def _body(*rows: Row, type_: str = "f32") -> Any:
    """A computation of rows, of which the last one is the root."""
    body = hlo_proto.Computation(id=1)
    for opcode, operands, dimensions in rows:
        instruction = add(body, opcode, operands, dimensions, type_)
        if opcode == "transpose":
            instruction.dimensions.extend([0, 2, 1])
        if opcode == "dot":
            numbers = instruction.dot_dimension_numbers
            numbers.lhs_batch_dimensions.append(0)
            numbers.rhs_batch_dimensions.append(0)
            numbers.lhs_contracting_dimensions.append(2)
            numbers.rhs_contracting_dimensions.append(1)
    body.root_id = len(rows)
    return body


def _reached(body: Any) -> list[Any]:
    by_id = {item.id: item for item in body.instructions}
    reached, pending = [], [body.root_id]
    while pending:
        instruction = by_id[pending.pop()]
        reached.append(instruction)
        pending.extend(instruction.operand_ids)
    return reached


SCORES = (
    ("parameter", (), (2, 4, 16, 8)),
    ("reshape", (1,), (8, 16, 8)),
    ("parameter", (), (2, 4, 16, 8)),
    ("reshape", (3,), (8, 16, 8)),
    ("transpose", (4,), (8, 8, 16)),
    ("dot", (2, 5), (8, 16, 16)),
    ("reshape", (6,), (2, 4, 16, 16)),
)


def test_batch_and_heads_are_apart() -> None:
    body = _body(*SCORES)
    separate_batch_dimensions(body, keep_roundings=True)
    reached = _reached(body)
    assert sorted(item.opcode for item in reached) == ["dot", "parameter", "parameter", "transpose"]
    dot = next(item for item in reached if item.opcode == "dot")
    numbers = dot.dot_dimension_numbers
    assert dot.id == body.root_id
    assert list(dot.shape.dimensions) == [2, 4, 16, 16]
    assert list(numbers.lhs_batch_dimensions) == list(numbers.rhs_batch_dimensions) == [0, 1]
    assert list(numbers.lhs_contracting_dimensions) == [3]
    assert list(numbers.rhs_contracting_dimensions) == [2]
    transpose = next(item for item in reached if item.opcode == "transpose")
    assert list(transpose.dimensions) == [0, 1, 3, 2]
    assert list(transpose.shape.dimensions) == [2, 4, 8, 16]


def test_operands_come_before_their_users() -> None:
    body = _body(*SCORES)
    separate_batch_dimensions(body, keep_roundings=True)
    assert_in_order(body)


def test_a_merged_result_that_is_used_stays() -> None:
    body = _body(*SCORES[:-1])
    separate_batch_dimensions(body, keep_roundings=True)
    root = next(item for item in body.instructions if item.id == body.root_id)
    assert root.opcode == "reshape"
    assert list(root.shape.dimensions) == [8, 16, 16]
    assert [item.opcode for item in _reached(body)].count("dot") == 1


LEFT: dict[str, tuple[Row, ...]] = {
    "not merged": (
        ("parameter", (), (8, 16, 8)),
        ("parameter", (), (8, 8, 16)),
        ("dot", (1, 2), (8, 16, 16)),
    ),
    **{
        name: (
            ("parameter", (), one),
            ("reshape", (1,), (8, 16, 8)),
            ("parameter", (), other),
            ("reshape", (3,), (8, 8, 16)),
            ("dot", (2, 4), (8, 16, 16)),
        )
        for name, one, other in (
            ("nothing to merge", (1, 8, 16, 8), (1, 8, 8, 16)),
            ("merged otherwise", (2, 4, 16, 8), (4, 2, 8, 16)),
        )
    },
}


@pytest.mark.parametrize("keep_roundings", [True, False])
def test_what_is_left_as_it_is(keep_roundings: bool) -> None:
    """Products that are rounded, and those with a wider result, are left as they are, too."""
    separate = partial(separate_batch_dimensions, keep_roundings=keep_roundings)
    for rows in LEFT.values():
        stays(_body(*rows), separate)
    narrow = _body(*SCORES, type_="bf16")
    if not keep_roundings:
        for instruction in narrow.instructions[5:]:
            instruction.shape.element_type = hlo_proto.PRIMITIVE_TYPES["f32"]
    stays(narrow, separate)


def test_narrow_products_where_roundings_are_kept_anyway() -> None:
    body = _body(*SCORES, type_="bf16")
    separate_batch_dimensions(body, keep_roundings=False)
    assert [item.opcode for item in _reached(body)].count("reshape") == 0
