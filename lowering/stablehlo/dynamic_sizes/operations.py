"""Operations that carry sizes, in the forms that take them as operands.

| static | dynamic |
|---|---|
| broadcast_in_dim, reshape, iota | dynamic_broadcast_in_dim, dynamic_reshape, dynamic_iota |
| slice, dynamic_slice | real_dynamic_slice |
| pad, gather | dynamic_pad, dynamic_gather |
| reduce_window over all that came before, as in a running sum | a reduce over a mask |

All others have their results' sizes from their operands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..bindings import IrOperation, IrType, IrValue, attributes, ir
from ..errors import DynamicSizeError
from .alignment import Aligned
from .expressions import Sum, Values, constant
from .size_values import SizeValues, dynamic_type, integer, is_dynamic, new


@dataclass(frozen=True)
class Rewrite:
    """One operation to write with sizes that vary. It runs inside `building`."""

    aligned: Aligned
    sizes: SizeValues

    @property
    def before(self) -> IrOperation:
        return self.aligned.first

    @property
    def operands(self) -> list[IrValue]:
        return list(self.before.operands)

    @property
    def shape(self) -> tuple[Values, ...]:
        """The dimensions of the result."""
        return self.aligned.results[0]

    @property
    def type(self) -> IrType:
        return dynamic_type(self.shape, self.before.results[0].type.element_type)

    def expression(self, values: Values, what: str) -> Sum:
        """How a size is computed.

        Raises:
            DynamicSizeError: it does not follow from the sizes that are known here.
        """
        found = self.sizes.find(values)
        if found is None:
            raise DynamicSizeError(
                f"{what} of {self.aligned.label} is {', '.join(map(str, values))}, which cannot be"
                " computed from the sizes of the tensors before it; keep the dimension that it"
                " depends on fixed"
            )
        return found

    def vector(self, columns: Sequence[Values], what: str) -> IrValue:
        """Sizes as a tensor of i32."""
        expressions = [self.expression(values, what) for values in columns]
        return self.sizes.vector(expressions, self.aligned.outermost)

    def result_shape(self) -> IrValue:
        """The result's sizes as a tensor of i32."""
        return self.vector(self.shape, "a dimension of the result")

    def fixed(self, numbers: Sequence[int]) -> IrValue:
        """Integers as a tensor of i32."""
        return self.sizes.vector([constant(n) for n in numbers], self.aligned.outermost)

    def numbers(self, key: str) -> list[Values]:
        """An attribute that is a list of integers, in all recordings."""
        return list(zip(*(_integers(o, key) for o in self.aligned.operations), strict=True))

    def new(self, name: str, operands: Sequence[IrValue], **given: Any) -> IrValue:
        """An operation whose type is that of the result."""
        return new(name, self.type, operands, self.before, **given)

    def kept(self, *keys: str) -> dict[str, Any]:
        """Attributes that stay, as far as they are there."""
        there = attributes(self.before)
        return {key: there[key] for key in keys if key in there}


def _integers(operation: IrOperation, key: str) -> list[int]:
    import numpy as np

    held = attributes(operation).get(key)
    if held is None:
        return []
    if isinstance(held, ir().DenseElementsAttr):
        return [int(value) for value in np.array(held).ravel()]
    return [int(value) for value in held]


def _broadcast(item: Rewrite) -> IrValue:
    taken = item.aligned.operands[0]
    axes = _integers(item.before, "broadcast_dimensions")
    pairs = list(enumerate(zip(taken, (item.shape[axis] for axis in axes), strict=True)))
    stretched = [n for n, (size, result) in pairs if size != result]
    equal = [n for n, (size, result) in pairs if size == result]
    return item.new(
        "dynamic_broadcast_in_dim",
        [item.operands[0], item.result_shape()],
        known_expanding_dimensions=ir().DenseI64ArrayAttr.get(stretched),
        known_nonexpanding_dimensions=ir().DenseI64ArrayAttr.get(equal),
        **item.kept("broadcast_dimensions"),
    )


def _reshape(item: Rewrite) -> IrValue:
    return item.new("dynamic_reshape", [item.operands[0], item.result_shape()])


def _iota(item: Rewrite) -> IrValue:
    return item.new("dynamic_iota", [item.result_shape()], **item.kept("iota_dimension"))


def _slice(item: Rewrite) -> IrValue:
    start, limit = item.numbers("start_indices"), item.numbers("limit_indices")
    edges = [item.vector(start, "the start"), item.vector(limit, "the limit")]
    strides = item.fixed(_integers(item.before, "strides") or [1] * len(start))
    return item.new("real_dynamic_slice", [item.operands[0], *edges, strides])


def _dynamic_slice(item: Rewrite) -> IrValue:
    data, *starts = item.operands
    anchor, sizes = item.before, item.numbers("slice_sizes")
    extent = item.vector(item.aligned.operands[0], "a dimension")
    taken = item.vector(sizes, "the size")
    vector = taken.type
    single = ir().RankedTensorType.get([1], vector.element_type)
    scalar = ir().RankedTensorType.get([], vector.element_type)
    parts = [
        new("reshape", single, [new("convert", scalar, [start], anchor)], anchor)
        for start in starts
    ]
    # A start is moved until the slice fits, as in dynamic_slice.
    wanted = new("concatenate", vector, parts, anchor, dimension=integer(0))
    largest = new("subtract", vector, [extent, taken], anchor)
    least = item.fixed([0] * len(starts))
    start = new("clamp", vector, [least, wanted, largest], anchor)
    limit = new("add", vector, [start, taken], anchor)
    return item.new("real_dynamic_slice", [data, start, limit, item.fixed([1] * len(starts))])


