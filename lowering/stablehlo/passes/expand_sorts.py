"""expand_sorts: sort by counting which elements come before each one.

    %v, %i = sort(%x, iota) by GT
    =>
    %rank = reduce(convert(%x comes before each %x)) applies add
    %v = reduce(select(%rank EQ iota, %x, -0.0)) applies add, and %i likewise

LiteRT 2.3 has no sort, but an operator for the greatest elements of rows and their places. Such
sorts stay, as `is_top_k` tells them. Of others, the comparisons are as many as the square of the
elements in a row. The bits are those of a stable sort.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ..bindings import IrModule, IrOperation, find_operations
from ..in_place import in_place
from ..inlining import inline_text
from ..neutral_elements import neutral_element
from ..scatters import tensor
from ..sharding_attributes import is_sharded
from ..sorts import OPERATION, comparison, dimension, is_top_k

MANY = 2**24
"""Comparisons that are too many."""
_FLOATS = ("f32", "f16", "bf16")
_KEYS = (*_FLOATS, "i32", "i64", "i16", "i8", "i1")


@in_place
def expand_sorts(module: IrModule) -> None:
    """Expand every sort that compares one of its operands by LT or GT.

    Those that LiteRT has an operator for stay, and those with other comparisons, of other types
    (f64, unsigned), with more than `MANY` comparisons, with dynamic shapes or with shardings.
    """
    for sort in find_operations(module.operation, OPERATION):
        parsed = None if is_top_k(sort) else _Sort.of(sort)
        if parsed is not None:
            inline_text(sort, parsed.text(), "<sort>")


@dataclass(frozen=True)
class _Sort:
    elements: list[str]
    """The element types of the operands."""
    sizes: list[int]
    dim: int
    key: int
    """The operand that is compared."""
    direction: str
    is_total: bool
    """True if -0.0 comes before 0.0, and NaN last or first by its sign."""

    @classmethod
    def of(cls, sort: IrOperation) -> "_Sort | None":
        types = [operand.type for operand in sort.operands]
        compared = comparison(sort)
        if compared is None or is_sharded(sort) or not types[0].has_static_shape:
            return None
        key, direction, is_total = compared
        elements, sizes = [str(type_.element_type) for type_ in types], list(types[0].shape)
        dim = dimension(sort)
        is_known = direction in ("LT", "GT") and elements[key] in _KEYS and prod(sizes) > 0
        is_moved = all(e == "i1" or neutral_element("add", e) is not None for e in elements)
        if not (is_known and is_moved) or prod(sizes) * sizes[dim] > MANY:
            return None
        return cls(elements, sizes, dim, key, direction, is_total)

    def text(self) -> str:
        """A function that computes the same."""
        types = [tensor(element, *self.sizes) for element in self.elements]
        arguments = ", ".join(f"%x{n}: {type_}" for n, type_ in enumerate(types))
        lines = [*self._keys(), *self._ranks()]
        for number in range(len(types)):
            lines += self._moved(number)
        body = "\n  ".join(lines)
        names = ", ".join(f"%sorted{n}" for n in range(len(types)))
        return (
            f"func.func private @sort({arguments}) -> ({', '.join(types)}) {{\n  {body}\n"
            f"  return {names} : {', '.join(types)}\n}}"
        )

    @property
    def _key_element(self) -> str:
        element = self.elements[self.key]
        if element in _FLOATS:
            return "i32" if self.is_total else "f32"
        return "i64" if element == "i64" else "i32"

    @property
    def _pairs(self) -> list[int]:
        """Each element beside each element of its row: the row's dimension twice."""
        return [*self.sizes[: self.dim + 1], *self.sizes[self.dim :]]

    def _keys(self) -> Iterator[str]:
        """`%key`: numbers in the order of the elements."""
        source = tensor(self.elements[self.key], *self.sizes)
        if self.elements[self.key] not in _FLOATS or not self.is_total:
            yield (
                f"%key = stablehlo.convert %x{self.key}"
                f" : ({source}) -> {tensor(self._key_element, *self.sizes)}"
            )
            return
        wide, bits = tensor("f32", *self.sizes), tensor("i32", *self.sizes)
        truth = tensor("i1", *self.sizes)
        yield f"%wide = stablehlo.convert %x{self.key} : ({source}) -> {wide}"
        yield f"%bits = stablehlo.bitcast_convert %wide : ({wide}) -> {bits}"
        # Bits of negative numbers grow with their distance from zero.
        yield f"%none = stablehlo.constant dense<0> : {bits}"
        yield f"%one = stablehlo.constant dense<1> : {bits}"
        yield f"%least = stablehlo.constant dense<{-(2**31)}> : {bits}"
        yield f"%negative = stablehlo.compare LT, %bits, %none : ({bits}, {bits}) -> {truth}"
        yield f"%next = stablehlo.add %bits, %one : {bits}"
        yield f"%mirrored = stablehlo.subtract %least, %next : {bits}"
        yield f"%key = stablehlo.select %negative, %mirrored, %bits : {truth}, {bits}"

    def _ranks(self) -> Iterator[str]:
        """`%here`: which element is at which place of the sorted row."""
        key = tensor(self._key_element, *self.sizes)
        pairs, truth = tensor(self._key_element, *self._pairs), tensor("i1", *self._pairs)
        counts, ranks = tensor("i32", *self._pairs), tensor("i32", *self.sizes)
        # An element is at `dim`, and what it is compared with at `dim + 1`.
        yield self._broadcast("own", "key", key, pairs, self.dim + 1)
        yield self._broadcast("other", "key", key, pairs, self.dim)
        yield (
            f"%before = stablehlo.compare {self.direction}, %other, %own"
            f" : ({pairs}, {pairs}) -> {truth}"
        )
        yield f"%equal = stablehlo.compare EQ, %other, %own : ({pairs}, {pairs}) -> {truth}"
        yield f"%own_place = stablehlo.iota dim = {self.dim} : {counts}"
        yield f"%other_place = stablehlo.iota dim = {self.dim + 1} : {counts}"
        yield (
            f"%earlier = stablehlo.compare LT, %other_place, %own_place"
            f" : ({counts}, {counts}) -> {truth}"
        )
        yield f"%tied = stablehlo.and %equal, %earlier : {truth}"
        yield f"%counted = stablehlo.or %before, %tied : {truth}"
        yield f"%ones = stablehlo.convert %counted : ({truth}) -> {counts}"
        yield "%zero = stablehlo.constant dense<0> : tensor<i32>"
        yield (
            f"%rank = stablehlo.reduce(%ones init: %zero) applies stablehlo.add"
            f" across dimensions = [{self.dim + 1}] : ({counts}, tensor<i32>) -> {ranks}"
        )
        # Now `dim` is the place in the sorted row, and `dim + 1` the element.
        yield self._broadcast("ranks", "rank", ranks, counts, self.dim)
        yield (
            f"%here = stablehlo.compare EQ, %ranks, %own_place : ({counts}, {counts}) -> {truth}"
        )

    def _moved(self, number: int) -> Iterator[str]:
        """`%sorted0`: an operand in the order of the ranks."""
        stored = self.elements[number]
        element = "i32" if stored == "i1" else stored
        result, all_ = tensor(element, *self.sizes), tensor(element, *self._pairs)
        neutral, truth = neutral_element("add", element), tensor("i1", *self._pairs)
        yield (
            f"%data{number} = stablehlo.convert %x{number}"
            f" : ({tensor(stored, *self.sizes)}) -> {result}"
        )
        yield self._broadcast(f"every{number}", f"data{number}", result, all_, self.dim)
        yield f"%rest{number} = stablehlo.constant dense<{neutral}> : {all_}"
        yield (
            f"%chosen{number} = stablehlo.select %here, %every{number}, %rest{number}"
            f" : {truth}, {all_}"
        )
        yield f"%start{number} = stablehlo.constant dense<{neutral}> : tensor<{element}>"
        yield (
            f"%found{number} = stablehlo.reduce(%chosen{number} init: %start{number})"
            f" applies stablehlo.add across dimensions = [{self.dim + 1}]"
            f" : ({all_}, tensor<{element}>) -> {result}"
        )
        yield (
            f"%sorted{number} = stablehlo.convert %found{number}"
            f" : ({result}) -> {tensor(stored, *self.sizes)}"
        )

    def _broadcast(self, name: str, of: str, type_: str, result: str, without: int) -> str:
        """A line that repeats a value along a dimension of the pairs."""
        dims: Sequence[int] = [dim for dim in range(len(self._pairs)) if dim != without]
        return (
            f"%{name} = stablehlo.broadcast_in_dim %{of}, dims = {list(dims)}"
            f" : ({type_}) -> {result}"
        )
