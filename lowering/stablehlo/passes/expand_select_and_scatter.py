"""expand_select_and_scatter: replace the gradient of max pooling with slices, selections and pads.

    stablehlo.select_and_scatter  =>  slice, compare, select, pad, add

IREE 3.13 refuses padded and overlapping windows (every ResNet's stem), and LiteRT 2.3 all of them.
The bits are those of StableHLO's definition, also for equal elements and NaN: a window's elements
are compared in their order, and an element adds up what windows give it in the order of the
windows. XLA's own are others for some uneven windows with equal elements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from ..bindings import IrModule, IrOperation, attributes, find_operations
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..inlining import inline_text
from ..scatters import tensor

OPERATION = "stablehlo.select_and_scatter"


@in_place
def expand_select_and_scatter(module: IrModule) -> None:
    """Expand every `stablehlo.select_and_scatter` that selects by a comparison and adds up.

    Raises:
        UnsupportedOperationError: one has a dynamic shape.
    """
    for call in find_operations(module.operation, OPERATION):
        windows = _windows(call)
        if windows is not None:
            inline_text(call, windows.text(), "<select_and_scatter>")


@dataclass(frozen=True)
class _Windows:
    """One operation. Lists have a number for each dimension."""

    full: str
    """The operand's type, and the result's."""
    sizes: list[int]
    source: str
    counts: list[int]
    """The source's dimensions: how many windows there are."""
    element: str
    windows: list[int]
    strides: list[int]
    low: list[int]
    high: list[int]
    comparison: str
    """Attributes of the comparison that keeps the element that was selected so far."""

    def text(self) -> str:
        """A function that computes the same."""
        is_float = not self.element.startswith(("i", "ui"))
        offsets = list(product(*map(range, self.windows)))
        numbers = tensor("i32", *self.counts)
        lines = [
            f"%zero = stablehlo.constant dense<{'0.0' if is_float else '0'}> : {self._scalar}",
            f"%none = stablehlo.constant dense<{'0.0' if is_float else '0'}> : {self.source}",
            *self._pad("padded", "x", self.full, "zero", self.low, self.high, self._padded),
        ]
        if self._is_padded:
            inside, whole = tensor("i32", *self.sizes), tensor("i32", *self._padded_sizes)
            lines += [
                "%outside = stablehlo.constant dense<0> : tensor<i32>",
                f"%ones = stablehlo.constant dense<1> : {inside}",
                *self._pad("inside", "ones", inside, "outside", self.low, self.high, whole),
                f"%no = stablehlo.constant dense<0> : {numbers}",
            ]
        for number, offset in enumerate(offsets):
            lines += [
                f"%number{number} = stablehlo.constant dense<{number}> : {numbers}",
                *self._candidate(number, offset),
            ]
        # An element adds up from its first window, in which it comes last.
        last = len(offsets) - 1
        lines.append(
            f"%sum = stablehlo.broadcast_in_dim %init, dims = [] : ({self._scalar})"
            f" -> {self._padded}"
        )
        total = "sum"
        for number in range(last, -1, -1):
            lines += self._added(number, offsets[number], f"selected{last}", total)
            total = f"sum{number}"
        low, high = ([-size for size in sizes] for sizes in (self.low, self.high))
        lines += self._pad("result", total, self._padded, "zero", low, high, self.full)
        body = "\n  ".join(lines)
        return (
            f"func.func private @select_and_scatter(%x: {self.full}, %source: {self.source},"
            f" %init: {self._scalar}) -> {self.full} {{\n  {body}\n"
            f"  return %result : {self.full}\n}}"
        )

    def _candidate(self, number: int, offset: Sequence[int]) -> list[str]:
        """Compare the elements at one place of all windows with what was selected before."""
        truth = tensor("i1", *self.counts)
        lines = self._slice(f"x{number}", "padded", self._padded, offset, self.source)
        if self._is_padded:
            whole, part = tensor("i32", *self._padded_sizes), tensor("i32", *self.counts)
            lines += [
                *self._slice(f"inside{number}", "inside", whole, offset, part),
                f"%is_inside{number} = stablehlo.compare NE, %inside{number}, %no"
                f" : ({part}, {part}) -> {truth}",
            ]
        if number == 0:
            return lines + self._first()
        before = number - 1
        lines.append(
            f'%keep{number} = "stablehlo.compare"(%best{before}, %x{number})'
            f" {{{self.comparison}}} : ({self.source}, {self.source}) -> {truth}"
        )
        keep = f"keep{number}"
        if self._is_padded:
            lines += [
                f"%known{number} = stablehlo.and %{keep}, %seen{before} : {truth}",
                f"%beside{number} = stablehlo.not %is_inside{number} : {truth}",
                f"%stay{number} = stablehlo.or %known{number}, %beside{number} : {truth}",
                f"%seen{number} = stablehlo.or %seen{before}, %is_inside{number} : {truth}",
            ]
            keep = f"stay{number}"
        numbers = tensor("i32", *self.counts)
        return [
            *lines,
            f"%best{number} = stablehlo.select %{keep}, %best{before}, %x{number}"
            f" : {truth}, {self.source}",
            f"%selected{number} = stablehlo.select %{keep}, %selected{before}, %number{number}"
            f" : {truth}, {numbers}",
        ]

    def _first(self) -> list[str]:
        """The names of what is selected first."""
        numbers, truth = tensor("i32", *self.counts), tensor("i1", *self.counts)
        lines = [
            f"%best0 = stablehlo.reshape %x0 : ({self.source}) -> {self.source}",
            f"%selected0 = stablehlo.reshape %number0 : ({numbers}) -> {numbers}",
        ]
        if self._is_padded:
            lines.append(f"%seen0 = stablehlo.reshape %is_inside0 : ({truth}) -> {truth}")
        return lines

    def _added(self, number: int, offset: Sequence[int], selected: str, total: str) -> list[str]:
        """Add what the windows give to the elements at one place of them."""
        truth, numbers = tensor("i1", *self.counts), tensor("i32", *self.counts)
        high = [
            size - start - (count - 1) * stride - 1
            for size, start, count, stride in zip(
                self._padded_sizes, offset, self.counts, self.strides, strict=True
            )
        ]
        between = [stride - 1 for stride in self.strides]
        return [
            f"%is{number} = stablehlo.compare EQ, %{selected}, %number{number}"
            f" : ({numbers}, {numbers}) -> {truth}",
            f"%given{number} = stablehlo.select %is{number}, %source, %none"
            f" : {truth}, {self.source}",
            *self._pad(
                f"placed{number}",
                f"given{number}",
                self.source,
                "zero",
                offset,
                high,
                self._padded,
                between,
            ),
            f"%sum{number} = stablehlo.add %{total}, %placed{number} : {self._padded}",
        ]

    def _slice(
        self, name: str, of: str, type_: str, offset: Sequence[int], result: str
    ) -> list[str]:
        bounds = ", ".join(
            f"{start}:{start + (count - 1) * stride + 1}:{stride}"
            for start, count, stride in zip(offset, self.counts, self.strides, strict=True)
        )
        return [f"%{name} = stablehlo.slice %{of} [{bounds}] : ({type_}) -> {result}"]

    def _pad(
        self,
        name: str,
        of: str,
        type_: str,
        value: str,
        low: Sequence[int],
        high: Sequence[int],
        result: str,
        interior: Sequence[int] | None = None,
    ) -> list[str]:
        between = [0] * len(low) if interior is None else interior
        scalar = f"tensor<{type_.removesuffix('>').rpartition('x')[2]}>"
        return [
            f"%{name} = stablehlo.pad %{of}, %{value}, low = {_listed(low)},"
            f" high = {_listed(high)}, interior = {_listed(between)}"
            f" : ({type_}, {scalar}) -> {result}"
        ]

    @property
    def _scalar(self) -> str:
        return f"tensor<{self.element}>"

    @property
    def _is_padded(self) -> bool:
        return any((*self.low, *self.high))

    @property
    def _padded_sizes(self) -> list[int]:
        return [sum(each) for each in zip(self.sizes, self.low, self.high, strict=True)]

    @property
    def _padded(self) -> str:
        return tensor(self.element, *self._padded_sizes)


