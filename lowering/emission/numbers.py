"""Python numbers in a decomposition: constants, which may be hidden from XLA and LLVM."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lowering.emission import hlo_proto


def put_numbers(body: Any, numbers: Mapping[int, Any], *, hidden: bool) -> None:
    """Replace the parameters that are Python numbers by constants.

    In stock graphs these numbers are data. XLA would turn a power by a constant into x·x·x and a
    quotient into a product, and LLVM would sum products with a constant in another order, so the
    bits would differ. Two things prevent this in hidden constants:

    - The constant stands behind a barrier, which XLA:CPU keeps until it has simplified the graph.
    - The constant is an array of two different numbers. XLA:CPU writes scalar constants into the
      code that it generates, but code reads an array from memory, like the parameters of a graph.

    Args:
        body: the computation (protobuf), changed in place.
        numbers: a 0-d numpy array for each number of a parameter.
        hidden: True if XLA must not compute with the numbers.
    """
    free_id = 1 + max(instruction.id for instruction in body.instructions)
    before = list(body.instructions)
    body.ClearField("instructions")
    for instruction in before:
        if instruction.opcode != "parameter" or instruction.parameter_number not in numbers:
            body.instructions.append(instruction)
            continue
        if not hidden:
            literal = hlo_proto.literal(numbers[instruction.parameter_number], instruction.shape)
            body.instructions.add(
                opcode="constant", id=instruction.id, shape=instruction.shape, literal=literal
            )
            continue
        pair = _pair(numbers[instruction.parameter_number], instruction.shape)
        pair.id, held, part = free_id, free_id + 1, free_id + 2
        free_id += 3
        name = hlo_proto.ELEMENT_TYPE_NAMES[instruction.shape.element_type]
        single = hlo_proto.array_shape(name, (1,))
        second = hlo_proto.SliceDimensions(start=1, limit=2, stride=1)
        add = body.instructions.add
        body.instructions.append(pair)
        add(opcode="opt-barrier", id=held, operand_ids=[pair.id], shape=pair.shape)
        add(opcode="slice", id=part, operand_ids=[held], shape=single, slice_dimensions=[second])
        add(opcode="reshape", id=instruction.id, operand_ids=[part], shape=instruction.shape)


def _pair(value: Any, shape: Any) -> Any:
    """A constant that holds another number and the value.

    XLA turns an array of equal numbers into a broadcast scalar, and 0, 1, … into an iota. A value
    of 0 or 1 could be part of an iota, but 0 and 1 are constants in stock graphs too.
    """
    pair = hlo_proto.array_shape(hlo_proto.ELEMENT_TYPE_NAMES[shape.element_type], (2,))
    different = value.dtype.type(0 if value == 1 else 1)
    literal = hlo_proto.literal(np.array([different, value], value.dtype), pair)
    return hlo_proto.Instruction(opcode="constant", shape=pair, literal=literal)