def _pad(item: Rewrite) -> IrValue:
    edges = [
        item.vector(item.numbers(key), "the padding")
        for key in ("edge_padding_low", "edge_padding_high")
    ]
    inside = item.fixed(_integers(item.before, "interior_padding"))
    return item.new("dynamic_pad", [*item.operands, *edges, inside])


def _gather(item: Rewrite) -> IrValue:
    sizes = item.vector(item.numbers("slice_sizes"), "the size of a slice")
    kept = item.kept("dimension_numbers", "indices_are_sorted")
    return item.new("dynamic_gather", [*item.operands, sizes], **kept)


def _running(item: Rewrite) -> IrValue:
    """A window that ends (or starts) at each position and reaches to the edge: the result at i is
    reduced from all j <= i (or j >= i).

    Each position is compared with each other one, and what lies outside the window is replaced by
    the initial value.
    """
    windows, padding = item.numbers("window_dimensions"), item.numbers("padding")
    moving = [axis for axis, values in enumerate(windows) if values != (1,) * len(values)]
    rank, plain = len(windows), not item.kept("base_dilations", "window_dilations")
    axis = moving[0] if len(moving) == 1 else 0
    before = tuple(size - 1 for size in windows[axis])
    zero = (0,) * len(before)
    edges = padding[2 * axis : 2 * axis + 2]
    others = [p for n, p in enumerate(padding) if n // 2 != axis]
    fits = (
        len(moving) == 1
        and plain
        and len(item.operands) == 2
        and not item.kept("window_strides")
        and windows[axis] == item.shape[axis]
        and edges in ([before, zero], [zero, before])
        and all(p == zero for p in others)
    )
    if not fits:
        raise DynamicSizeError(
            "a window of stablehlo.reduce_window has a size that varies, and is not one over all"
            " that came before, as in a running sum; keep that dimension fixed, or reduce over it"
        )
    data, initial = item.operands
    element, anchor = data.type.element_type, item.before
    wide_shape = (*item.shape, item.shape[axis])
    wide = dynamic_type(wide_shape, element)
    sizes = item.vector(wide_shape, "a dimension")
    # Axis `axis` is the position of the result; the new, last one that of the operand.
    to = [n if n != axis else rank for n in range(rank)]
    lists = ir().DenseI64ArrayAttr.get
    spread = new(
        "dynamic_broadcast_in_dim", wide, [data, sizes], anchor, broadcast_dimensions=lists(to)
    )
    others_ = new(
        "dynamic_broadcast_in_dim", wide, [initial, sizes], anchor, broadcast_dimensions=lists([])
    )
    index = dynamic_type(wide_shape, ir().IntegerType.get_signless(32))
    here = new("dynamic_iota", index, [sizes], anchor, iota_dimension=integer(axis))
    there = new("dynamic_iota", index, [sizes], anchor, iota_dimension=integer(rank))
    direction = "LE" if edges == [before, zero] else "GE"
    inside = new(
        "compare",
        dynamic_type(wide_shape, ir().IntegerType.get_signless(1)),
        [there, here],
        anchor,
        comparison_direction=ir().Attribute.parse(f"#stablehlo<comparison_direction {direction}>"),
    )
    chosen = new("select", wide, [inside, spread, others_], anchor)
    reduce = ir().Operation.create(
        "stablehlo.reduce",
        results=[item.type],
        operands=[chosen, initial],
        attributes={"dimensions": lists([rank])},
        regions=1,
        ip=ir().InsertionPoint(anchor),
    )
    anchor.regions[0].blocks[0].append_to(reduce.regions[0])
    return reduce.results[0]


Form: TypeAlias = Callable[[Rewrite], IrValue]

_RESULT_SIZES: dict[str, Form] = {
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.iota": _iota,
}
_OWN_SIZES: dict[str, tuple[Form, tuple[str, ...]]] = {
    "stablehlo.slice": (_slice, ("start_indices", "limit_indices")),
    "stablehlo.dynamic_slice": (_dynamic_slice, ("slice_sizes",)),
    "stablehlo.pad": (_pad, ("edge_padding_low", "edge_padding_high")),
    "stablehlo.gather": (_gather, ("slice_sizes",)),
    "stablehlo.reduce_window": (_running, ("window_dimensions", "padding")),
}
_REFUSED = {
    "stablehlo.custom_call": "it says nothing about how its results' sizes follow",
    "stablehlo.fft": "its lengths are attributes",
    "stablehlo.rng_bit_generator": "its result has a fixed size",
}


def dynamic_form(item: Rewrite) -> IrValue | None:
    """The result of an operation in a dynamic form; None where the operation stays.

    Raises:
        DynamicSizeError: it has none.
    """
    name = item.aligned.name
    varies = any(any(map(is_dynamic, shape)) for shape in item.aligned.results)
    if name in _REFUSED and varies:
        raise DynamicSizeError(
            f"{name} has a result whose size varies, and {_REFUSED[name]}; keep that dimension"
            " fixed"
        )
    if name in _RESULT_SIZES and varies:
        return _RESULT_SIZES[name](item)
    if name in _OWN_SIZES:
        form, keys = _OWN_SIZES[name]
        if any(any(map(is_dynamic, item.numbers(key))) for key in keys):
            return form(item)
    return None
