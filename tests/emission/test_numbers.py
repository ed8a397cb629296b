"""Python numbers in a decomposition: constants that XLA does not compute with."""

from __future__ import annotations

import re
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from lowering.emission import hlo_proto
from lowering.emission.composite import emit_composite
from lowering.emission.types import DecompositionHlo, TensorType
from lowering.hlo.convert import to_stablehlo
from lowering.stablehlo import compile_module

VALUES = {
    "i1": np.bool_(True),
    "i8": np.int8(-3),
    "i16": np.int16(-300),
    "i32": np.int32(-70000),
    "i64": np.int64(-(2**40)),
    "ui8": np.uint8(200),
    "ui16": np.uint16(60000),
    "ui32": np.uint32(2**31 + 1),
    "ui64": np.uint64(2**63 + 1),
    "f16": np.float16(0.3),
    "bf16": ml_dtypes.bfloat16(0.3),
    "f8E5M2": ml_dtypes.float8_e5m2(0.3),
    "f8E4M3FN": ml_dtypes.float8_e4m3fn(0.3),
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz(0.3),
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz(0.3),
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz(0.3),
    "f8E4M3": ml_dtypes.float8_e4m3(0.3),
    "f8E3M4": ml_dtypes.float8_e3m4(0.3),
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu(0.25),
    "f32": np.float32(0.3),
    "f64": np.float64(0.1) + 0.2,
    "complex<f32>": np.complex64(0.3 - 2j),
    "complex<f64>": np.complex128(0.1 - 2j),
}


def test_every_type_with_a_literal_has_a_value() -> None:
    assert VALUES.keys() == hlo_proto.VALUE_FIELDS.keys()


def power(value: Any) -> DecompositionHlo:
    """`x ** value`, whose exponent is the second parameter."""
    lowered = jax.jit(lambda x, y: x**y).lower(np.ones(3, np.float32), value)
    module = lowered.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto()
    return DecompositionHlo(module, (0,), numbers={1: np.asarray(value)})


def instructions(module: bytes) -> list[Any]:
    parsed = hlo_proto.Module.FromString(module)
    body = next(c for c in parsed.computations if c.name.startswith("acme.power.impl"))
    return list(body.instructions)


def test_a_number_stands_behind_a_barrier() -> None:
    emitted = emit_composite("acme.power", 1, {}, [TensorType("f32", (3,))], power(np.float32(3)))
    opcodes = [item.opcode for item in instructions(emitted.module)]
    assert opcodes.count("parameter") == 1
    assert opcodes.count("opt-barrier") == 1
    constant, barrier = (
        next(i for i in instructions(emitted.module) if i.opcode == opcode)
        for opcode in ("constant", "opt-barrier")
    )
    assert list(constant.literal.f32s) == [3]
    assert list(barrier.operand_ids) == [constant.id]


@pytest.mark.parametrize("element_type", VALUES)
def test_every_type_of_number_keeps_its_value(element_type: str) -> None:
    value = np.asarray(VALUES[element_type])
    shape = hlo_proto.Shape(
        element_type=hlo_proto.PRIMITIVE_TYPES[element_type], layout=hlo_proto.Layout()
    )
    constant = hlo_proto.Instruction(opcode="constant", shape=shape, name="c.1", id=2)
    constant.literal.CopyFrom(hlo_proto.literal(value, shape))
    computation = hlo_proto.Computation(name="main.1", id=1, root_id=2)
    computation.program_shape.result.CopyFrom(shape)
    computation.instructions.append(constant)
    module = hlo_proto.Module(
        name="m.1",
        entry_computation_name="main.1",
        entry_computation_id=1,
        id=1,
        host_program_shape=computation.program_shape,
        computations=[computation],
    )
    lowered = to_stablehlo(module.SerializeToString())
    assert lowered is not None
    assert re.search(
        rf"stablehlo.constant dense<.*> : tensor<{re.escape(element_type)}>", lowered.text
    )
    (result,) = compile_module(lowered)()
    assert np.asarray(result).tobytes() == value.tobytes()
