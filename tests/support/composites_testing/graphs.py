"""Checks that two graphs compute the same: equal numbers for values that are computed alike.

That a composite has the bits of stock torch_xla does not need a run where its decomposition is the
graph of stock. Here a graph is HLO, as torch_xla gives it to XLA, and each of its values gets a
number. Two values have the same number if the same operation, with the same attributes, gives them
from the same numbers. The order of instructions does not matter, and neither does how often an
instruction is repeated. XLA inlines composites before it compiles, and so does this.

Some differences are none for XLA:CPU, and values that differ in these alone have one number too:

- A Python number is a parameter of the graph of stock, and an element of a constant behind an
  `optimization_barrier` in a composite, which XLA:CPU reads from memory as it reads parameters.
- Constants are folded, and a product by one is its other operand.
- A tensor that is filled with one constant is the same however it was reshaped and broadcast.

The rules here are independent of `lowering.emission.simplify`, which they help to test.
"""

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch

from lowering.emission import hlo_proto
from lowering.frontends.torch_xla.graph import lowered
from lowering.stablehlo.dtypes import numpy_dtype

Type: TypeAlias = tuple[Any, ...]
"""Element type and sizes, or the types of a tuple's elements."""
Number: TypeAlias = int

# Values that no instruction gives.
DATA = "data"
"""Numbers in memory, which no compiler sees: a parameter of the graph, or a hidden constant."""
FILLED = "filled"
"""A tensor of one constant."""


