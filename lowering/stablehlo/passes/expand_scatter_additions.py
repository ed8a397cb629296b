"""expand_scatter_additions: replace scatters that compute by comparisons and sums.

    scatter(%x: tensor<10x16xf32>, %i: tensor<24xi64>, %u: tensor<24x16xf32>) applies add
    =>
    %is = compare EQ, iota of the rows, %i : tensor<10x24xi1>
    add %x, dot(convert %is, %u)

LiteRT 2.3 converts such a scatter, and its runtime refuses it. There are three forms, by size:

- few elements: select updates by row, and reduce them; for all combinations and types;
- sums of floats, no more rows than updates: a product with a matrix of ones and zeros, of the
  size [rows, updates];
- sums of floats, more rows than updates: each update becomes the sum of all updates of its row, by
  a product with a matrix of [updates, updates]; then a scatter replaces rows, which LiteRT has.

Sums add up in another order than in a loop over the updates. In a product, an infinity or NaN in an
update becomes NaN in its column of all rows.
"""

from collections.abc import Iterator

from ..bindings import IrModule, find_operations
from ..in_place import in_place
from ..inlining import inline_text
from ..neutral_elements import neutral_element
from ..scatters import OPERATION, RowScatter, tensor
from ..sharding_attributes import is_sharded

FEW = 2**16
"""Rows times updates times width, up to which updates are selected and reduced."""
MANY = 2**28
"""Elements of a matrix that are too many: 1 GiB of f32."""
_FLOATS = {"f32": "f32", "f64": "f64", "f16": "f32", "bf16": "f32"}
"""The types in which products add up, by element type."""


@in_place
def expand_scatter_additions(module: IrModule) -> None:
    """Expand every scatter of whole rows that adds up or combines in another way.

    Those with several operands, dynamic shapes, ui64 indices or shardings stay, as do those too
    large for any form.
    """
    for scatter in find_operations(module.operation, OPERATION):
        rows = None if is_sharded(scatter) else RowScatter.of(scatter)
        body = _expanded(rows) if rows is not None else None
        if rows is not None and body is not None:
            inline_text(scatter, rows.function([*body]), "<scatter>")


def _expanded(scatter: RowScatter) -> Iterator[str] | None:
    """Lines that make `%changed` of `%rows`, `%places` and `%given`; None to leave the scatter."""
    if not scatter.combination:
        return None
    is_selected = neutral_element(scatter.combination, scatter.element) is not None
    if is_selected and scatter.rows * scatter.count * scatter.width <= FEW:
        return _selected(scatter)
    if scatter.combination != "add" or scatter.element not in _FLOATS:
        return None
    if scatter.count * min(scatter.rows, scatter.count) > MANY:
        return None
    return _by_row(scatter) if scatter.rows <= scatter.count else _by_update(scatter)


def _selected(scatter: RowScatter) -> Iterator[str]:
    element, operation = scatter.element, scatter.combination
    sizes = (scatter.rows, scatter.count, scatter.width)
    all_, truth = tensor(element, *sizes), tensor("i1", *sizes)
    yield from _compared(scatter, scatter.rows, "i32")
    hits = tensor("i1", scatter.rows, scatter.count)
    neutral = neutral_element(operation, element)
    yield f"%start = stablehlo.constant dense<{neutral}> : tensor<{element}>"
    yield f"%nothing = stablehlo.constant dense<{neutral}> : {all_}"
    yield f"%are = stablehlo.broadcast_in_dim %is, dims = [0, 1] : ({hits}) -> {truth}"
    yield (
        f"%every = stablehlo.broadcast_in_dim %given, dims = [1, 2]"
        f" : ({scatter.given_type}) -> {all_}"
    )
    yield f"%chosen = stablehlo.select %are, %every, %nothing : {truth}, {all_}"
    yield (
        f"%combined = stablehlo.reduce(%chosen init: %start) applies stablehlo.{operation}"
        f" across dimensions = [1] : ({all_}, tensor<{element}>) -> {scatter.rows_type}"
    )
    yield f"%changed = stablehlo.{operation} %rows, %combined : {scatter.rows_type}"


def _by_row(scatter: RowScatter) -> Iterator[str]:
    yield from _compared(scatter, scatter.rows, "i32")
    yield from _product(scatter, scatter.rows, "sums")
    yield f"%changed = stablehlo.add %rows, %sums : {scatter.rows_type}"


def _by_update(scatter: RowScatter) -> Iterator[str]:
    element, width = scatter.element, scatter.width
    column, update = tensor("i32", scatter.count, 1), scatter.given_type
    rows = scatter.rows_type
    yield from _compared(scatter, scatter.count, "places")
    yield from _product(scatter, scatter.count, "sums")
    yield f"%at = stablehlo.reshape %places : ({scatter.places_type}) -> {column}"
    yield (
        f'%before = "stablehlo.gather"(%rows, %at) <{{dimension_numbers = #stablehlo.gather<'
        f"offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],"
        f" index_vector_dim = 1>, slice_sizes = array<i64: 1, {width}>}}>"
        f" : ({rows}, {column}) -> {update}"
    )
    yield f"%after = stablehlo.add %before, %sums : {update}"
    yield (
        f'%changed = "stablehlo.scatter"(%rows, %at, %after) <{{scatter_dimension_numbers ='
        f" #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],"
        f" scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{\n"
        f"  ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):\n"
        f"  stablehlo.return %b : tensor<{element}>\n"
        f"  }}) : ({rows}, {column}, {update}) -> {rows}"
    )


def _compared(scatter: RowScatter, count: int, with_: str) -> Iterator[str]:
    """`%is`: which updates are of a row (`i32`), or of the row of another update (`places`)."""
    pairs, truth = tensor("i32", count, scatter.count), tensor("i1", count, scatter.count)
    if with_ == "places":
        yield (
            f"%row = stablehlo.broadcast_in_dim %places, dims = [0]"
            f" : ({scatter.places_type}) -> {pairs}"
        )
    else:
        yield f"%row = stablehlo.iota dim = 0 : {pairs}"
    yield (
        f"%place = stablehlo.broadcast_in_dim %places, dims = [1]"
        f" : ({scatter.places_type}) -> {pairs}"
    )
    yield f"%is = stablehlo.compare EQ, %row, %place : ({pairs}, {pairs}) -> {truth}"


def _product(scatter: RowScatter, count: int, name: str) -> Iterator[str]:
    """The sums of the updates that `%is` names."""
    wide = _FLOATS[scatter.element]
    hits, truth = tensor(wide, count, scatter.count), tensor("i1", count, scatter.count)
    updates, result = (tensor(wide, size, scatter.width) for size in (scatter.count, count))
    narrow = tensor(scatter.element, count, scatter.width)
    yield f"%ones = stablehlo.convert %is : ({truth}) -> {hits}"
    yield f"%wide = stablehlo.convert %given : ({scatter.given_type}) -> {updates}"
    yield (
        f"%product = stablehlo.dot_general %ones, %wide, contracting_dims = [1] x [0],"
        f" precision = [HIGHEST, HIGHEST] : ({hits}, {updates}) -> {result}"
    )
    yield f"%{name} = stablehlo.convert %product : ({result}) -> {narrow}"
