"""simplify: write the instructions that a tracer repeats for every call only once.

PyTorch's kernels write every Python number as a constant that they reshape and broadcast, multiply
by an `alpha` of one, and reshape again:

    one = f32[] constant(1)                      y = f32[4,8] tanh(x)
    ones = f32[4,8] broadcast(one)           =>
    y = f32[4,8] multiply(tanh(x), ones)

XLA removes all this, but a graph holds a copy of the decomposition for every call, and XLA reads
and simplifies each of them. The rules keep every bit of the results.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lowering.emission import hlo_proto, literals
from lowering.emission.dependence import drop_dead
from lowering.emission.literals import Values

# Opcodes whose value depends on operands and attributes alone. Calls are not among them: two calls
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
_SPREADING = frozenset(["broadcast", "reshape", "transpose"])
"""Opcodes whose result is filled with one number if their operand is filled with it."""


def simplify(computation: Any) -> None:
    """Simplify a computation (protobuf), in place, and remove the instructions that its root does
    not reach. Parameters stay, because they are the signature.

    Computations with dynamic dimensions, shardings or control dependencies are not simplified.
    """
    if all(map(_is_plain, computation.instructions)):
        ComputationBody().rewrite(computation)
    drop_dead(computation)


def _is_plain(instruction: Any) -> bool:
    return not (
        instruction.HasField("sharding")
        or instruction.control_predecessor_ids
        or True in instruction.shape.is_dynamic_dimension
    )


def is_plain_call(instruction: Any) -> bool:
    """Return whether an instruction is a call that is not a composite."""
    return instruction.opcode == "call" and not instruction.is_composite


def inline_calls(computation: Any, by_id: Mapping[int, Any]) -> None:
    """Inline, in place, every call in a computation (protobuf) that is not a composite.

    A computation that is inserted into a graph arrives as a call of a separate computation. Inside
    a decomposition, such a call has no use.
    """
    if any(map(is_plain_call, computation.instructions)):
        _InlinedBody().rewrite(computation, by_id)


class ComputationBody:
    """The instructions of one computation, each identified by its position in `instructions`.

    XLA:CPU computes values of narrow floating-point types in f32, and the roundings that it leaves
    out depend on the instructions around them. For such values, only constants are simplified.
    """

    shared = PURE - {"broadcast"}
    """Opcodes of which equal instructions become one. A broadcast that several fusions read has a
    separate buffer on XLA:CPU."""

    def __init__(self) -> None:
        self.instructions: list[Any] = []
        self.opcodes: list[str] = []
        self.operands: list[list[int]] = []
        """The positions of each instruction's operands. The messages hold no operands."""
        self._positions: dict[tuple[bytes | int, ...], int] = {}
        self._scalars: dict[int, int] = {}
        """For a value that is filled with one number: the position of that scalar constant."""

        self._values: dict[int, Values] = {}
        """The values of constants, and of tensors that are filled with a constant."""

    def rewrite(self, computation: Any, by_id: Mapping[int, Any] | None = None) -> None:
        """Simplify a computation, in place. Instructions that nothing reads any more stay.

        Args:
            by_id: the computations of the module, by id, to inline calls that are not composites.
        """
        root = self._add_all(computation, None, by_id or {})
        computation.ClearField("instructions")
        for position, instruction in enumerate(self.instructions):
            instruction.id = 1 + position
            instruction.operand_ids[:] = [1 + operand for operand in self.operands[position]]
        computation.instructions.extend(self.instructions)
        computation.root_id = 1 + root

    def _add_all(
        self, computation: Any, arguments: list[int] | None, by_id: Mapping[int, Any]
    ) -> int:
        """Add the instructions of a computation, and return the position of its root.

        Args:
            arguments: the positions of the parameters' values in a call; None to keep parameters.
        """
        positions: dict[int, int] = {}
        for instruction in computation.instructions:  # operands come before their users
            number, opcode = instruction.id, instruction.opcode
            operands = [positions[operand] for operand in instruction.operand_ids]
            if opcode == "parameter" and arguments is not None:
                positions[number] = arguments[instruction.parameter_number]
                continue
            if by_id and is_plain_call(instruction):
                callee = by_id[instruction.called_computation_ids[0]]
                positions[number] = self._add_all(callee, operands, by_id)
                continue
            if arguments is not None:  # the computation may have other callers
                copied = hlo_proto.Instruction()
                copied.CopyFrom(instruction)
                instruction = copied
            for field in ("name", "metadata", "id", "operand_ids"):
                instruction.ClearField(field)
            before = instruction.control_predecessor_ids
            if before:
                before[:] = [1 + positions[predecessor] for predecessor in before]
            positions[number] = self.add_value(instruction, opcode, operands)
        return positions[computation.root_id]

    def add_value(self, instruction: Any, opcode: str, operands: list[int]) -> int:
        """Return the position of an instruction's value, which is added unless it exists."""
        if opcode in _SPREADING and operands[0] in self._scalars:
            return self.filled(instruction.shape, self._scalars[operands[0]])
        rule = self.rule(instruction, opcode)
        position = None if rule is None else rule(self, instruction, operands)
        return self.append(instruction, opcode, operands) if position is None else position

    def rule(self, instruction: Any, opcode: str) -> "Rule | None":
        """The rule that may make an instruction unnecessary."""
        is_narrow = instruction.shape.element_type in hlo_proto.NARROW_FLOATS
        return (_NARROW_RULES if is_narrow else RULES).get(opcode)

    def append(self, instruction: Any, opcode: str, operands: list[int]) -> int:
        """Append an instruction unless an equal one exists, and return its position."""
        position = len(self.instructions)
        if opcode in self.shared:
            key = (instruction.SerializeToString(), *operands)
            first = self._positions.setdefault(key, position)
            if first != position:
                return first
        self.instructions.append(instruction)
        self.opcodes.append(opcode)
        self.operands.append(operands)
        return position

    def filled(self, shape: Any, scalar: int) -> int:
        """A value of a shape, filled with a scalar constant."""
        if not shape.dimensions:
            return scalar
        broadcast = hlo_proto.Instruction(opcode="broadcast", shape=shape)
        position = self.append(broadcast, "broadcast", [scalar])
        self._scalars[position] = scalar
        if scalar in self._values:
            self._values[position] = self._values[scalar]
        return position

    def add_constant(self, shape: Any, values: Values | None) -> int | None:
        """Return the position of a constant of a shape; None if no such constant is written."""
        literal = None if values is None else literals.as_literal(values, shape)
        if values is None or literal is None:
            return None
        constant = hlo_proto.Instruction(opcode="constant", shape=literal.shape, literal=literal)
        position = self.append(constant, "constant", [])
        if literal.shape.dimensions:
            self._values[position] = values
            return position
        self._scalar(position, literal)
        return self.filled(shape, position)

    def _scalar(self, position: int, literal: Any) -> None:
        if position not in self._scalars:
            self._scalars[position] = position
            values = literals.values(literal)
            if values is not None:
                self._values[position] = values

    def _is(self, operand: int, number: int) -> bool:
        """Return whether a value is filled with `number`, which is 0 or 1."""
        values = self._values.get(operand)
        return values is not None and literals.is_number(values, number)

    # ---- rules: each returns the position of an equal value that needs less work, or None ----

    def constant(self, instruction: Any, operands: list[int]) -> int | None:
        literal = instruction.literal
        if instruction.shape.dimensions:
            return self.add_constant(instruction.shape, literals.values(literal))
        position = self.append(instruction, "constant", operands)
        if instruction.shape.element_type != hlo_proto.TUPLE:
            self._scalar(position, literal)
        return position

    def broadcast(self, instruction: Any, operands: list[int]) -> int | None:
        (operand,) = operands
        inner = self.instructions[operand]
        axes = list(instruction.dimensions)
        if _same_type(inner, instruction) and axes == sorted(axes):
            return operand
        if self.opcodes[operand] == "broadcast":
            instruction.dimensions[:] = [axes[axis] for axis in inner.dimensions]
            return self.add_value(instruction, "broadcast", self.operands[operand])
        return None

    def reshape(self, instruction: Any, operands: list[int]) -> int | None:
        (operand,) = operands
        if _same_type(self.instructions[operand], instruction):
            return operand
        if operand in self._values:
            values = self._values[operand].reshape(tuple(instruction.shape.dimensions))
            return self.add_constant(instruction.shape, values)
        if self.opcodes[operand] == "reshape":
            return self.add_value(instruction, "reshape", self.operands[operand])
        return None

    def transpose(self, instruction: Any, operands: list[int]) -> int | None:
        (operand,) = operands
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
                return self.add_value(broadcast, "broadcast", self.operands[operand])
        if self.opcodes[operand] == "transpose":
            instruction.dimensions[:] = [inner.dimensions[axis] for axis in axes]
            return self.add_value(instruction, "transpose", self.operands[operand])
        return None

    def convert(self, instruction: Any, operands: list[int]) -> int | None:
        (operand,) = operands
        if _same_type(self.instructions[operand], instruction):
            return operand
        values = self._values.get(operand)
        if values is None:
            return None
        type_ = instruction.shape.element_type
        return self.add_constant(instruction.shape, literals.convert(values, type_))

    def multiply(self, instruction: Any, operands: list[int]) -> int | None:
        return self.unless_neutral(1, instruction, operands)

    def unless_neutral(self, neutral: int, instruction: Any, operands: list[int]) -> int | None:
        left, right = operands
        if self._is(left, neutral):
            return right
        return left if self._is(right, neutral) else self.arithmetic(instruction, operands)

    def arithmetic(self, instruction: Any, operands: list[int]) -> int | None:
        left, right = (self._values.get(operand) for operand in operands)
        if left is None or right is None:
            return None
        operation = instruction.comparison_direction or instruction.opcode
        return self.add_constant(instruction.shape, literals.fold(operation, left, right))

    def compare(self, instruction: Any, operands: list[int]) -> int | None:
        """Replace `x != false` by `x`."""
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

    def concatenate(self, instruction: Any, operands: list[int]) -> int | None:
        return operands[0] if len(operands) == 1 else None

    def get_tuple_element(self, instruction: Any, operands: list[int]) -> int | None:
        if self.opcodes[operands[0]] != "tuple":
            return None
        return self.operands[operands[0]][int(instruction.tuple_index)]