@dataclass(frozen=True, slots=True)
class Value:
    """An operation, or one of the kinds above."""

    opcode: str
    type: Type
    operands: tuple[Number, ...] = ()
    called: tuple[Number, ...] = ()
    """The results of the computations that it calls, such as that of a reduction."""
    attributes: bytes = b""
    """The attributes as protobuf; for data and constants, the bytes of their elements."""


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph of some tensors."""

    results: tuple[Number, ...]
    """The number of each tensor."""
    composites: Counter[str]
    """The composites by name, without those in the decomposition of another."""


@dataclass(slots=True)
class Numbering:
    """The numbers of all values of the graphs that are compared with each other."""

    values: list[Value] = field(default_factory=list)
    numbers: dict[Value, Number] = field(default_factory=dict)

    def graph_of(self, tensors: Sequence[torch.Tensor]) -> Graph:
        """Number the graph of some tensors on the XLA device, without compiling or running it."""
        context = lowered("graph", tensors)
        module = hlo_proto.Module.FromString(context.hlo())
        data = context.device_parameter_id_tensor_mapping()
        return self.graph(module, {number: _bytes(tensor) for number, tensor in data.items()})

    def graph(self, module: Any, data: Mapping[int, bytes]) -> Graph:
        """Number an HLO module (protobuf).

        Args:
            module: its entry computation returns a tuple.
            data: the bytes of each of its parameters.
        """
        computations = {computation.id: computation for computation in module.computations}
        reading = _Reading(self, computations)
        entry = hlo_proto.entry_computation(module)
        parameters = {
            instruction.parameter_number: self.number(
                Value(DATA, _type(instruction.shape), attributes=data[instruction.parameter_number])
            )
            for instruction in entry.instructions
            if instruction.opcode == "parameter"
        }
        root = reading.root(entry, parameters, is_counted=True)
        results = self.values[root].operands if self.values[root].opcode == "tuple" else (root,)
        return Graph(results, reading.composites)

    def number(self, value: Value) -> Number:
        number = self.numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number

    def difference(self, before: Number, after: Number) -> str:
        """The first operation, from the results back, in which two values differ."""
        left, right = self.values[before], self.values[after]
        alike = left.opcode == right.opcode and left.type == right.type
        if alike and left.attributes == right.attributes:
            parts = (*left.called, *left.operands), (*right.called, *right.operands)
            if len(parts[0]) == len(parts[1]):
                pairs = zip(*parts, strict=True)
                return self.difference(*next(pair for pair in pairs if pair[0] != pair[1]))
        return f"{self.written(before)} is now {self.written(after)}"

    def written(self, number: Number) -> str:
        """An operation with its type and attributes, and those that give its operands."""
        value = self.values[number]
        operands = ", ".join(
            f"{self.values[operand].opcode} {_type_text(self.values[operand].type)}"
            for operand in value.operands
        )
        if value.opcode in (DATA, FILLED, "constant"):
            return f"{value.opcode} {_type_text(value.type)} {_elements_text(value)}"
        attributes = str(hlo_proto.Instruction.FromString(value.attributes)).split("\n")
        shown = " ".join(line.strip() for line in attributes if line and "opcode" not in line)
        return f"{value.opcode} {_type_text(value.type)} ({operands}) {{{shown}}}"


@dataclass(slots=True)
class _Reading:
    """A module while it is numbered."""

    numbering: Numbering
    computations: Mapping[int, Any]
    composites: Counter[str] = field(default_factory=Counter)
    functions: dict[int, Number] = field(default_factory=dict)
    """The results of computations whose parameters are parameters."""

    def root(
        self, computation: Any, parameters: Mapping[int, Number], *, is_counted: bool
    ) -> Number:
        """The number of a computation's result."""
        numbers: dict[int, Number] = {}
        for instruction in computation.instructions:
            if instruction.opcode == "parameter":
                numbers[instruction.id] = parameters[instruction.parameter_number]
                continue
            operands = tuple(numbers[operand] for operand in instruction.operand_ids)
            if instruction.opcode == "call":
                numbers[instruction.id] = self._called(instruction, operands, is_counted)
            else:
                numbers[instruction.id] = self._operation(instruction, operands)
        return numbers[computation.root_id]

    def _called(self, call: Any, operands: tuple[Number, ...], is_counted: bool) -> Number:
        if call.is_composite and is_counted:
            named = {entry.key: entry.value for entry in call.frontend_attributes.map}
            self.composites[named["composite.name"]] += 1
        (called,) = call.called_computation_ids
        return self.root(
            self.computations[called],
            dict(enumerate(operands)),
            is_counted=is_counted and not call.is_composite,
        )

    def _function(self, computation_id: int) -> Number:
        if computation_id not in self.functions:
            computation = self.computations[computation_id]
            parameters = {
                instruction.parameter_number: self.numbering.number(
                    Value(f"parameter {instruction.parameter_number}", _type(instruction.shape))
                )
                for instruction in computation.instructions
                if instruction.opcode == "parameter"
            }
            self.functions[computation_id] = self.root(computation, parameters, is_counted=False)
        return self.functions[computation_id]

    def _operation(self, instruction: Any, operands: tuple[Number, ...]) -> Number:
        numbering = self.numbering
        type_ = _type(instruction.shape)
        read = tuple(numbering.values[operand] for operand in operands)
        rules = _NARROW_RULES if type_[:1] in _NARROW else _RULES
        rule = rules.get(instruction.opcode)
        if rule is not None:
            result = rule(_Operation(instruction, type_, operands, read))
            if result is not None:
                return result if isinstance(result, int) else numbering.number(result)
        called = tuple(map(self._function, instruction.called_computation_ids))
        return numbering.number(
            Value(instruction.opcode, type_, operands, called, _attributes(instruction))
        )


# What is the same in other words


@dataclass(frozen=True, slots=True)
class _Operation:
    """An instruction whose operands have numbers."""

    instruction: Any
    type: Type
    operands: tuple[Number, ...]
    read: tuple[Value, ...]
    """The values of the operands."""

    @property
    def axes(self) -> list[int]:
        return list(self.instruction.dimensions)


_Same: TypeAlias = Value | Number | None
"""Another way to write a value, or a value that is known; None if there is neither."""


