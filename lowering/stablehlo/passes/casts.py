"""Casts that a program does not need."""

from typing import Any

from composites.lazy_modules import np

from ..bindings import attributes, find_operations, made_by, splat_number, users
from ..data_movement import CONVERT, DATA_MOVEMENT, data_operands, element_type, retype
from ..dtypes import holds, numpy_dtype
from ..in_place import in_place
from ..insertion import behind, constant, erase_unread, replace_by, resized
from ..ir_types import IrModule, IrOperation, IrType, IrValue

_CONSTANT = "stablehlo.constant"


@in_place
def drop_cast_roundtrips(module: IrModule) -> None:
    """Drop casts to a type that holds all values of the old one (bf16 in f32, i8 in i32) and back.

        %0 = convert %x : bf16 -> f32
        %1 = transpose %0 : f32              =>   %1 = transpose %x : bf16
        %2 = convert %1 : f32 -> bf16

    Casts that round and come back (f32 -> bf16 -> f32) are part of the meaning of a program. They
    stay.

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
            number = splat_number(result)
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
        retype(result, origin)
        cast = behind(result, CONVERT, wide)
        self.origins[cast] = origin
        return [*replaced, cast]

    def _narrow_form(self, value: IrValue, origin: IrType, before: IrOperation) -> IrValue:
        """The same numbers in the type from which they were cast."""
        if value in self.splats:
            return constant(before, resized(value.type, element=origin), self.splats[value])
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


_PRODUCTS = ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution")
_BETWEEN = frozenset({"stablehlo.transpose", "stablehlo.reshape", "stablehlo.broadcast_in_dim"})
_BYTES = ("f8E3M4", "f8E4M3", "f8E4M3B11FNUZ", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ")
# The types in which narrow products are accumulated. Hardware does not accumulate them in f64, so a
# cast to f64 does not concern the product. For i1 the sum is a logical or, which has no wider form.
_ACCUMULATORS = {
    **dict.fromkeys((*_BYTES, "f16", "bf16"), "f32"),
    "i8": "i32",
    "i16": "i32",
    "ui8": "ui32",
    "ui16": "ui32",
}


@in_place
def widen_dots(module: IrModule) -> None:
    """Let `dot_general`, `dot` and `convolution` return f32 (i32, ui32) if only that type is read.

        %0 = dot_general %a, %b -> bf16          %0 = dot_general %a, %b -> f32
        %1 = transpose %0 : bf16            =>   %1 = transpose %0 : f32
        %2 = convert %1 : bf16 -> f32

    Hardware accumulates products of narrow numbers in f32 or i32. The program on the left rounds
    this sum and then casts it to the wide type. The program on the right keeps the sum.

    Every use of the product, directly or through transpose, reshape and broadcast_in_dim, must be a
    cast to the type in which such products are accumulated: f32 for floats, i32 or ui32 for
    integers. All these casts are removed. Results change because the rounding, and for integers the
    overflow, no longer happens. A product does not change

    - if anything else reads it, including the `return` of a function,
    - if the wide value is cast back, directly or after data movement: the narrow type is needed in
      this case, and `drop_cast_roundtrips` removes the wide type,
    - if it has an `algorithm`, which specifies the type of the accumulator.
    """
    cast_back = _cast_to(module)
    for product in find_operations(module.operation, *_PRODUCTS):
        narrow = element_type(product.results[0])
        wide = _ACCUMULATORS.get(narrow)
        readers = None if "algorithm" in attributes(product) else _readers(product.results[0])
        if wide is None or readers is None:
            continue
        moved, casts = readers
        ends = [cast.results[0] for cast in casts]
        if any(element_type(end) != wide or narrow in cast_back.get(end, ()) for end in ends):
            continue
        element = ends[0].type.element_type
        for value in moved:
            retype(value, element)
        for cast in casts:
            replace_by(cast, cast.operands[0])


def _readers(product: IrValue) -> tuple[list[IrValue], list[IrOperation]] | None:
    """The product with its transposed, reshaped or broadcast forms, and the conversions at the end
    of every path; None if there is no conversion, or if another operation reads the product."""
    moved, casts = [product], []
    for value in moved:  # grows while it is read
        for user in users(value):
            if user.name == CONVERT:
                casts.append(user)
            elif user.name in _BETWEEN:
                moved.append(user.results[0])
            else:
                return None
    return (moved, casts) if casts else None


def _cast_to(module: IrModule) -> dict[IrValue, set[str]]:
    """The element types that each value is cast to, directly or after data movement."""
    types: dict[IrValue, set[str]] = {}
    # In reverse order, so that the uses of a result are known before its operation is reached.
    for operation in reversed(find_operations(module.operation, CONVERT, *DATA_MOVEMENT)):
        result = operation.results[0]
        if operation.name == CONVERT:
            types.setdefault(operation.operands[0], set()).add(element_type(result))
        elif result in types:
            for index in data_operands(operation):
                types.setdefault(operation.operands[index], set()).update(types[result])
    return types
