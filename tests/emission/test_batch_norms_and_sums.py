"""Emission where devices share a graph: batch norms as other instructions, and one sum in place of
several. The numbers stay, up to rounding."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from composites_testing.hlo import add, assert_in_order, opcodes, results_of, stays

from lowering.emission import hlo_proto
from lowering.emission.batch_norms import expand_batch_norms
from lowering.emission.builder import insertable
from lowering.emission.simplify import inline_calls
from lowering.emission.sums import merge_sums

FULL, FEATURES = (4, 3, 5), (3,)


def shape(dimensions: tuple[int, ...], type_: str = "f32") -> Any:
    return hlo_proto.array_shape(type_, dimensions)


def entry(*operands: tuple[int, ...], type_: str = "f32") -> Any:
    """A computation with parameters of these dimensions."""
    body = hlo_proto.Computation(name="main.1", id=1)
    for number, dimensions in enumerate(operands):
        add(body, "parameter", (), dimensions, type_, parameter_number=number)
        body.program_shape.parameters.append(shape(dimensions, type_))
    return body


def returning(body: Any, *results: tuple[str, list[int], tuple[int, ...]], **fields: Any) -> None:
    """Add an instruction with a tuple of results, and return it."""
    opcode, operands, _ = results[0]
    made = body.instructions.add(
        opcode=opcode, id=len(body.instructions) + 1, operand_ids=operands, **fields
    )
    made.shape.element_type = hlo_proto.TUPLE
    kind = body.program_shape.parameters[0].element_type
    for _, _, dimensions in results:
        made.shape.tuple_shapes.append(shape(dimensions, hlo_proto.ELEMENT_TYPE_NAMES[kind]))
    body.program_shape.result.CopyFrom(made.shape)
    body.root_id = made.id


def numbers_of(body: Any, callees: list[Any], *values: np.ndarray) -> list[np.ndarray]:
    module = hlo_proto.Module(
        name="m.1", entry_computation_id=body.id, computations=[*callees, body]
    )
    insertable(module)
    return results_of(module, *values)


def values(*dimensions: tuple[int, ...], type_: str = "f32") -> list[np.ndarray]:
    made = np.random.default_rng(0)
    dtype = np.float32 if type_ == "f32" else np.float64
    return [(made.standard_normal(sizes) + 2).astype(dtype) for sizes in dimensions]


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("opcode", ["batch-norm-training", "batch-norm-grad"])
def test_a_batch_norm_is_expanded(opcode: str, type_: str) -> None:
    gradient = opcode == "batch-norm-grad"
    operands = [FULL, FEATURES, FEATURES, *([FEATURES, FULL] if gradient else [])]

    def made() -> Any:
        body = entry(*operands, type_=type_)
        reads = list(range(1, len(operands) + 1))
        fields = {"epsilon": 1e-3, "feature_index": 1}
        returning(body, (opcode, reads, FULL), *[(opcode, reads, FEATURES)] * 2, **fields)
        return body

    arrays = values(*operands, type_=type_)
    body = made()
    if gradient:  # as the forward gives them
        arrays[2], arrays[3] = arrays[0].mean((0, 2)), arrays[0].var((0, 2))
    norms = expand_batch_norms(body, 2)
    inline_calls(body, {norm.id: norm for norm in norms})
    assert not {opcode, "call"} & {*opcodes(body)}
    actual, right = numbers_of(body, norms, *arrays), numbers_of(made(), [], *arrays)
    for mine, expected in zip(actual, right, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=2e-5, atol=2e-5)


def test_narrow_norms_stay() -> None:
    body = entry(FULL, FEATURES, FEATURES, type_="bf16")
    returning(body, ("batch-norm-training", [1, 2, 3], FULL), *[("", [], FEATURES)] * 2)
    stays(body, partial(expand_batch_norms, free_id=2))


def adding() -> Any:
    made = entry((), ())
    made.name, made.id = "sum.1", 7
    add(made, "add", [1, 2], ())
    made.program_shape.result.CopyFrom(shape(()))
    made.root_id = 3
    return made


def merge(body: Any) -> None:
    merge_sums(body, {7: adding()})


def summing(*instructions: tuple[str, list[int]], over: Sequence[int] = (1,)) -> Any:
    """Sums of both operands over the last dimension, or over others, between other operations."""
    body = entry((4, 5), (4, 5))
    zero = hlo_proto.literal(np.zeros((), np.float32), shape(()))
    add(body, "constant", (), (), literal=zero)
    left = tuple(size for dimension, size in enumerate((4, 5)) if dimension not in over)
    results = []
    for number, (opcode, operands) in enumerate(instructions, 4):
        fields: dict[str, Any] = {}
        if opcode == "reduce":
            fields = {"dimensions": over, "called_computation_ids": [7]}
        if opcode == "broadcast":
            fields = {"dimensions": [0]}
        sizes = left if opcode == "reduce" else (4, 5)
        add(body, opcode, operands, sizes, **fields)
        if opcode == "reduce":
            results.append(number)
    returning(body, ("tuple", results, left), *[("", [], left)] * (len(results) - 1))
    return body


def test_two_sums_are_one() -> None:
    body = summing(("reduce", [1, 3]), ("multiply", [1, 2]), ("reduce", [5, 3]))
    merge(body)
    assert opcodes(body).count("reduce") == 1
    assert_in_order(body)
    x, y = values((4, 5), (4, 5))
    right = [x.sum(1), (x * y).sum(1)]
    np.testing.assert_allclose(numbers_of(body, [adding()], x, y), right, rtol=1e-5)


def test_equal_sums_are_one_without_a_copy() -> None:
    body = summing(("reduce", [1, 3]), ("reduce", [1, 3]), ("reduce", [2, 3]), ("reduce", [1, 3]))
    merge(body)
    assert opcodes(body).count("reduce") == 1
    joined = next(item for item in body.instructions if item.opcode == "concatenate")
    assert list(joined.shape.dimensions) == [2, 4, 5]
    x, y = values((4, 5), (4, 5))
    sums = numbers_of(body, [adding()], x, y)
    np.testing.assert_allclose(sums, [summed.sum(1) for summed in (x, x, y, x)], rtol=1e-5)

    body = summing(("reduce", [1, 3]), ("reduce", [1, 3]))
    merge(body)
    assert opcodes(body).count("reduce") == 1
    assert "concatenate" not in opcodes(body)
    np.testing.assert_allclose(numbers_of(body, [adding()], x, y), [x.sum(1)] * 2, rtol=1e-5)


def test_sums_of_all_numbers_stay() -> None:
    body = summing(*[("reduce", [1, 3]), ("reduce", [2, 3])], over=[0, 1])
    stays(body, merge)
    x, y = values((4, 5), (4, 5))
    sums = numbers_of(body, [adding()], x, y)
    np.testing.assert_allclose(sums, [x.sum(), y.sum()], rtol=1e-5)


def test_sums_that_depend_on_each_other_stay() -> None:
    chain = (("reduce", [1, 3]), ("broadcast", [4]), ("add", [5, 2]), ("reduce", [6, 3]))
    stays(summing(*chain), merge)


def test_two_groups_make_no_cycle() -> None:
    """Two sums that depend on one of two others become two pairs, or one."""
    body = summing(
        ("reduce", [1, 3]), ("broadcast", [4]), ("add", [5, 2]), ("reduce", [6, 3]),
        ("reduce", [2, 3]), ("broadcast", [8]), ("add", [9, 1]), ("reduce", [10, 3]),
    )  # fmt: skip
    merge(body)
    assert opcodes(body).count("reduce") == 2
    x, y = values((4, 5), (4, 5))
    sums = numbers_of(body, [adding()], x, y)
    first, second = x.sum(1), y.sum(1)
    right = [first, (first[:, None] + y).sum(1), second, (second[:, None] + x).sum(1)]
    np.testing.assert_allclose(sums, right, rtol=1e-5)