def _constant(operation: _Operation) -> _Same:
    if not isinstance(operation.type[0], str):
        return None
    dtype = numpy_dtype(operation.type[0])
    written = getattr(operation.instruction.literal, hlo_proto.VALUE_FIELDS[operation.type[0]])
    if isinstance(written, bytes):
        return _constant_value(operation.type, np.frombuffer(written, dtype))
    return _constant_value(operation.type, np.array(written, _part_of(dtype)).view(dtype))


def _constant_value(type_: Type, elements: Any) -> Value:
    written: bytes = elements.tobytes()
    first = written[: elements.itemsize]
    if first and written == first * (len(written) // len(first)):
        return Value(FILLED, type_, attributes=first)
    return Value("constant", type_, attributes=written)


def _refilled(operation: _Operation) -> _Same:
    """A part, a copy or a rearrangement of equal elements has these elements too."""
    (value,) = operation.read
    if operation.instruction.opcode == "reshape" and value.opcode in (DATA, "constant"):
        return Value(value.opcode, operation.type, attributes=value.attributes)
    if value.opcode != FILLED:
        return None
    return Value(FILLED, operation.type, attributes=value.attributes)


def _reshape(operation: _Operation) -> _Same:
    (value,) = operation.read
    if value.type == operation.type:
        return operation.operands[0]
    if value.opcode == "reshape":
        return Value("reshape", operation.type, value.operands, attributes=value.attributes)
    return _refilled(operation)


def _broadcast(operation: _Operation) -> _Same:
    (value,) = operation.read
    if value.type == operation.type and operation.axes == sorted(operation.axes):
        return operation.operands[0]
    if value.opcode == "broadcast":
        inner = hlo_proto.Instruction.FromString(value.attributes)
        axes = [operation.axes[axis] for axis in inner.dimensions]
        return Value("broadcast", operation.type, value.operands, attributes=_dimensions(axes))
    return _refilled(operation)


def _transpose(operation: _Operation) -> _Same:
    (value,) = operation.read
    if operation.axes == sorted(operation.axes):
        return operation.operands[0]
    if value.opcode == "transpose":
        inner = hlo_proto.Instruction.FromString(value.attributes)
        axes = [inner.dimensions[axis] for axis in operation.axes]
        return Value("transpose", operation.type, value.operands, attributes=_dimensions(axes))
    return _refilled(operation)


def _slice(operation: _Operation) -> _Same:
    """A part of a hidden constant is hidden too."""
    (value,) = operation.read
    if value.type == operation.type:
        return operation.operands[0]
    if value.opcode == DATA and len(operation.type) == 2:
        (part,) = operation.instruction.slice_dimensions
        elements = _elements(value)[part.start : part.limit : part.stride]
        return Value(DATA, operation.type, attributes=elements.tobytes())
    return _refilled(operation)


def _barrier(operation: _Operation) -> _Same:
    (value,) = operation.read
    if value.opcode == "constant":
        return Value(DATA, operation.type, attributes=value.attributes)
    if value.opcode == FILLED:
        return Value(
            DATA, operation.type, attributes=value.attributes * int(np.prod(operation.type[1:]))
        )
    return None


def _tuple_element(operation: _Operation) -> _Same:
    (value,) = operation.read
    return value.operands[operation.instruction.tuple_index] if value.opcode == "tuple" else None


def _convert(operation: _Operation) -> _Same:
    (value,) = operation.read
    if value.type == operation.type:
        return operation.operands[0]
    if value.opcode != FILLED:
        return None
    with np.errstate(all="ignore"):
        return _constant_value(
            operation.type, _elements(value).astype(numpy_dtype(operation.type[0]))
        )


def _power(operation: _Operation) -> _Same:
    return operation.operands[0] if _is_filled_with(1, operation.read[1]) else None


def _multiply(operation: _Operation) -> _Same:
    ones = [index for index, value in enumerate(operation.read) if _is_filled_with(1, value)]
    return operation.operands[1 - ones[0]] if ones else _fold(operation)


def _fold(operation: _Operation) -> _Same:
    """IEEE 754 defines one result of these operations."""
    if any(value.opcode != FILLED for value in operation.read):
        return None
    compute = _ARITHMETIC[
        operation.instruction.comparison_direction or operation.instruction.opcode
    ]
    with np.errstate(all="ignore"):
        elements = np.asarray(compute(*map(_elements, operation.read)))
    return _constant_value(operation.type, elements.astype(numpy_dtype(operation.type[0])))


def _select(operation: _Operation) -> _Same:
    _, yes, no = operation.operands
    if _is_filled_with(1, operation.read[0]):
        return yes
    return no if _is_filled_with(0, operation.read[0]) else None


def _concatenate(operation: _Operation) -> _Same:
    if len(operation.read) == 1:
        return operation.operands[0]
    parts = {value.attributes for value in operation.read}
    if all(value.opcode == FILLED for value in operation.read) and len(parts) == 1:
        return Value(FILLED, operation.type, attributes=parts.pop())
    return None


def _is_filled_with(number: int, value: Value) -> bool:
    return value.opcode == FILLED and bool(_elements(value)[0] == number)


_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "negate": operator.neg, "EQ": operator.eq, "NE": operator.ne,
    "GE": operator.ge, "GT": operator.gt, "LE": operator.le, "LT": operator.lt,
}  # fmt: skip
_RULES: Mapping[str, Callable[[_Operation], _Same]] = {
    **dict.fromkeys(("add", "subtract", "divide", "negate", "compare"), _fold),
    "broadcast": _broadcast, "concatenate": _concatenate, "constant": _constant,
    "convert": _convert, "get-tuple-element": _tuple_element, "multiply": _multiply,
    "opt-barrier": _barrier, "power": _power, "reshape": _reshape, "select": _select,
    "slice": _slice, "transpose": _transpose,
}  # fmt: skip
_NARROW = {(hlo_proto.ELEMENT_TYPE_NAMES[number],) for number in hlo_proto.NARROW_FLOATS}
_NARROW_RULES: Mapping[str, Callable[[_Operation], _Same]] = {
    **dict.fromkeys(("broadcast", "reshape", "transpose"), _refilled),
    "constant": _constant,
    "get-tuple-element": _tuple_element,
    "opt-barrier": _barrier,
    "slice": _slice,
}
"""XLA:CPU computes these types in f32, and leaves out roundings that depend on the program."""


