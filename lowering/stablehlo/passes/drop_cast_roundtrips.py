"""drop_cast_roundtrips: remove casts to a wide type and back around data movement.

    %0 = convert %x : bf16 -> f32
    %1 = transpose %0 : f32              =>   %1 = transpose %x : bf16
    %2 = convert %1 : f32 -> bf16

Casts that round and come back (f32 -> bf16 -> f32) are part of the meaning of a program. They stay.
"""

from typing import Any

from composites.lazy_modules import np

from ..bindings import building, find_operations, ir, made_by, splat_value
from ..data_movement import CONVERT, DATA_MOVEMENT, data_operands, element_type, retype
from ..dtypes import holds, numpy_dtype
from ..in_place import in_place
from ..insertion import erase_unread, inserted, replace_by, resized
from ..ir_types import IrModule, IrOperation, IrType, IrValue

_CONSTANT = "stablehlo.constant"


@in_place
def drop_cast_roundtrips(module: IrModule) -> None:
    """Drop casts to a type that holds all values of the old one (bf16 in f32, i8 in i32) and back.

    Data movement in between is done in the narrow type. If it has several data operands, as
    `concatenate` and `select` do, all of them must come from that type, or be splat constants that
    it can represent. Other readers of the wide value read a cast of the moved narrow value. Two
    exact casts in a row (bf16 -> f32 -> f64) become one.

    Every number stays the same, including infinities, denormals and the sign of zero. A NaN stays a
    NaN. A platform may set the quiet bit of a NaN in a cast, and not without the cast.
    """
    _join_casts(module)
    _Movement(module).narrow()
    _join_casts(module)


def _join_casts(module: IrModule) -> None:
    """Make each cast read the value before an exact cast, and drop casts from a type to itself."""
    bypassed = []
    for cast in find_operations(module.operation, CONVERT):
        source = made_by(cast.operands[0], CONVERT)
        if source is not None:
            first, between = element_type(source.operands[0]), element_type(cast.operands[0])
            if holds(between, first) and holds(element_type(cast.results[0]), first):
                bypassed.append(source.results[0])
                cast.operands[0] = source.operands[0]
        if cast.operands[0].type == cast.results[0].type:
            replace_by(cast, cast.operands[0])
    erase_unread(bypassed, DATA_MOVEMENT)


class _Movement:
    """The data movement of a module, and facts about the values that it moves."""

    def __init__(self, module: IrModule) -> None:
        self.operations = find_operations(module.operation, CONVERT, _CONSTANT, *DATA_MOVEMENT)
        self.origins: dict[IrValue, IrType] = {}
        """The narrower element types from which values were cast without loss, by value."""
        self.splats: dict[IrValue, Any] = {}
        """The numbers of splat constants, including moved constants."""

    def narrow(self) -> None:
        """Move data in the narrow type wherever it is cast to that type afterwards."""
        narrowed = self._narrowed()
        replaced: list[IrValue] = []
        for operation in self.operations if narrowed else ():
            if operation.name in DATA_MOVEMENT and operation.results[0] in narrowed:
                replaced += self._move_narrow(operation)
        erase_unread(replaced, DATA_MOVEMENT)

    def _narrowed(self) -> set[IrValue]:
        """The values for which a narrow form is needed."""
        narrowed: set[IrValue] = set()
        for operation in self.operations:
            self._note(operation)
            if operation.name == CONVERT and self._goes_back(operation):
                narrowed.add(operation.operands[0])
        for operation in reversed(self.operations):
            if operation.name != _CONSTANT and operation.results[0] in narrowed:
                narrowed.update(v for v in _data(operation) if v in self.origins)
        return narrowed

    def _note(self, operation: IrOperation) -> None:
        result = operation.results[0]
        if operation.name == _CONSTANT:
            number = splat_value(operation)
            if number is not None:
                self.splats[result] = number
            return
        data = _data(operation)
        if operation.name == CONVERT:
            origin = self.origins.get(data[0], data[0].type.element_type)
            if str(origin) != element_type(result) and holds(element_type(result), str(origin)):
                self.origins[result] = origin
        elif all(value in self.splats for value in data):
            if len(data) == 1 and result.type.has_static_shape:
                self.splats[result] = self.splats[data[0]]
        else:
            origins = {self.origins.get(value) for value in data if value not in self.splats}
            origin = origins.pop()
            splats = [self.splats[value] for value in data if value in self.splats]
            is_one = not origins and origin is not None
            if is_one and all(_represents(str(origin), number) for number in splats):
                self.origins[result] = origin

    def _goes_back(self, cast: IrOperation) -> bool:
        """Return whether a cast narrows a value that came, through data movement, from an even
        narrower type."""
        wide, narrow = element_type(cast.operands[0]), element_type(cast.results[0])
        origin = self.origins.get(cast.operands[0])
        return (
            origin is not None
            and wide != narrow
            and holds(wide, narrow)
            and holds(narrow, str(origin))
        )

    def _move_narrow(self, operation: IrOperation) -> list[IrValue]:
        """Move data in the narrow type. Return the operands that are no longer read."""
        result, replaced = operation.results[0], []
        wide, origin = result.type, self.origins[result]
        for index in data_operands(operation):
            value = operation.operands[index]
            replaced.append(value)
            operation.operands[index] = self._narrow_form(value, origin, operation)
        readers = [(use.owner.operation, use.operand_number) for use in result.uses]
        retype(result, origin)
        cast = inserted(operation, CONVERT, wide, result)
        cast.owner.move_after(operation)
        for reader, index in readers:
            reader.operands[index] = cast
        self.origins[cast] = origin
        return [*replaced, cast]

    def _narrow_form(self, value: IrValue, origin: IrType, before: IrOperation) -> IrValue:
        """The same numbers in the type from which they were cast."""
        if value in self.splats:
            return _splat(resized(value.type, element=origin), self.splats[value], before)
        while value.type.element_type != origin:
            # The owner is a cast, because earlier data movement is already narrow.
            value = value.owner.operands[0]
        return value


def _data(operation: IrOperation) -> list[IrValue]:
    if operation.name == CONVERT:
        return [operation.operands[0]]
    return [operation.operands[index] for index in data_operands(operation)]


def _represents(element: str, value: float) -> bool:
    """Return whether a number, including the sign of zero, survives a cast to an element type."""
    number = np.asarray(value)
    with np.errstate(all="ignore"):
        cast = number.astype(numpy_dtype(element)).astype(number.dtype)
    return cast.tobytes() == number.tobytes() and cast == number


def _splat(type_: IrType, number: Any, before: IrOperation) -> IrValue:
    """A constant in which every element equals `number`."""
    kinds, element = ir(), type_.element_type
    with building(before.context):
        if str(element).startswith(("i", "ui")):
            scalar = kinds.IntegerAttr.get(element, int(number))
        else:
            scalar = kinds.FloatAttr.get(element, float(number))
        value = kinds.DenseElementsAttr.get_splat(type_, scalar)
    return inserted(before, _CONSTANT, type_, value=value)
