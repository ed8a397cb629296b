"""Scatters as scatters of rows, which two passes share.

    scatter of any dimension numbers  =>  %rows [N, W], %places [M] of i32, %given [M, W]

`%places` are numbers of rows, and -1 for indices outside of the operand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .bindings import IrOperation, ScatterDimensions, attributes, scatter_dimensions

OPERATION = "stablehlo.scatter"
COMBINATIONS = ("add", "and", "maximum", "minimum", "multiply", "or")
"""The combinations of an element and its update that a scatter can compute in any order."""
_GREATEST = 2**31 - 1
_AS_I64 = ("i64", "ui32", "ui16", "ui8")
"""Element types of indices that are looked at as i64."""


@dataclass(frozen=True)
class RowScatter:
    """A scatter whose updates are whole rows of its operand, once that is transposed."""

    types: tuple[str, str, str]
    """The types of operand, indices and updates."""
    element: str
    index: str
    sizes: tuple[int, ...]
    index_sizes: tuple[int, ...]
    update_sizes: tuple[int, ...]
    numbers: ScatterDimensions
    combination: str
    """One of `COMBINATIONS`; empty where an update takes the place of an element."""
    is_unique: bool
    """True if the frontend says that no row has two updates."""

    @classmethod
    def of(cls, scatter: IrOperation) -> "RowScatter | None":
        """The scatter of rows; None for several operands, a dynamic shape, indices of ui64, updates
        of parts of rows, or another combination."""
        if len(scatter.results) != 1:
            return None
        types = [operand.type for operand in scatter.operands]
        combination = _combination(scatter)
        if combination is None or not all(type_.has_static_shape for type_ in types):
            return None
        unique = attributes(scatter).get("unique_indices")
        made = cls(
            types=(str(types[0]), str(types[1]), str(types[2])),
            element=str(types[0].element_type),
            index=str(types[1].element_type),
            sizes=tuple(types[0].shape),
            index_sizes=tuple(types[1].shape),
            update_sizes=tuple(types[2].shape),
            numbers=scatter_dimensions(scatter),
            combination=combination,
            is_unique=unique is not None and unique.value,
        )
        is_signed = made.index in ("i32", *_AS_I64)
        is_filled = bool(made._named) and min(made.count, made.rows, made.width) > 0
        has_rows = _has_rows(made.sizes, made.update_sizes, made.numbers)
        is_small = max(made.rows, *made.sizes) <= _GREATEST
        return made if is_signed and is_filled and is_small and has_rows else None

    @property
    def rows(self) -> int:
        """N: how many rows the operand has."""
        return prod(self.sizes[dim] for dim in self._named)

    @property
    def width(self) -> int:
        """W: the elements of a row."""
        return prod(self.sizes) // max(1, self.rows)

    @property
    def count(self) -> int:
        """M: how many rows are given."""
        return prod(self._counts)

    @property
    def rows_type(self) -> str:
        return tensor(self.element, self.rows, self.width)

    @property
    def given_type(self) -> str:
        return tensor(self.element, self.count, self.width)

    @property
    def places_type(self) -> str:
        return tensor("i32", self.count)

    @property
    def is_flat(self) -> bool:
        """True if one index of i32 names each row already."""
        return (
            self.index == "i32"
            and self.sizes == (self.rows, self.width)
            and self.update_sizes == (self.count, self.width)
            and self.index_sizes == (self.count, 1)
            and self.numbers == FLAT
        )

    def function(self, body: Sequence[str]) -> str:
        """A function with the operands of the scatter. `body` makes `%changed`, the new rows, of
        `%rows`, `%places` and `%given`."""
        operand, indices, updates = self.types
        lines = [
            *_transposed("rows", "operand", self.types[0], self._order, self.sizes, self.rows_type),
            *_transposed(
                "given",
                "updates",
                self.types[2],
                self._update_order,
                self.update_sizes,
                self.given_type,
            ),
            *self._places(),
            *body,
            *self._restored(),
        ]
        text = "\n  ".join(lines)
        return (
            f"func.func private @scatter(%operand: {operand}, %indices: {indices},"
            f" %updates: {updates}) -> {operand} {{\n  {text}\n  return %result : {operand}\n}}"
        )

    @property
    def _named(self) -> tuple[int, ...]:
        """The dimensions that indices name, and those of batches."""
        return (*self.numbers.operand_batching, *self.numbers.scattered)

    @property
    def _order(self) -> list[int]:
        rest = [dim for dim in range(len(self.sizes)) if dim not in self._named]
        return [*self._named, *rest]

    @property
    def _update_order(self) -> list[int]:
        window = self.numbers.update_window
        return [*(d for d in range(len(self.update_sizes)) if d not in window), *window]

    @property
    def _index_order(self) -> list[int]:
        """The dimensions of indices without that of a vector."""
        vector = self.numbers.index_vector
        return [dim for dim in range(len(self.index_sizes)) if dim != vector]

    @property
    def _counts(self) -> list[int]:
        return [self.index_sizes[dim] for dim in self._index_order]

    def _places(self) -> list[str]:
        vector = [self.numbers.index_vector] if len(self._counts) < len(self.index_sizes) else []
        element = "i64" if self.index in _AS_I64 else "i32"
        wide = tensor(element, self.count)
        vectors = tensor(self.index, self.count, len(self.numbers.scattered))
        table = tensor(element, self.count, len(self.numbers.scattered))
        order = [*self._index_order, *vector]
        name = "table" if vectors == table else "vectors"
        lines = _transposed(name, "indices", self.types[1], order, self.index_sizes, vectors)
        if vectors != table:
            lines.append(f"%table = stablehlo.convert %vectors : ({vectors}) -> {table}")
        for number, dim in enumerate(self.numbers.indices_batching):
            counts = tensor("i32", *self._counts)
            lines += [
                f"%count{number} = stablehlo.iota dim = {self._index_order.index(dim)} : {counts}",
                f"%part{number} = stablehlo.reshape %count{number}"
                f" : ({counts}) -> {self.places_type}",
            ]
        batches = len(self.numbers.indices_batching)
        for column, dim in enumerate(self.numbers.scattered):
            number = column + batches
            truth, part = tensor("i1", self.count), tensor(element, self.count, 1)
            lines += [
                f"%column{number} = stablehlo.slice %table [0:{self.count}, {column}:{column + 1}]"
                f" : ({table}) -> {part}",
                f"%index{number} = stablehlo.reshape %column{number} : ({part}) -> {wide}",
                f"%least{number} = stablehlo.constant dense<0> : {wide}",
                f"%most{number} = stablehlo.constant dense<{self.sizes[dim] - 1}> : {wide}",
                f"%low{number} = stablehlo.maximum %index{number}, %least{number} : {wide}",
                f"%near{number} = stablehlo.minimum %low{number}, %most{number} : {wide}",
                f"%inside{number} = stablehlo.compare EQ, %near{number}, %index{number}"
                f" : ({wide}, {wide}) -> {truth}",
                f"%part{number} = stablehlo.convert %near{number} : ({wide}) -> {self.places_type}",
            ]
            if column > 0:
                lines.append(
                    f"%are{number} = stablehlo.and %{_are(number - 1, batches)},"
                    f" %inside{number} : {truth}"
                )
        total = "part0"
        for number, dim in enumerate(self._named[1:], start=1):
            lines += [
                f"%size{number} = stablehlo.constant dense<{self.sizes[dim]}> : {self.places_type}",
                f"%scaled{number} = stablehlo.multiply %{total}, %size{number}"
                f" : {self.places_type}",
                f"%total{number} = stablehlo.add %scaled{number}, %part{number}"
                f" : {self.places_type}",
            ]
            total = f"total{number}"
        return [
            *lines,
            f"%outside = stablehlo.constant dense<-1> : {self.places_type}",
            f"%places = stablehlo.select %{_are(len(self._named) - 1, batches)}, %{total},"
            f" %outside : {tensor('i1', self.count)}, {self.places_type}",
        ]

    def _restored(self) -> list[str]:
        ordered = tensor(self.element, *(self.sizes[dim] for dim in self._order))
        back = [self._order.index(dim) for dim in range(len(self.sizes))]
        return [
            f"%unfolded = stablehlo.reshape %changed : ({self.rows_type}) -> {ordered}",
            f"%result = stablehlo.transpose %unfolded, dims = {back}"
            f" : ({ordered}) -> {self.types[0]}",
        ]


FLAT = ScatterDimensions(
    update_window=(1,),
    inserted=(0,),
    operand_batching=(),
    indices_batching=(),
    scattered=(0,),
    index_vector=1,
)
"""The dimension numbers of a scatter of rows."""


def updates_rows(scatter: IrOperation) -> bool:
    """Return whether the updates of a scatter of static shapes are whole rows."""
    sizes, updates = (scatter.operands[place].type.shape for place in (0, len(scatter.results) + 1))
    return _has_rows(sizes, updates, scatter_dimensions(scatter))


def _has_rows(sizes: Sequence[int], updates: Sequence[int], numbers: ScatterDimensions) -> bool:
    """Return whether a window has one index in dimensions that indices name, and all in others."""
    absent = {*numbers.inserted, *numbers.operand_batching}
    windows = [dim for dim in range(len(sizes)) if dim not in absent]
    return all(
        updates[place] == (1 if dim in numbers.scattered else sizes[dim])
        for dim, place in zip(windows, numbers.update_window, strict=True)
    )


def tensor(element: str, *sizes: int) -> str:
    """A type, such as `tensor<2x3xf32>`."""
    return f"tensor<{'x'.join([*map(str, sizes), element])}>"


def _are(number: int, batches: int) -> str:
    """The name of a value that tells whether all indices up to one are inside."""
    return f"inside{number}" if number == batches else f"are{number}"


def _transposed(
    name: str, of: str, type_: str, order: Sequence[int], sizes: Sequence[int], result: str
) -> list[str]:
    """Lines that put the dimensions of a value in another order, and give it another shape."""
    element = type_.removesuffix(">").rpartition("x")[2].removeprefix("tensor<")
    ordered = tensor(element, *(sizes[dim] for dim in order))
    return [
        f"%{name}_ordered = stablehlo.transpose %{of}, dims = {list(order)}"
        f" : ({type_}) -> {ordered}",
        f"%{name} = stablehlo.reshape %{name}_ordered : ({ordered}) -> {result}",
    ]


def _combination(scatter: IrOperation) -> str | None:
    """The region's operation on its two arguments; None for one that is not known."""
    block = scatter.regions[0].blocks[0]
    *operations, terminator = (operation.operation for operation in block.operations)
    if not operations:
        return "" if list(terminator.operands) == [block.arguments[1]] else None
    first = operations[0]
    name = str(first.name).removeprefix("stablehlo.")
    is_plain = (
        len(operations) == 1
        and name in COMBINATIONS
        and list(terminator.operands) == list(first.results)
        and {*first.operands} == {*block.arguments}
    )
    return name if is_plain else None