# Protobuf


def _type(shape: Any) -> Type:
    if shape.element_type == hlo_proto.TUPLE:
        return tuple(map(_type, shape.tuple_shapes))
    name = hlo_proto.ELEMENT_TYPE_NAMES.get(shape.element_type, str(shape.element_type))
    return (name, *shape.dimensions)


def _type_text(type_: Type) -> str:
    if type_ and isinstance(type_[0], str):
        return f"{type_[0]}[{','.join(map(str, type_[1:]))}]"
    return f"({', '.join(map(_type_text, type_))})"


def _dimensions(axes: Sequence[int]) -> bytes:
    return _attributes(hlo_proto.Instruction(dimensions=axes))


def _attributes(instruction: Any) -> bytes:
    kept = hlo_proto.Instruction()
    kept.CopyFrom(instruction)
    for name in _NO_ATTRIBUTES:
        kept.ClearField(name)
    return bytes(kept.SerializeToString(deterministic=True))


_NO_ATTRIBUTES = (
    "name", "opcode", "shape", "metadata", "id", "operand_ids", "called_computation_ids",
    "frontend_attributes",
)  # fmt: skip


def _elements(value: Value) -> Any:
    return np.frombuffer(value.attributes, numpy_dtype(value.type[0]))


def _elements_text(value: Value) -> str:
    return f"{_elements(value)[:4].tolist()}{'…' if _elements(value).size > 4 else ''}"


def _part_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a complex number's parts; of other numbers, their own."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return bytes(flat.resolve_conj().view(torch.uint8).numpy().tobytes())
