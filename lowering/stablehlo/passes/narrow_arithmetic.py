"""narrow_arithmetic: compute in f32 where f64 is rounded to the same numbers.

    %w = convert %s : f32 -> f64
    %i = divide 1.0, %w : f64            =>   %r = divide 1.0, %s : f32
    %r = convert %i : f64 -> f32

The sum, difference, product, quotient or square root of numbers of f32, computed in f64 and rounded
to f32, has the bits of the rounded result in f32, because f64 has more than twice the digits.
Consumers that multiply by the reciprocal of a constant instead of dividing by it differ in the last
bit. Subnormal constants stay, since many consumers take them as 0 in f32. LiteRT 2.3 has no
arithmetic of f64, in which PT2E gives scales that each call chooses.
"""

from dataclasses import dataclass, field

from composites.lazy_modules import np

from ..bindings import defining_operation, find_operations, ir, splat_number
from ..data_movement import CONVERT, DATA_MOVEMENT, data_operands, element_type
from ..dtypes import as_f32, holds
from ..in_place import in_place, is_sharded
from ..insertion import constant, converted, erase_unread, remade, replace_by, resized
from ..ir_types import IrModule, IrOperation, IrValue
from ..symbols import (
    CALL,
    COMPOSITE,
    Uses,
    body,
    function_name,
    functions,
    is_private,
    target,
    uses,
)

_ROUNDED = (
    *("stablehlo.add", "stablehlo.divide", "stablehlo.multiply"),
    *("stablehlo.sqrt", "stablehlo.subtract"),
)
"""Operations that round their result once."""
_CHOSEN = ("stablehlo.abs", "stablehlo.maximum", "stablehlo.minimum", "stablehlo.negate")
"""Operations whose results are those of their operands, but for the sign."""


@in_place
def narrow_arithmetic(module: IrModule) -> None:
    """Narrow arithmetic in f64 whose operands are numbers of f32 and whose result is converted to
    f32. An argument of a private function has such numbers if it has them in each call. Operations
    with shardings stay."""
    values = _Values(functions(module), uses(module.operation))
    unread = []
    for convert in find_operations(module.operation, CONVERT):
        value = convert.operands[0]
        narrow = None if element_type(convert.results[0]) != "f32" else values.narrowed(value)
        if narrow is not None and not is_sharded(convert):
            unread.append(value)
            replace_by(convert, narrow)
    erase_unread([*unread, *values.narrow.values()], (*_ROUNDED, *_CHOSEN, *DATA_MOVEMENT))


@dataclass(frozen=True)
class _Values:
    """Values of f64 in a module."""

    functions: dict[str, IrOperation]
    uses: Uses
    narrow: dict[IrValue, IrValue] = field(default_factory=dict)
    """Values of f64, rounded to f32."""
    exact: dict[IrValue, bool] = field(default_factory=dict)

    def narrowed(self, value: IrValue) -> IrValue | None:
        """The value rounded to f32, computed where the value is; None if it is not computed by a
        supported operation."""
        if value not in self.narrow:
            made = self._made(value)
            if made is None:
                return None
            self.narrow[value] = made
        return self.narrow[value]

    def _made(self, value: IrValue) -> IrValue | None:
        owner = defining_operation(value)
        if owner is None or element_type(value) != "f64" or is_sharded(owner):
            return None
        f32 = ir().F32Type.get(owner.context)
        if owner.name == CONVERT:
            before = element_type(owner.operands[0])
            if before == "f32":
                return owner.operands[0]
            return converted(owner, owner.operands[0], f32) if holds("f32", before) else None
        if owner.name == "stablehlo.constant":
            number, type_ = splat_number(value), resized(value.type, element=f32)
            return None if number is None else constant(owner, type_, as_f32(number))
        positions = _data(owner)
        if not positions or (
            owner.name in _ROUNDED and not all(map(self.is_exact, owner.operands))
        ):
            return None
        operands = [*owner.operands]
        for position in positions:
            narrow = self.narrowed(operands[position])
            operands[position] = (
                converted(owner, operands[position], f32) if narrow is None else narrow
            )
        return remade(owner, operands, f32)

    def is_exact(self, value: IrValue) -> bool:
        """Return whether all elements of a value of f64 are numbers of f32."""
        if value not in self.exact:
            self.exact[value] = False  # of a function that refers to itself
            self.exact[value] = self._is_exact(value)
        return self.exact[value]

    def _is_exact(self, value: IrValue) -> bool:
        owner = defining_operation(value)
        if owner is None:
            return self._is_exact_argument(value)
        if owner.name == CONVERT:
            return holds("f32", element_type(owner.operands[0]))
        if owner.name == "stablehlo.constant":
            number = splat_number(value)
            is_subnormal = number is not None and 0 < abs(number) < np.finfo(np.float32).tiny
            return number is not None and not is_subnormal and float(as_f32(number)) == number
        if owner.name in (CALL, COMPOSITE):
            block = body(self.functions[target(owner)])
            result = [*owner.results].index(value)
            return block is not None and self.is_exact([*block.operations][-1].operands[result])
        positions = () if owner.name in _ROUNDED else _data(owner)
        return bool(positions) and all(
            self.is_exact(owner.operands[position]) for position in positions
        )

    def _is_exact_argument(self, argument: IrValue) -> bool:
        """Return whether an argument of a private function has only numbers of f32 in each call."""
        function = argument.owner.owner.operation
        name = function_name(function) if function.name == "func.func" else ""
        callers = [*self.uses.composites.get(name, ()), *self.uses.calls.get(name, ())]
        is_called = name in self.functions and is_private(function) and name not in self.uses.others
        number = ir().BlockArgument(argument).arg_number
        return is_called and all(self.is_exact(caller.operands[number]) for caller in callers)


def _data(operation: IrOperation) -> list[int]:
    """The positions of the operands that a supported operation computes with, or moves."""
    if operation.name in (*_ROUNDED, *_CHOSEN):
        return [*range(len(operation.operands))]
    return data_operands(operation) if operation.name in DATA_MOVEMENT else []
