"""Constants whose shape or values depend on sizes, computed from the sizes.

dense<0.5> : tensor<5x4xf32>                     a scalar, broadcast
dense<0.2> : tensor<f32>   (1 / batch)           the size as f32, inverted
dense<[0, 1, 2, 3, 4]> : tensor<5xi64>           an iota
dense<[5, 4]> : tensor<2xi64>                    sizes side by side
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..bindings import IrOperation, IrType, IrValue, attributes, ir, splat_value
from ..dtypes import numpy_dtype
from ..errors import DynamicSizeError
from .alignment import Together, dimensions
from .expressions import Sum, Values, constant
from .size_values import SizeValues, dynamic_type, integer, is_dynamic, new

_LONGEST_LIST = 64
_PRINTED = 60


@dataclass(frozen=True)
class ConstantMaker:
    """Writes constants of one function before an operation. It runs inside `building`."""

    sizes: SizeValues
    before: IrOperation

    def value(self, constants: Together) -> IrValue | None:
        """A constant for all sizes; None where it is the same in all recordings.

        Raises:
            DynamicSizeError: it is none of the kinds above.
        """
        texts = [str(attributes(item)["value"]) for item in constants]
        if len(set(texts)) == 1:
            return None
        shape = dimensions([item.results[0] for item in constants])
        element = constants[0].results[0].type.element_type
        payloads = {text.rpartition(" : ")[0] for text in texts}
        if len(payloads) == 1 and all(splat_text(item) for item in constants):
            held = ir().Attribute.parse(f"{payloads.pop()} : tensor<{element}>")
            scalar = new("constant", _scalar_type(element), [], self.before, value=held)
            return self._broadcast(scalar, shape, element)
        arrays = [_array(item) for item in constants]
        found = None
        if all(array is not None for array in arrays):
            found = self._computed(arrays, shape, element)
        if found is None:
            shown = min(texts, key=len)
            shown = shown if len(shown) <= _PRINTED else f"{shown[:_PRINTED]} …"
            raise DynamicSizeError(
                f"the constant {shown} has values that depend on a size in a way that is not known"
                " here; compute it from the module's arguments, or pass it as an argument"
            )
        return found

    def _computed(
        self, arrays: Sequence[Any], shape: Sequence[Values], element: IrType
    ) -> IrValue | None:
        if all(array.size and (array == array.flat[0]).all() for array in arrays):
            scalar = self._scalar([array.flat[0] for array in arrays], element)
            return None if scalar is None else self._broadcast(scalar, shape, element)
        if not any(map(is_dynamic, shape)):
            return self._list(arrays, shape, element)
        return self._iota(arrays, shape, element)

    def _scalar(self, values: Sequence[Any], element: IrType) -> IrValue | None:
        """A number that is a size, or the inverse or a root of one."""
        if all(value == values[0] for value in values):
            return self._number(values[0], element)
        functions = _FUNCTIONS if values[0].dtype.kind in "fV" else _FUNCTIONS[:1]
        for inverse, apply, names in functions:
            integers = [_integer(inverse, value) for value in values]
            counts = tuple(number for number in integers if number is not None)
            if len(counts) < len(values) or (names and not all(counts)):
                continue
            expression = self.sizes.find(counts)
            if expression is None:
                continue
            for kind in _kinds(str(element)) if names else (str(element),):
                dtype = numpy_dtype(kind).type
                computed = [apply(dtype(number)) for number in counts]
                if any(c.astype(v.dtype) != v for c, v in zip(computed, values, strict=True)):
                    continue
                wide = ir().Type.parse(kind)
                scalar = self._converted(self.sizes.scalar(expression, self.before), wide)
                for name in names:
                    scalar = self._applied(name, scalar, wide)
                return self._converted(scalar, element)
        return None

    def _applied(self, name: str, value: IrValue, element: IrType) -> IrValue:
        if name != "reciprocal":
            return new(name, value.type, [value], self.before)
        held = ir().Attribute.parse(f"dense<1.0> : tensor<{element}>")
        one = new("constant", value.type, [], self.before, value=held)
        return new("divide", value.type, [one, value], self.before)

    def _list(
        self, arrays: Sequence[Any], shape: Sequence[Values], element: IrType
    ) -> IrValue | None:
        """Integers that are sizes, such as the operand of an operator that takes a shape."""
        if arrays[0].dtype.kind not in "iu" or not 0 < arrays[0].size <= _LONGEST_LIST:
            return None
        columns = zip(*(array.ravel().tolist() for array in arrays), strict=True)
        expressions = [self.sizes.find(column) for column in columns]
        if any(expression is None for expression in expressions):
            return None
        found: list[Sum] = [e for e in expressions if e is not None]
        flat = self._converted(self.sizes.vector(found, self.before), element)
        return new("reshape", dynamic_type(shape, element), [flat], self.before)

    def _iota(
        self, arrays: Sequence[Any], shape: Sequence[Values], element: IrType
    ) -> IrValue | None:
        """An offset, and for each axis the position times a step."""
        parts = [_steps(array) for array in arrays]
        if any(part is None for part in parts):
            return None
        total: IrValue | None = None
        type_ = dynamic_type(shape, element)
        for axis, values in enumerate(zip(*parts, strict=True), start=-1):
            defined = [value for value in values if value is not None]
            if not defined or not any(value != 0 for value in defined):
                continue
            if len(defined) < len(values) and any(value != defined[0] for value in defined):
                return None
            scalar = self._scalar(defined, element)
            if scalar is None:
                return None
            term = self._broadcast(scalar, shape, element)
            if axis >= 0:
                vector = self.sizes.vector(self._expressions(shape), self.before)
                position = new(
                    "dynamic_iota", type_, [vector], self.before, iota_dimension=integer(axis)
                )
                term = new("multiply", type_, [position, term], self.before)
            total = term if total is None else new("add", type_, [total, term], self.before)
        return total

    def _number(self, value: Any, element: IrType) -> IrValue:
        held = ir().Attribute.parse(f"dense<{value.item()!r}> : tensor<{element}>")
        return new("constant", _scalar_type(element), [], self.before, value=held)

    def _broadcast(self, scalar: IrValue, shape: Sequence[Values], element: IrType) -> IrValue:
        if not shape:
            return scalar
        nowhere = ir().DenseI64ArrayAttr.get([])
        type_ = dynamic_type(shape, element)
        if not any(map(is_dynamic, shape)):
            return new(
                "broadcast_in_dim", type_, [scalar], self.before, broadcast_dimensions=nowhere
            )
        vector = self.sizes.vector(self._expressions(shape), self.before)
        return new(
            "dynamic_broadcast_in_dim",
            type_,
            [scalar, vector],
            self.before,
            broadcast_dimensions=nowhere,
        )

    def _expressions(self, shape: Sequence[Values]) -> list[Sum]:
        found = []
        for values in shape:
            expression = self.sizes.find(values) if is_dynamic(values) else constant(values[0])
            if expression is None:
                raise DynamicSizeError(
                    f"a constant has a dimension of size {' or '.join(map(str, values))}, which"
                    " cannot be computed from the sizes that are known where it is used"
                )
            found.append(expression)
        return found

    def _converted(self, value: IrValue, element: IrType) -> IrValue:
        if value.type.element_type == element:
            return value
        type_ = ir().RankedTensorType.get(value.type.shape, element)
        return new("convert", type_, [value], self.before)


def splat_text(item: IrOperation) -> bool:
    """Whether a constant is written as one element for all."""
    held = attributes(item)["value"]
    return isinstance(held, ir().DenseElementsAttr) and bool(held.is_splat)


def _array(item: IrOperation) -> Any:
    """The elements as a numpy array; None for types that the bindings cannot give."""
    import numpy as np

    type_ = item.results[0].type
    name = str(type_.element_type)
    if name.startswith("complex"):
        return None
    dtype = numpy_dtype(name)
    if splat_text(item):
        return np.full(type_.shape, splat_value(item), dtype)
    if dtype.kind not in "iufb":
        return None
    return np.array(attributes(item)["value"]).reshape(type_.shape).astype(dtype)


def _steps(array: Any) -> list[Any] | None:
    """Offset and step along each axis; None if this is not what the array has. A step is None where
    the axis has a single position."""
    import numpy as np

    if array.size == 0 or array.dtype.kind not in "iuf":
        return None
    offset = array.flat[0]
    steps: list[Any] = []
    total = np.full(array.shape, offset)
    with np.errstate(all="ignore"):
        for axis, size in enumerate(array.shape):
            if size == 1:
                steps.append(None)
                continue
            step = array[tuple(int(a == axis) for a in range(array.ndim))] - offset
            steps.append(step)
            position = np.arange(size).astype(array.dtype)
            ones = [1] * array.ndim
            ones[axis] = size
            total = total + (position * step).reshape(ones)
    return [offset, *steps] if (total.astype(array.dtype) == array).all() else None


def _integer(inverse: Callable[[float], float], value: Any) -> int | None:
    import math

    number = float(value)
    if not math.isfinite(number) or (number <= 0 and inverse is not _same):
        return None
    return round(inverse(number))


def _kinds(element: str) -> tuple[str, ...]:
    """The types to compute a function in. Small types do not have all sizes; Python, where such
    constants come from, has f64."""
    return ("f64",) if element == "f64" else ("f32", "f64")


def _same(value: float) -> float:
    return value


def _sqrt(value: Any) -> Any:
    import numpy as np

    return np.sqrt(value)


# From the constant to the size, and back with the operations that do this.
_FUNCTIONS: tuple[tuple[Callable[[float], float], Callable[[Any], Any], tuple[str, ...]], ...] = (
    (_same, _same, ()),
    (lambda v: 1 / v, lambda n: n.dtype.type(1) / n, ("reciprocal",)),
    (lambda v: v * v, _sqrt, ("sqrt",)),
    (lambda v: 1 / (v * v), lambda n: n.dtype.type(1) / _sqrt(n), ("sqrt", "reciprocal")),
)


def _scalar_type(element: IrType) -> IrType:
    return ir().RankedTensorType.get([], element)
