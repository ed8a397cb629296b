"""Products over merged batch dimensions, in what is emitted."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.emission import hlo_proto
from lowering.emission.batch_dimensions import separate_batch_dimensions


def _body(*rows: tuple[str, str, tuple[int, ...], tuple[int, ...]], type_: str = "f32") -> Any:
    """A computation of rows of opcode, name, operands' numbers and dimensions. The last one is the
    root."""
    body = hlo_proto.Computation(id=1)
    for number, (opcode, _, operands, dimensions) in enumerate(rows, 1):
        instruction = body.instructions.add(
            opcode=opcode,
            id=number,
            operand_ids=operands,
            shape=hlo_proto.array_shape(type_, dimensions),
        )
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
    found, pending = [], [body.root_id]
    while pending:
        instruction = by_id[pending.pop()]
        found.append(instruction)
        pending.extend(instruction.operand_ids)
    return found


SCORES = (
    ("parameter", "query", (), (2, 4, 16, 8)),
    ("reshape", "", (1,), (8, 16, 8)),
    ("parameter", "key", (), (2, 4, 16, 8)),
    ("reshape", "", (3,), (8, 16, 8)),
    ("transpose", "", (4,), (8, 8, 16)),
    ("dot", "", (2, 5), (8, 16, 16)),
    ("reshape", "", (6,), (2, 4, 16, 16)),
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
    seen: set[int] = set()
    for instruction in body.instructions:
        assert set(instruction.operand_ids) <= seen
        assert instruction.id not in seen
        seen.add(instruction.id)


def test_a_merged_result_that_is_used_stays() -> None:
    body = _body(*SCORES[:-1])
    separate_batch_dimensions(body, keep_roundings=True)
    root = next(item for item in body.instructions if item.id == body.root_id)
    assert root.opcode == "reshape"
    assert list(root.shape.dimensions) == [8, 16, 16]
    assert [item.opcode for item in _reached(body)].count("dot") == 1


@pytest.mark.parametrize(
    ("rows", "type_"),
    [
        (
            (
                ("parameter", "", (), (8, 16, 8)),
                ("parameter", "", (), (8, 8, 16)),
                ("dot", "", (1, 2), (8, 16, 16)),
            ),
            "f32",
        ),
        (
            (
                ("parameter", "", (), (1, 8, 16, 8)),
                ("reshape", "", (1,), (8, 16, 8)),
                ("parameter", "", (), (1, 8, 8, 16)),
                ("reshape", "", (3,), (8, 8, 16)),
                ("dot", "", (2, 4), (8, 16, 16)),
            ),
            "f32",
        ),
        (
            (
                ("parameter", "", (), (2, 4, 16, 8)),
                ("reshape", "", (1,), (8, 16, 8)),
                ("parameter", "", (), (4, 2, 8, 16)),
                ("reshape", "", (3,), (8, 8, 16)),
                ("dot", "", (2, 4), (8, 16, 16)),
            ),
            "f32",
        ),
        (SCORES, "bf16"),
    ],
    ids=["not merged", "nothing to merge", "merged otherwise", "rounded"],
)
def test_what_is_left_as_it_is(rows: Any, type_: str) -> None:
    body = _body(*rows, type_=type_)
    before = body.SerializeToString(deterministic=True)
    separate_batch_dimensions(body, keep_roundings=True)
    assert body.SerializeToString(deterministic=True) == before


def test_narrow_products_where_roundings_are_kept_anyway() -> None:
    body = _body(*SCORES, type_="bf16")
    separate_batch_dimensions(body, keep_roundings=False)
    assert [item.opcode for item in _reached(body)].count("reshape") == 0


def test_products_with_a_wider_result_are_left() -> None:
    body = _body(*SCORES, type_="bf16")
    for instruction in body.instructions[5:]:
        instruction.shape.element_type = hlo_proto.PRIMITIVE_TYPES["f32"]
    before = body.SerializeToString(deterministic=True)
    separate_batch_dimensions(body, keep_roundings=False)
    assert body.SerializeToString(deterministic=True) == before
