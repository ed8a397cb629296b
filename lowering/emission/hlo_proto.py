"""The parts of XLA's HLO protobuf messages that emission reads or writes.

Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto in openxla/xla. They are
part of the serialized format and never change. Other fields pass through as unknown fields. The
messages are in a separate descriptor pool, so they do not conflict with the copies in TensorFlow
and libtpu. They also need no code generated for one protobuf version.
"""

import re
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from composites.element_types import TABLE

_PACKAGE = "composites.hlo"
_REPEATED = "*"

# message -> fields, each as `name number type`; `*` marks a repeated field
_MESSAGES = {
    "Layout": "minor_to_major 1 int64*",
    # `is_dynamic_dimension` is empty, or has one value for each dimension.
    "Shape": "element_type 2 int32, dimensions 3 int64*, tuple_shapes 4 Shape*, layout 5 Layout,"
    " is_dynamic_dimension 6 bool*",
    "ProgramShape": "parameters 1 Shape*, result 2 Shape, parameter_names 3 string*",
    "Metadata": "op_name 2 string",
    "FrontendAttribute": "key 1 string, value 2 string",  # an entry of a map
    "FrontendAttributes": "map 1 FrontendAttribute*",
    # Real and imaginary parts of complex numbers alternate.
    "Literal": "shape 1 Shape, preds 2 bool*, u8s 3 bytes, s32s 4 int32*, s64s 5 int64*,"
    " u32s 6 uint32*, u64s 7 uint64*, f32s 8 float*, f64s 9 double*, f16s 11 bytes,"
    " c64s 12 float*, bf16s 13 bytes, s8s 15 bytes, u16s 16 bytes, s16s 17 bytes,"
    " c128s 18 double*, f8e5m2s 19 bytes, f8e4m3fns 20 bytes, f8e4m3b11fnuzs 23 bytes,"
    " f8e5m2fnuzs 24 bytes, f8e4m3fnuzs 25 bytes, f8e4m3s 28 bytes, f8e3m4s 29 bytes,"
    " f8e8m0fnus 33 bytes",
    "SliceDimensions": "start 1 int64, limit 2 int64, stride 3 int64",
    "DotDimensionNumbers": "lhs_contracting_dimensions 1 int64*,"
    " rhs_contracting_dimensions 2 int64*, lhs_batch_dimensions 3 int64*,"
    " rhs_batch_dimensions 4 int64*",
    "Sharding": "",  # its fields pass through
    "Instruction": "name 1 string, opcode 2 string, shape 3 Shape, metadata 7 Metadata,"
    " literal 8 Literal, parameter_number 9 int64, tuple_index 13 int64, dimensions 14 int64*,"
    " slice_dimensions 17 SliceDimensions*, epsilon 24 float, feature_index 25 int64,"
    " custom_call_target 28 string, dot_dimension_numbers 30 DotDimensionNumbers, id 35 int64,"
    " operand_ids 36 int64*, control_predecessor_ids 37 int64*, called_computation_ids 38 int64*,"
    " sharding 40 Sharding, comparison_direction 63 string,"
    " frontend_attributes 68 FrontendAttributes, is_composite 89 bool",
    "Computation": "name 1 string, instructions 2 Instruction*, program_shape 4 ProgramShape,"
    " id 5 int64, root_id 6 int64",
    "Module": "name 1 string, entry_computation_name 2 string, computations 3 Computation*,"
    " host_program_shape 4 ProgramShape, id 5 int64, entry_computation_id 6 int64",
}

PRIMITIVE_TYPES = {type_.name: type_.hlo for type_ in TABLE if type_.hlo is not None}
"""Numbers of `xla.PrimitiveType`, by the StableHLO name of the element type."""
ELEMENT_TYPE_NAMES = {number: name for name, number in PRIMITIVE_TYPES.items()}
TUPLE = 13
NARROW_FLOATS = frozenset(
    number
    for name, number in PRIMITIVE_TYPES.items()
    if name in ("bf16", "f16") or name.startswith("f8")
)
"""The floating-point types that XLA:CPU computes in f32."""


def _message_classes() -> dict[str, Any]:
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="composites/hlo.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, written in map(str.split, filter(None, fields.split(","))):
            repeated = written.endswith(_REPEATED)
            kind = written.removesuffix(_REPEATED)
            field = message.field.add(name=field_name, number=int(number))
            field.label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
            if kind in _MESSAGES:
                field.type = field_type.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
            else:
                field.type = getattr(field_type, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_CLASSES = _message_classes()
Shape: Any = _CLASSES["Shape"]
Literal: Any = _CLASSES["Literal"]
Instruction: Any = _CLASSES["Instruction"]
Computation: Any = _CLASSES["Computation"]
SliceDimensions: Any = _CLASSES["SliceDimensions"]
ProgramShape: Any = _CLASSES["ProgramShape"]
Module: Any = _CLASSES["Module"]


_COUNTER = re.compile(r"\.\d+$")


def stem(name: str) -> str:
    """The name of a computation or module without the counter that makes it unique."""
    return _COUNTER.sub("", name)


def entry_computation(module: Any) -> Any:
    """The entry computation of a module; in a module of JAX, which names none, the last one."""
    number = module.entry_computation_id or module.computations[-1].id
    return next(computation for computation in module.computations if computation.id == number)


VALUE_FIELDS = {type_.name: type_.literal for type_ in TABLE if type_.literal is not None}
"""For each element type, the field of a literal that holds its values."""


def array_shape(element_type: str, dimensions: Sequence[int]) -> Any:
    """A shape (protobuf) with the default layout."""
    shape = Shape(element_type=PRIMITIVE_TYPES[element_type], dimensions=dimensions)
    shape.layout.minor_to_major.extend(reversed(range(len(dimensions))))
    return shape


def literal(value: Any, shape: Any) -> Any:
    """Convert a numpy array to a literal (protobuf) of a shape with the same element type.

    Raises:
        KeyError: this element type is not supported.
    """
    made = Literal(shape=shape)
    name = VALUE_FIELDS[ELEMENT_TYPE_NAMES[shape.element_type]]
    flat = value.ravel()
    if isinstance(getattr(made, name), bytes):
        setattr(made, name, flat.tobytes())
    else:
        parts = flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
        getattr(made, name).extend(parts.tolist())
    return made
