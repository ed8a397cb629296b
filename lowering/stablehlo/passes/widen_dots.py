"""widen_dots: products that give the wide type that is asked of them, with no cast after them.

    %0 = dot_general %a, %b -> bf16          %0 = dot_general %a, %b -> f32
    %1 = transpose %0 : bf16            =>   %1 = transpose %0 : f32
    %2 = convert %1 : bf16 -> f32

Hardware sums the products of narrow numbers in f32 or i32. The program on the left rounds that sum
and makes it wide again; the one on the right keeps it.
"""

from dataclasses import dataclass, field

from ..bindings import IrModule, IrOperation, IrValue, attributes, find_operations, users
from ..data_movement import CONVERT, DATA_MOVEMENT, data_operands, element_type, retype
from ..in_place import in_place
from ..options import switch

_PRODUCTS = ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution")
_BETWEEN = frozenset({"stablehlo.transpose", "stablehlo.reshape", "stablehlo.broadcast_in_dim"})
# What narrow products are summed in. Nothing sums in f64 of itself, so a cast to f64 says nothing
# about the product. Of i1 the sum is a logical or, which has no wider form.
_ACCUMULATORS = {
    "f8E3M4": "f32",
    "f8E4M3": "f32",
    "f8E4M3B11FNUZ": "f32",
    "f8E4M3FN": "f32",
    "f8E4M3FNUZ": "f32",
    "f8E5M2": "f32",
    "f8E5M2FNUZ": "f32",
    "f16": "f32",
    "bf16": "f32",
    "i8": "i32",
    "i16": "i32",
    "ui8": "ui32",
    "ui16": "ui32",
}


@dataclass(frozen=True)
class _Readers:
    """Where the value of a product goes."""

    moved: list[IrValue] = field(default_factory=list)
    """The product itself, and it transposed, reshaped or broadcast."""
    casts: list[IrOperation] = field(default_factory=list)
    """The conversions at the end of every way."""


@in_place
def widen_dots(module: IrModule) -> None:
    """Let `dot_general`, `dot` and `convolution` give f32 (i32, ui32) where only that is read.

    Every use of the product, directly or through transpose, reshape and broadcast_in_dim, has to
    be a cast to the type that its kind is summed in: f32 for floats, i32 or ui32 for integers.
    All these casts go. Results change by the rounding that is left out, and for integers by the
    overflow. It stays as it is

      - when anything else reads the product, a function's `return` too,
      - when the wide value is cast back, directly or after data movement: the narrow type is needed
        then, and `drop_cast_roundtrips` takes the wide one away,
      - when it has an `algorithm`, which says what to sum in.
    """
    cast_back = _cast_to(module)
    for product in find_operations(module.operation, *_PRODUCTS):
        narrow = element_type(product.results[0])
        wide = _ACCUMULATORS.get(narrow)
        readers = None if "algorithm" in attributes(product) else _readers(product.results[0])
        if wide is None or readers is None or not readers.casts:
            continue
        ends = [cast.results[0] for cast in readers.casts]
        if any(element_type(end) != wide or narrow in cast_back.get(end, ()) for end in ends):
            continue
        element = ends[0].type.element_type
        for value in readers.moved:
            retype(value, element)
        for cast in readers.casts:
            cast.results[0].replace_all_uses_with(cast.operands[0])
            cast.erase()


def _readers(product: IrValue) -> _Readers | None:
    """Where a value goes; None when anything but a cast reads it."""
    readers = _Readers([product])
    for value in readers.moved:  # grows while it is read
        for user in users(value):
            if user.name == CONVERT:
                readers.casts.append(user)
            elif user.name in _BETWEEN:
                readers.moved.append(user.results[0])
            else:
                return None
    return readers


def _cast_to(module: IrModule) -> dict[IrValue, set[str]]:
    """The element types that each value is cast to, directly or after data movement."""
    found: dict[IrValue, set[str]] = {}
    # Backwards, so that what becomes of a result is known when its operation is reached.
    for operation in reversed(find_operations(module.operation, CONVERT, *DATA_MOVEMENT)):
        result = operation.results[0]
        if operation.name == CONVERT:
            found.setdefault(operation.operands[0], set()).add(element_type(result))
        elif result in found:
            for index in data_operands(operation):
                found.setdefault(operation.operands[index], set()).update(found[result])
    return found


OPTIONS = switch(
    "--widen-dots", widen_dots, "Let products give the f32 (or i32) that they are cast to."
)
