"""expand_sorts: sort by counting the elements that come before each element.

    %v, %i = sort(%x, iota) by GT
    =>
    %rank = reduce(convert(%x comes before each %x)) applies add
    %v = reduce(select(%rank EQ iota, %x, -0.0)) applies add, and %i likewise

LiteRT 2.3 has no sort, but an operator for the largest elements of rows and their indices. Sorts of
that form (`is_top_k`) stay. Other sorts take as many comparisons as the square of the number of
elements in a row. Results are bitwise identical to a stable sort.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from composites.lazy_modules import lax, np

from ..bindings import attributes, comparison_direction, made_by, users
from ..combinations import neutral_element
from ..ir_types import IrOperation, IrValue
from .expansion import expands

OPERATION = "stablehlo.sort"
MANY = 2**24
"""The largest number of comparisons."""
_FLOATS = ("f32", "f16", "bf16")
_KEYS = (*_FLOATS, "i32", "i64", "i16", "i8", "i1")


@expands(OPERATION)
def expand_sorts(sort: IrOperation) -> Callable[..., Any] | None:
    """Expand every sort that compares one of its operands by LT or GT.

    Sorts that LiteRT has an operator for stay, and so do sorts with other comparisons, of other
    types (f64, unsigned), with more than `MANY` comparisons, with dynamic shapes or with shardings.
    Sorts of one element become their operands.
    """
    if sort.operands[0].type.shape[dimension(sort)] == 1:
        return lambda *operands: operands
    parsed = None if is_top_k(sort) else _Sort.parse(sort)
    return None if parsed is None else parsed.results


@dataclass(frozen=True)
class _Sort:
    elements: list[str]
    """The element types of the operands."""
    dim: int
    key: int
    """The operand that is compared."""
    direction: str
    is_total: bool
    """True if -0.0 comes before 0.0, and NaN is last or first, depending on its sign."""

    @classmethod
    def parse(cls, sort: IrOperation) -> "_Sort | None":
        types = [operand.type for operand in sort.operands]
        compared = comparison(sort)
        if compared is None:
            return None
        key, direction, is_total = compared
        elements, sizes = [str(type_.element_type) for type_ in types], list(types[0].shape)
        dim = dimension(sort)
        is_supported = direction in ("LT", "GT") and elements[key] in _KEYS and prod(sizes) > 0
        is_moved = all(e == "i1" or neutral_element("add", e) is not None for e in elements)
        if not (is_supported and is_moved) or prod(sizes) * sizes[dim] > MANY:
            return None
        return cls(elements, dim, key, direction, is_total)

    def results(self, *operands: Any) -> list[Any]:
        """The operands in the order of the sort."""

        def moved(operand: Any, element: str) -> Any:
            data = operand.astype(np.int32) if element == "i1" else operand
            neutral = neutral_element("add", str(element if element != "i1" else "i32"))
            chosen = lax.select(is_at, self._paired(data, self.dim), lax.full(is_at.shape, neutral))
            # JAX's own sums start from 0.0; this sum starts from -0.0.
            total = lax.reduce(chosen, neutral, lambda a, b: lax.add(a, b), (self.dim + 1,))
            return total.astype(operand.dtype)

        is_at = self._positions(self._numbers(operands[self.key]))
        return [moved(*pair) for pair in zip(operands, self.elements, strict=True)]

    def _numbers(self, key: Any) -> Any:
        """Numbers whose order is that of the elements."""
        element = self.elements[self.key]
        if element not in _FLOATS:
            return key.astype(np.int64 if element == "i64" else np.int32)
        if not self.is_total:
            return key.astype(np.float32)
        bits = lax.bitcast_convert_type(key.astype(np.float32), np.int32)
        # Bits of negative numbers grow with their distance from zero.
        mirrored = np.int32(-(2**31)) - (bits + 1)
        return lax.select(bits < 0, mirrored, bits)

    def _positions(self, key: Any) -> Any:
        """Booleans that are True where an element is at a position of the sorted row. Positions are
        along `dim`, and elements along `dim + 1`."""
        # Elements are along `dim`, and the elements that they are compared with along `dim + 1`.
        left, right = self._paired(key, self.dim + 1), self._paired(key, self.dim)
        compare = lax.lt if self.direction == "LT" else lax.gt
        position = lax.broadcasted_iota(np.int32, left.shape, self.dim)
        right_position = lax.broadcasted_iota(np.int32, left.shape, self.dim + 1)
        is_before = compare(right, left) | ((right == left) & (right_position < position))
        rank = lax.reduce(is_before.astype(np.int32), np.int32(0), lax.add, (self.dim + 1,))
        return lax.eq(self._paired(rank, self.dim), position)

    def _paired(self, array: Any, without: int) -> Any:
        """Broadcast an array to the shape in which the row's dimension occurs twice. The array
        lacks the dimension `without`."""
        sizes = [*array.shape[: self.dim + 1], *array.shape[self.dim :]]
        kept = [dim for dim in range(len(sizes)) if dim != without]
        return lax.broadcast_in_dim(array, sizes, kept)


def comparison(sort: IrOperation) -> tuple[int, str, bool] | None:
    """The comparison of a sort: the operand's number, `LT` or another direction in which an element
    comes before the next element, and True if floats are in total order. None if the region is not
    one comparison of elements of one operand."""
    block = sort.regions[0].blocks[0]
    compare, *remaining = (operation.operation for operation in block.operations)
    if compare.name != "stablehlo.compare" or len(remaining) != 1:
        return None
    arguments, read = list(block.arguments), list(compare.operands)
    direction = comparison_direction(compare)
    is_total = "TOTALORDER" in str(attributes(compare).get("compare_type"))
    for number in range(len(sort.operands)):
        pair = arguments[2 * number : 2 * number + 2]
        if read == pair:
            return number, direction, is_total
        if read == pair[::-1]:
            return number, {"L": "G", "G": "L"}.get(direction[0], "") + direction[1:], is_total
    return None


def dimension(sort: IrOperation) -> int:
    """The dimension that is sorted, counted from the first."""
    return int(attributes(sort)["dimension"].value) % max(1, len(sort.operands[0].type.shape))


def is_top_k(sort: IrOperation) -> bool:
    """Return whether LiteRT 2.3 converts a sort to its operator TOPK_V2: several numbers and their
    indices along the last dimension, the largest first by GT, with indices that are read."""
    compared = comparison(sort)
    if compared is None or compared[:2] != (0, "GT") or len(sort.operands) != 2:
        return False
    first = sort.regions[0].blocks[0].operations[0].operation
    if comparison_direction(first) != "GT":  # LT of swapped arguments
        return False
    numbers, indices = sort.operands
    last = len(numbers.type.shape) - 1
    return (
        str(numbers.type.element_type) in ("f32", "i32")
        and dimension(sort) == last
        and numbers.type.shape[last] != 1
        and _is_iota(indices, last)
        and _is_read(sort.results[1])
    )


def _is_read(value: IrValue) -> bool:
    """Return whether a value reaches an operation without results, such as `return`."""
    pending, visited = [value], set()
    while pending:
        for user in users(pending.pop()):
            if not user.results:
                return True
            if user not in visited:
                visited.add(user)
                pending += user.results
    return False


def _is_iota(value: IrValue, dim: int) -> bool:
    owner = made_by(value, "stablehlo.iota")
    return (
        owner is not None
        and attributes(owner)["iota_dimension"].value == dim
        and str(value.type.element_type) == "i32"
    )
