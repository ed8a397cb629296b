"""Instructions of a graph that count as work."""

from collections.abc import Sequence
from typing import Any

from lowering.emission import hlo_proto
from lowering.hlo.work import count, read_work


def instruction(number: int, opcode: str, *operands: int, **fields: Any) -> Any:
    return hlo_proto.Instruction(id=number, opcode=opcode, operand_ids=operands, **fields)


def module(*computations: Sequence[Any]) -> Any:
    """A module whose first computation is the entry. Computations have the ids 100, 101, …"""
    made = [
        hlo_proto.Computation(id=100 + n, instructions=instructions)
        for n, instructions in enumerate(computations)
    ]
    return hlo_proto.Module(computations=made, entry_computation_id=100)


def test_parameters_tuples_and_products_are_no_work() -> None:
    graph = module(
        [
            instruction(1, "parameter"),
            instruction(2, "transpose", 1),
            instruction(3, "dot", 1, 2),
            instruction(4, "reshape", 3),
            instruction(5, "transpose", 4),
            instruction(6, "add", 5, 1),
            instruction(7, "transpose", 6),
            instruction(8, "tuple", 7),
        ]
    )
    assert count(graph) == ({"add": 1, "transpose": 1}, 0)
    assert [w.instruction.id for w in read_work(graph) if w.is_product] == [3]
    assert [o.id for w in read_work(graph) if w.instruction.id == 6 for o in w.operands] == [5, 1]


def test_what_a_call_holds_is_counted_but_not_what_a_composite_holds() -> None:
    graph = module(
        [
            instruction(1, "parameter"),
            instruction(2, "call", 1, called_computation_ids=[101]),
            instruction(3, "call", 2, called_computation_ids=[102], is_composite=True),
        ],
        [instruction(4, "parameter"), instruction(5, "exponential", 4)],
        [instruction(6, "parameter"), instruction(7, "sine", 6)],
    )
    assert count(graph) == ({"exponential": 1}, 1)
    assert [w.instruction.id for w in read_work(graph) if w.is_composite] == [3]
