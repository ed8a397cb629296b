"""widen_dots: give products the wider type that their results are cast to.

    %0 = dot_general %a, %b -> bf16          %0 = dot_general %a, %b -> f32
    %1 = transpose %0 : bf16            =>   %1 = transpose %0 : f32
    %2 = convert %1 : bf16 -> f32

Hardware accumulates products of narrow numbers in f32 or i32. The program on the left rounds this
sum and then casts it to the wide type. The program on the right keeps the sum.
"""

from ..bindings import attributes, find_operations, users
from ..data_movement import CONVERT, DATA_MOVEMENT, data_operands, element_type, retype
from ..in_place import in_place
from ..insertion import replace_by
from ..ir_types import IrModule, IrOperation, IrValue

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
