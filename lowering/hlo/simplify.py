"""simplify: instructions that a tracer repeats for every call are written once.

Of the 15,000 instructions that torch_xla records for a training step of a 12-layer GPT-2, more
than half are constants, broadcasts of constants, multiplications by one, reshapes of reshapes, and
copies of decompositions. Everything after this (conversion to StableHLO, the passes, printing)
takes time for each instruction.

torch_xla's own converter makes these simplifications, and a few more, after the conversion. They
keep every bit of the results, with one exception: `x + 0.0` becomes `x`, so a negative zero stays
negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate, compress
from typing import Any, TypeAlias

from lowering.emission import hlo_proto
from lowering.hlo import literals
from lowering.hlo.literals import Values

# Opcodes whose value depends on operands and attributes alone. A call is not one of them: two calls
# of a composite stay two, because a consumer may replace each of them.
_PURE = """
    abs add and atan2 batch-norm-grad batch-norm-inference batch-norm-training broadcast cbrt
    ceil clamp compare complex concatenate constant convert convolution cosine
    count-leading-zeros divide
    dot dynamic-slice dynamic-update-slice erf exponential exponential-minus-one floor gather
    get-tuple-element imag iota is-finite log log-plus-one logistic maximum minimum multiply
    negate not or pad popcnt power real reduce reduce-precision reduce-window remainder reshape
    reverse round-nearest-afz round-nearest-even rsqrt scatter select select-and-scatter shift-left
    shift-right-arithmetic shift-right-logical sign sine slice sort sqrt subtract tan tanh transpose
    tuple xor
