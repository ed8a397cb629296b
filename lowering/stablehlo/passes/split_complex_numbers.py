"""split_complex_numbers: compute with the real and the imaginary parts of complex numbers.

    %z = complex %a, %b
    %w = complex %c, %d                  =>   %r = subtract (multiply %a, %c), (multiply %b, %d)
    %p = multiply %z, %w
    %r = real %p

LiteRT 2.3 makes no complex numbers. The rotary embedding of Llama 4 multiplies them.
"""

from collections.abc import Sequence

from ..bindings import find_operations
from ..data_movement import CONVERT, DATA_MOVEMENT, element_type
from ..in_place import in_place, is_sharded
from ..insertion import constant, converted, erase_unread, inserted, remade, replace_by, resized
from ..ir_types import IrModule, IrOperation, IrValue

_COMPLEX, _REAL, _IMAGINARY = "stablehlo.complex", "stablehlo.real", "stablehlo.imag"
_ADD, _SUBTRACT, _MULTIPLY = "stablehlo.add", "stablehlo.subtract", "stablehlo.multiply"
_SPLIT = (_COMPLEX, _ADD, _SUBTRACT, _MULTIPLY, "stablehlo.negate", CONVERT, *DATA_MOVEMENT)


@in_place
def split_complex_numbers(module: IrModule) -> None:
    """Split sums, differences and products of complex numbers whose parts are read, and data
    movement of complex numbers. Operations with shardings stay."""
    parts: dict[IrValue, list[IrValue]] = {}
    for operation in find_operations(module.operation, *_SPLIT, _REAL, _IMAGINARY):
        if is_sharded(operation):
            continue
        if operation.name in (_REAL, _IMAGINARY):
            pair = parts.get(operation.operands[0])
            if pair is not None:
                replace_by(operation, pair[operation.name == _IMAGINARY])
        elif _is_complex(operation.results[0]):
            pairs = [_parts(operation, n, parts) for n in range(len(operation.operands))]
            split = _split(operation, pairs)
            if split:
                parts[operation.results[0]] = split
    unread = [*parts, *(part for pair in parts.values() for part in pair)]
    erase_unread(unread, (*_SPLIT, _REAL, _IMAGINARY))


def _is_complex(value: IrValue) -> bool:
    return element_type(value).startswith("complex")


def _parts(
    reader: IrOperation, position: int, parts: dict[IrValue, list[IrValue]]
) -> list[IrValue]:
    """The real and the imaginary part of an operand; the operand twice if it is not complex."""
    value = reader.operands[position]
    if not _is_complex(value):
        return [value, value]
    if value in parts:
        return parts[value]
    type_ = resized(value.type, element=value.type.element_type.element_type)
    return [inserted(reader, name, type_, value) for name in (_REAL, _IMAGINARY)]


def _split(operation: IrOperation, pairs: Sequence[Sequence[IrValue]]) -> list[IrValue]:
    """The real and the imaginary part of a result, from those of the operands; empty for real
    numbers of dynamic shape that are converted."""
    if operation.name == _COMPLEX:
        return [*operation.operands]
    element = operation.results[0].type.element_type.element_type
    if operation.name == CONVERT and not _is_complex(operation.operands[0]):
        if not operation.results[0].type.has_static_shape:
            return []
        real = converted(operation, operation.operands[0], element)
        return [real, constant(operation, real.type, 0)]
    if operation.name == _MULTIPLY:
        (a, b), (c, d) = pairs

        def combine(name: str, left: IrValue, right: IrValue) -> IrValue:
            return inserted(operation, name, a.type, left, right)

        ac, bd, ad, bc = (combine(_MULTIPLY, *pair) for pair in ((a, c), (b, d), (a, d), (b, c)))
        return [combine(_SUBTRACT, ac, bd), combine(_ADD, ad, bc)]
    return [remade(operation, operands, element) for operands in zip(*pairs, strict=True)]
