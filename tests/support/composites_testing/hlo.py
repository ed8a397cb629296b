"""HLO modules (protobuf) for tests of what is emitted."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from lowering.emission import hlo_proto
from lowering.hlo.convert import convert
from lowering.stablehlo import Module, compile_module


def hlo_of(function: Callable[..., Any], *arrays: Any, **options: Any) -> bytes:
    """The HLO to which jax lowers a function."""
    lowered = jax.jit(function, **options).lower(*arrays)
    return bytes(lowered.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto())


def stablehlo_of(module: Any) -> Module:
    copied = type(module)()
    copied.CopyFrom(module)
    return convert(copied, list(copied.computations))


def results_of(module: Any, *values: Any) -> list[np.ndarray]:
    return [np.asarray(result) for result in compile_module(stablehlo_of(module))(*values)]


def add(
    body: Any,
    opcode: str,
    operands: Sequence[int],
    sizes: Sequence[int],
    type_: str = "f32",
    **fields: Any,
) -> Any:
    """A new last instruction of a computation, with the next number."""
    return body.instructions.add(
        opcode=opcode,
        id=len(body.instructions) + 1,
        operand_ids=operands,
        shape=hlo_proto.array_shape(type_, tuple(sizes)),
        **fields,
    )


def opcodes(computation: Any) -> list[str]:
    return sorted(item.opcode for item in computation.instructions)


def stays(body: Any, change: Callable[[Any], object]) -> None:
    """Check that a change leaves a computation as it is."""
    before = body.SerializeToString(deterministic=True)
    change(body)
    assert body.SerializeToString(deterministic=True) == before


def assert_in_order(body: Any) -> None:
    """Check that operands come before their users, and that no number is given twice."""
    seen: set[int] = set()
    for instruction in body.instructions:
        assert set(instruction.operand_ids) <= seen
        assert instruction.id not in seen
        seen.add(instruction.id)