"""
PURE = frozenset(_PURE.split())

ERF = "chlo.erf"


class Body:
    """The instructions of one computation, each named by its place in `instructions`."""

    def __init__(self, computation_id: int, called: Mapping[int, Body]) -> None:
        self.computation_id = computation_id
        self.instructions: list[Any] = []
        self.opcodes: list[str] = []
        self.serialized: list[bytes] = []
        self.operands: list[list[int]] = []
        """The positions of each instruction's operands. The messages hold no operands."""
        self.root = -1
        self._called = called
        self._places: dict[tuple[bytes | int, ...], int] = {}
        self._scalars: dict[int, int] = {}
        """For a value that is filled with one number: the position of that scalar constant."""

        self._values: dict[int, Values] = {}
        """The values of constants, and of tensors that are filled with a constant."""

    @classmethod
    def of(cls, computation: Any, called: Mapping[int, Body]) -> Body:
        """Simplify a computation, whose messages are taken over; `called` are those it calls."""
        body = cls(computation.id, called)
        places: dict[int, int] = {}
        for instruction in computation.instructions:
            instruction_id = instruction.id
            operands = [places[operand] for operand in instruction.operand_ids]
            instruction.ClearField("name")
            instruction.ClearField("metadata")
            instruction.ClearField("id")
            instruction.ClearField("operand_ids")
            places[instruction_id] = body.place(instruction, instruction.opcode, operands)
        body.root = places[computation.root_id]
        body._drop_dead()
        return body

    def place(self, instruction: Any, opcode: str, operands: list[int]) -> int:
        """Where the value of an instruction is: in a new place, or one that has it already."""
        rule = _RULES.get(opcode)
        found = None if rule is None else rule(self, instruction, operands)
        return self.append(instruction, opcode, operands) if found is None else found

    def append(self, instruction: Any, opcode: str, operands: list[int]) -> int:
        """Put an instruction at the end, unless there is an equal one."""
        place = len(self.instructions)
        serialized = instruction.SerializeToString()
        if opcode in PURE:
            first = self._places.setdefault((serialized, *operands), place)
            if first != place:
                return first
        self.instructions.append(instruction)
        self.opcodes.append(opcode)
        self.serialized.append(serialized)
        self.operands.append(operands)
        return place

    def filled(self, shape: Any, scalar: int) -> int:
        """A value of a shape, filled with a scalar constant."""
        if not shape.dimensions:
            return scalar
        broadcast = hlo_proto.Instruction(opcode="broadcast", shape=shape)
        place = self.append(broadcast, "broadcast", [scalar])
        self._scalars[place] = scalar
        if scalar in self._values:
            self._values[place] = self._values[scalar]
        return place

    def constant_of(self, shape: Any, values: Values | None) -> int | None:
        """A constant of a shape; None where it is not made."""
        literal = None if values is None else literals.literal_of(values, shape)
        if values is None or literal is None:
            return None
        constant = hlo_proto.Instruction(opcode="constant", shape=literal.shape, literal=literal)
        place = self.append(constant, "constant", [])
        if literal.shape.dimensions:
            self._values[place] = values
            return place
        self._scalar(place, literal)
        return self.filled(shape, place)

    def _scalar(self, place: int, literal: Any) -> None:
        if place not in self._scalars:
            self._scalars[place] = place
            values = literals.values(literal)
            if values is not None:
                self._values[place] = values

    def _is(self, operand: int, number: int) -> bool:
        """Whether a value is filled with this zero or one."""
        values = self._values.get(operand)
        return values is not None and literals.is_number(values, number)

    def _drop_dead(self) -> None:
        """Remove what the root does not reach; parameters stay, they are the signature."""
        count = len(self.instructions)
        live = [False] * count
        live[self.root] = True
        for place in range(count - 1, -1, -1):
            if live[place] or self.opcodes[place] not in PURE:
                live[place] = True
                for operand in self.operands[place]:
                    live[operand] = True
        places = list(accumulate(live, initial=0))
        self.root = places[self.root]
        self.instructions = list(compress(self.instructions, live))
        self.opcodes = list(compress(self.opcodes, live))
        self.serialized = list(compress(self.serialized, live))
        self.operands = [
            [places[o] for o in operands] for operands in compress(self.operands, live)
        ]

    # ---- rules: the place of the value where there is a shorter way to it, or None ----

    def constant(self, instruction: Any, operands: list[int]) -> int | None:
        literal = instruction.literal
        if instruction.shape.dimensions:
            return self.constant_of(instruction.shape, literals.values(literal))
        place = self.append(instruction, "constant", operands)
        if instruction.shape.element_type != hlo_proto.TUPLE:
            self._scalar(place, literal)
        return place

    def broadcast(self, instruction: Any, operands: list[int]) -> int | None:
        (operand,) = operands
        if operand in self._scalars:
            return self.filled(instruction.shape, self._scalars[operand])
        inner = self.instructions[operand]
        axes = list(instruction.dimensions)
        if _same_type(inner, instruction) and axes == sorted(axes):
            return operand
        if self.opcodes[operand] == "broadcast":
            instruction.dimensions[:] = [axes[axis] for axis in inner.dimensions]
            return self.place(instruction, "broadcast", self.operands[operand])
        return None

    def reshape(self, instruction: Any, operands: list[int]) -> int | None:
        (operand,) = operands
        if operand in self._scalars:
            return self.filled(instruction.shape, self._scalars[operand])
        if _same_type(self.instructions[operand], instruction):
            return operand
        if operand in self._values:
            values = self._values[operand].reshape(tuple(instruction.shape.dimensions))
            return self.constant_of(instruction.shape, values)
        if self.opcodes[operand] == "reshape":
            return self.place(instruction, "reshape", self.operands[operand])
        return None

    def transpose(self, instruction: Any, operands: list[int]) -> int | None:
        (operand,) = operands
        if operand in self._scalars:
            return self.filled(instruction.shape, self._scalars[operand])
        inner = self.instructions[operand]
        axes = list(instruction.dimensions)
        if axes == sorted(axes):
            return operand
        if self.opcodes[operand] == "broadcast":
            moved = [axes.index(axis) for axis in inner.dimensions]
            if moved == sorted(moved):
                broadcast = hlo_proto.Instruction(
                    opcode="broadcast", shape=instruction.shape, dimensions=moved
                )
                return self.place(broadcast, "broadcast", self.operands[operand])
        if self.opcodes[operand] == "transpose":
            instruction.dimensions[:] = [inner.dimensions[axis] for axis in axes]
            return self.place(instruction, "transpose", self.operands[operand])
        return None

    def convert(self, instruction: Any, operands: list[int]) -> int | None:
        (operand,) = operands
        if _same_type(self.instructions[operand], instruction):
            return operand
        values = self._values.get(operand)
        if values is None:
            return None
        type_ = instruction.shape.element_type
        return self.constant_of(instruction.shape, literals.convert(values, type_))

    def add(self, instruction: Any, operands: list[int]) -> int | None:
        return self._unless_neutral(0, instruction, operands)

    def multiply(self, instruction: Any, operands: list[int]) -> int | None:
        return self._unless_neutral(1, instruction, operands)

    def _unless_neutral(self, neutral: int, instruction: Any, operands: list[int]) -> int | None:
        left, right = operands
        if self._is(left, neutral):
            return right
        return left if self._is(right, neutral) else self.arithmetic(instruction, operands)

    def arithmetic(self, instruction: Any, operands: list[int]) -> int | None:
        left, right = (self._values.get(operand) for operand in operands)
        if left is None or right is None:
            return None
        operation = instruction.comparison_direction or instruction.opcode
        return self.constant_of(instruction.shape, literals.fold(operation, left, right))

    def compare(self, instruction: Any, operands: list[int]) -> int | None:
        """A truth value that is not false is itself."""
        left, right = operands
        truth = self.instructions[left].shape.element_type == hlo_proto.PRIMITIVE_TYPES["i1"]
        if truth and instruction.comparison_direction == "NE" and self._is(right, 0):
            return left
        return self.arithmetic(instruction, operands)

    def select(self, instruction: Any, operands: list[int]) -> int | None:
        condition, yes, no = operands
        if self._is(condition, 1):
            return yes
        return no if self._is(condition, 0) else None

    def erf(self, instruction: Any, operands: list[int]) -> int | None:
        """StableHLO has no erf; the name of a custom call says what it will be."""
        instruction.opcode = "custom-call"
        instruction.custom_call_target = ERF
        return self.append(instruction, "erf", operands)

    def concatenate(self, instruction: Any, operands: list[int]) -> int | None:
        return operands[0] if len(operands) == 1 else None

    def get_tuple_element(self, instruction: Any, operands: list[int]) -> int | None:
        if self.opcodes[operands[0]] != "tuple":
            return None
        return self.operands[operands[0]][int(instruction.tuple_index)]

    def call(self, instruction: Any, operands: list[int]) -> int | None:
        """Put the instructions of a plainly called computation where the call is."""
        if instruction.is_composite:
            return None
        called = self._called[instruction.called_computation_ids[0]]
        places: list[int] = []
        for inner, opcode, inputs in zip(
            called.instructions, called.opcodes, called.operands, strict=True
        ):
            if opcode == "parameter":
                places.append(operands[inner.parameter_number])
            else:
                copied = hlo_proto.Instruction()
                copied.CopyFrom(inner)
                places.append(self.place(copied, opcode, [places[i] for i in inputs]))
        return places[called.root]


def _same_type(left: Any, right: Any) -> bool:
    return bool(
        left.shape.element_type == right.shape.element_type
        and left.shape.element_type != hlo_proto.TUPLE
        and left.shape.dimensions == right.shape.dimensions
    )


_Rule: TypeAlias = Callable[[Body, Any, list[int]], int | None]
_RULES: dict[str, _Rule] = {
    "add": Body.add,
    "and": Body.arithmetic,
    "broadcast": Body.broadcast,
    "call": Body.call,
    "compare": Body.compare,
    "concatenate": Body.concatenate,
    "constant": Body.constant,
    "convert": Body.convert,
    "divide": Body.arithmetic,
    "erf": Body.erf,
    "get-tuple-element": Body.get_tuple_element,
    "multiply": Body.multiply,
    "reshape": Body.reshape,
    "select": Body.select,
    "subtract": Body.arithmetic,
    "transpose": Body.transpose,
}