def _windows(call: IrOperation) -> _Windows | None:
    """The windows of the operation; None if it selects or adds in another way."""
    full, source = call.operands[0].type, call.operands[1].type
    if not (full.has_static_shape and source.has_static_shape):
        raise UnsupportedOperationError(f"{OPERATION} of {full}: refine its shape first")
    comparison, add = (_only_operation(region) for region in call.regions)
    if comparison is None or comparison.name != "stablehlo.compare":
        return None
    if add is None or add.name != "stablehlo.add":
        return None
    named, rank = attributes(call), full.rank
    padding = named.get("padding")
    around = [int(size) for size in padding] if padding is not None else [0] * (2 * rank)
    return _Windows(
        full=str(full),
        sizes=list(full.shape),
        source=str(source),
        counts=list(source.shape),
        element=str(full.element_type),
        windows=_numbers(named.get("window_dimensions"), rank),
        strides=_numbers(named.get("window_strides"), rank),
        low=around[::2],
        high=around[1::2],
        comparison=", ".join(f"{key} = {value}" for key, value in attributes(comparison).items()),
    )


def _only_operation(region: object) -> IrOperation | None:
    """The operation of a region that applies one to its two arguments, in their order."""
    block = region.blocks[0]  # type: ignore[attr-defined]
    operations = [operation.operation for operation in block.operations]
    if len(operations) != 2:
        return None
    operation: IrOperation = operations[0]
    return operation if list(operation.operands) == list(block.arguments) else None


def _numbers(attribute: object, rank: int) -> list[int]:
    return [1] * rank if attribute is None else [int(size) for size in attribute]  # type: ignore[attr-defined]


def _listed(sizes: Sequence[int]) -> str:
    return f"[{', '.join(map(str, sizes))}]"
