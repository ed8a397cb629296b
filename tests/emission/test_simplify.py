"""Emission of decompositions: equal values, in fewer instructions and shorter messages."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.golden import read_cases
from composites_testing.hlo import opcodes, results_of, stays

from lowering.emission import hlo_proto
from lowering.emission.composite import CompositeHlo, emit_composite
from lowering.emission.simplify import simplify
from lowering.emission.types import DecompositionHlo, TensorType

try:
    from jaxlib._hlo import hlo_module_from_text
except ImportError:  # jaxlib 0.7
    from jaxlib._jax import hlo_module_from_text

GOLDEN = Path(__file__).parent / "golden"
"""Lines of HLO, and the operations that are left of them."""
X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
X[0, :3] = -0.0, np.inf, 1e-30
TYPES = {"float32": "f32", "bfloat16": "bf16"}

INNER = "\n".join(
    f"{name} {{ a = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT c = {result} }}"
    for name, result in (
        ("sum", "f32[] add(a, b)"),
        ("again", "f32[] add(a, b)"),
        ("most", "f32[] maximum(a, b)"),
        ("falls", "pred[] compare(a, b), direction=GT"),
        ("rises", "pred[] compare(a, b), direction=LT"),
    )
)
"""Computations that reductions and sorts call."""


def hlo(lines: str, x: Any = X) -> Any:
    """An HLO module (protobuf) of one parameter `x`. XLA does not simplify its text."""
    sizes = ",".join(map(str, x.shape))
    entry = f"ENTRY main {{ x = {TYPES[x.dtype.name]}[{sizes}] parameter(0)\n{lines} }}"
    parsed = hlo_module_from_text(f"HloModule m\n{INNER}\n{entry}")
    module = hlo_proto.Module.FromString(parsed.as_serialized_hlo_module_proto())
    body = hlo_proto.entry_computation(module)
    root = next(item for item in body.instructions if item.id == body.root_id)
    if root.opcode != "tuple":  # decompositions return one
        free = 1 + max(item.id for part in module.computations for item in part.instructions)
        shape = hlo_proto.Shape(element_type=hlo_proto.TUPLE, tuple_shapes=[root.shape])
        body.instructions.add(opcode="tuple", id=free, operand_ids=[root.id], shape=shape)
        body.root_id = free
        for types in (body.program_shape, module.host_program_shape):
            types.result.CopyFrom(shape)
    return module


def emitted(lines: str, x: Any = X) -> CompositeHlo:
    decomposition = DecompositionHlo(hlo(lines, x).SerializeToString(), (0,))
    operands = [TensorType(TYPES[x.dtype.name], x.shape)]
    return emit_composite("acme.op", 1, {}, operands, decomposition)


def body(composite: CompositeHlo) -> Any:
    """The computation of the decomposition."""
    module = hlo_proto.Module.FromString(composite.module)
    return next(part for part in module.computations if part.name == "acme.op.impl.1")


def left_of(composite: CompositeHlo) -> str:
    return " ".join(opcodes(body(composite)))


def gives_the_same(lines: str, x: Any = X) -> CompositeHlo:
    simplified = emitted(lines, x)
    mine = results_of(hlo_proto.Module.FromString(simplified.module), x)
    expected = results_of(hlo(lines, x), x)
    assert [result.tobytes() for result in mine] == [result.tobytes() for result in expected]
    return simplified


CASES = read_cases(GOLDEN / "simplified.txt")


@pytest.mark.parametrize("case", CASES)
def test_what_changes_nothing_is_not_emitted(case: str) -> None:
    lines, left = CASES[case].values()
    assert left_of(gives_the_same(lines)) == left.strip()


KEPT = read_cases(GOLDEN / "kept.txt")


def test_what_is_kept() -> None:
    kept = {name: left_of(emitted(parts[""])) for name, parts in KEPT.items()}
    assert kept == {name: parts["left"].strip() for name, parts in KEPT.items()}
    gives_the_same(KEPT["values behind barriers"][""])


def test_around_narrow_values_only_constants_are_simplified() -> None:
    narrow = X.astype(ml_dtypes.bfloat16)
    kept = """a = bf16[12] reshape(x)
              b = bf16[3,4] reshape(a)
              c = bf16[3,4] convert(b)
              one = bf16[] constant(1)
              d = bf16[1] reshape(one)
              e = bf16[] reshape(d)
              ones = bf16[3,4] broadcast(e), dimensions={}
              ROOT y = bf16[3,4] multiply(c, ones)"""
    left = "broadcast constant convert multiply parameter reshape reshape"
    assert left_of(gives_the_same(kept, narrow)) == left


PRODUCT = CASES["a product by one"][""]


def test_a_computation_is_simplified_in_place() -> None:
    made = hlo_proto.entry_computation(hlo(PRODUCT))
    simplify(made)
    assert opcodes(made) == ["parameter", "tanh", "tuple"]
    ids = [item.id for item in made.instructions]
    assert made.root_id == ids[-1]
    assert [list(item.operand_ids) for item in made.instructions] == [[], ids[:1], ids[1:2]]


def test_what_is_not_copied_is_not_simplified() -> None:
    lines = f"dead = f32[3,4] negate(x)\n{PRODUCT}"
    decomposition = DecompositionHlo(hlo(lines).SerializeToString(), (0,))
    types = [TensorType("f32", X.shape)]
    composite = emit_composite("acme.op", 1, {}, types, decomposition, is_partitioned=True)
    assert left_of(composite) == "broadcast constant multiply parameter tanh"


def ordered(made: Any) -> None:
    made.instructions[4].control_predecessor_ids.append(made.instructions[0].id)


def sharded(made: Any) -> None:
    made.instructions[1].sharding.SetInParent()


def varying(made: Any) -> None:
    made.instructions[0].shape.is_dynamic_dimension[:] = [True, False]


@pytest.mark.parametrize("mark", [ordered, sharded, varying])
def test_what_is_said_beside_the_values_is_kept(mark: Any) -> None:
    made = hlo_proto.entry_computation(hlo(PRODUCT))
    made.instructions.add(opcode="tanh", id=1000, operand_ids=[made.instructions[0].id])
    mark(made)
    simplify(made)
    assert len(made.instructions) == 6  # nothing reads the last one
    stays(made, simplify)


def test_only_the_entry_has_a_signature() -> None:
    module = hlo_proto.Module.FromString(emitted(CASES["numbers alone"][""]).module)
    *inner, entry = module.computations
    assert not any(computation.HasField("program_shape") for computation in inner)
    assert entry.program_shape == module.host_program_shape
    assert len(entry.program_shape.parameter_names) == 1