def _same_type(left: Any, right: Any) -> bool:
    return bool(
        left.shape.element_type == right.shape.element_type
        and left.shape.element_type != hlo_proto.TUPLE
        and left.shape.dimensions == right.shape.dimensions
    )


class _InlinedBody(ComputationBody):
    """The instructions of a computation and of its callees, which are not simplified."""

    shared = frozenset()

    def rule(self, instruction: Any, opcode: str) -> "Rule | None":
        return ComputationBody.get_tuple_element if opcode == "get-tuple-element" else None


Rule: TypeAlias = Callable[[ComputationBody, Any, list[int]], int | None]
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("add", "and", "divide", "subtract"), ComputationBody.arithmetic),
    "broadcast": ComputationBody.broadcast,
    "compare": ComputationBody.compare,
    "concatenate": ComputationBody.concatenate,
    "constant": ComputationBody.constant,
    "convert": ComputationBody.convert,
    "get-tuple-element": ComputationBody.get_tuple_element,
    "multiply": ComputationBody.multiply,
    "reshape": ComputationBody.reshape,
    "select": ComputationBody.select,
    "transpose": ComputationBody.transpose,
}
_NARROW_RULES: Mapping[str, Rule] = {
    "constant": ComputationBody.constant,
    "get-tuple-element": ComputationBody.get_tuple_element,
}
