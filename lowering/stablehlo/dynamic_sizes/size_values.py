"""The sizes that a function can read from its tensors, and the operations that compute others.

    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %1 = stablehlo.constant dense<2> : tensor<i32>
    %2 = stablehlo.multiply %0, %1 : tensor<i32>        // 2*batch

Sizes are i32, as `get_dimension_size` gives them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from ..bindings import IrOperation, IrType, IrValue, building, ir
from ..insertion import inserted
from .expressions import Sum, Term, Values, find_sum


def is_dynamic(values: Values) -> bool:
    """Whether a size varies."""
    return len(set(values)) > 1


def dynamic_type(dimensions: Sequence[Values], element: IrType) -> IrType:
    """The tensor type with `?` where a dimension varies. It must run inside `building`."""
    unknown = ir().ShapedType.get_dynamic_size()
    shape = [unknown if is_dynamic(values) else values[0] for values in dimensions]
    return ir().RankedTensorType.get(shape, element)


def new(
    name: str,
    result: IrType,
    operands: Sequence[IrValue],
    before: IrOperation,
    **given: Any,
) -> IrValue:
    """Add an operation with one result before another one."""
    return inserted(before, f"stablehlo.{name}", result, *operands, **given)


def integer(value: int) -> Any:
    """A 64-bit integer attribute. It must run inside `building`."""
    return ir().IntegerAttr.get(ir().IntegerType.get_signless(64), value)


@dataclass(frozen=True)
class _Source:
    """A dimension that a size can be read from."""

    value: IrValue
    axis: int


@dataclass
class SizeValues:
    """The sizes of one function, while it is rewritten in program order."""

    sources: dict[Values, _Source] = field(default_factory=dict)
    """Where each known size can be read."""
    computed: dict[object, IrValue] = field(default_factory=dict)
    """What was added before. All of it stands in the function's own block, so that what comes later
    can read it."""

    def add(self, value: IrValue, dimensions: Sequence[Values]) -> None:
        """Note a tensor whose sizes follow from its operands."""
        for axis, values in enumerate(dimensions):
            if is_dynamic(values) and min(values) > 0 and self.find(values) is None:
                self.sources[values] = _Source(value, axis)

    def find(self, values: Values) -> Sum | None:
        """How a size is computed from the known ones; None if it cannot be."""
        return find_sum(values, list(self.sources))

    def scalar(self, expression: Sum, before: IrOperation) -> IrValue:
        """A size as `tensor<i32>`. It must run inside `building`."""
        terms = [self._term(term, before) for term in expression]
        return self._combined("add", terms, before) if terms else self._constant(0, before)

    def vector(self, expressions: Sequence[Sum], before: IrOperation) -> IrValue:
        """Sizes as `tensor<Nxi32>`. It must run inside `building`."""
        key = ("vector", tuple(expressions))
        if key not in self.computed:
            number, one = len(expressions), self._type(1)
            if number == 0:
                empty = ir().DenseElementsAttr.parse("dense<> : tensor<0xi32>")
                return new("constant", self._type(0), [], before, value=empty)
            parts = [self._element(expression, before) for expression in expressions]
            self.computed[key] = (
                parts[0]
                if number == 1 and parts[0].type == one
                else new("concatenate", self._type(number), parts, before, dimension=integer(0))
            )
        return self.computed[key]

    def _element(self, expression: Sum, before: IrOperation) -> IrValue:
        key = ("element", expression)
        if key not in self.computed:
            scalar = self.scalar(expression, before)
            self.computed[key] = new("reshape", self._type(1), [scalar], before)
        return self.computed[key]

    def _term(self, term: Term, before: IrOperation) -> IrValue:
        factors = [self._read(number, before) for number in term.sizes]
        if term.factor != 1 or not factors:
            factors.append(self._constant(term.factor, before))
        return self._combined("multiply", factors, before)

    def _combined(self, name: str, values: Sequence[IrValue], before: IrOperation) -> IrValue:
        def combined(left: IrValue, right: IrValue) -> IrValue:
            key = (name, left, right)
            if key not in self.computed:
                self.computed[key] = new(name, self._type(), [left, right], before)
            return self.computed[key]

        return reduce(combined, values)

    def _read(self, number: int, before: IrOperation) -> IrValue:
        key = ("size", number)
        if key not in self.computed:
            source = list(self.sources.values())[number]
            self.computed[key] = new(
                "get_dimension_size",
                self._type(),
                [source.value],
                before,
                dimension=integer(source.axis),
            )
        return self.computed[key]

    def _constant(self, value: int, before: IrOperation) -> IrValue:
        key = ("constant", value)
        if key not in self.computed:
            held = ir().Attribute.parse(f"dense<{value}> : tensor<i32>")
            self.computed[key] = new("constant", self._type(), [], before, value=held)
        return self.computed[key]

    def _type(self, *shape: int) -> IrType:
        return ir().RankedTensorType.get(shape, ir().IntegerType.get_signless(32))


__all__ = ["SizeValues", "building", "dynamic_type", "integer", "is_dynamic", "new"]
