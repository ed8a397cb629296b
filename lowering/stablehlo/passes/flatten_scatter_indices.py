"""flatten_scatter_indices: make scatters into several dimensions scatters of rows.

    scatter(%x: tensor<4x5x3xf32>, %i: tensor<7x2xi64>, %u: tensor<7x3xf32>) applies add
    =>
    %inside = %i is inside of 4x5
    %rows = reshape %x : tensor<20x3xf32>
    %place = select(%inside, %i[:, 0] * 5 + %i[:, 1], 0) : tensor<7x1xi32>
    scatter(%rows, %place, select(%inside, %u, -0.0)) applies add

IREE 3.13 refuses scatters with several index dimensions and some with i64 indices, such as that of
`index_put`. It writes outside of the memory for an index that is outside of the operand. So the
update of such an index is one that changes nothing. Updates that replace elements go to a row that
is added and cut off. The result has the same bits.
"""

from collections.abc import Iterator

from ..bindings import IrModule, find_operations
from ..in_place import in_place
from ..inlining import inline_text
from ..neutral_elements import neutral_element
from ..scatters import OPERATION, RowScatter, tensor
from ..sharding_attributes import is_sharded


@in_place
def flatten_scatter_indices(module: IrModule) -> None:
    """Flatten every scatter of whole rows. Those with several operands, dynamic shapes, ui64
    indices or shardings stay, as do those whose updates are parts of rows."""
    for scatter in find_operations(module.operation, OPERATION):
        rows = None if is_sharded(scatter) else RowScatter.of(scatter)
        if rows is not None:
            text = rows.function([*_flat(rows)])
            inline_text(scatter, text, "<scatter>")


def _flat(scatter: RowScatter) -> Iterator[str]:
    """`%changed` of `%rows`, `%places` and `%given`."""
    element, rows, update = scatter.element, scatter.rows_type, scatter.given_type
    count, width = scatter.count, scatter.width
    scalar, places, column = f"tensor<{element}>", scatter.places_type, tensor("i32", count, 1)
    truth, truths = tensor("i1", count), tensor("i1", count, width)
    neutral = neutral_element(scatter.combination, element) if scatter.combination else None
    yield f"%spare = stablehlo.constant dense<{scatter.rows if neutral is None else 0}> : {places}"
    yield f"%is_outside = stablehlo.compare EQ, %places, %outside : ({places}, {places}) -> {truth}"
    yield f"%safe = stablehlo.select %is_outside, %spare, %places : {truth}, {places}"
    yield f"%at = stablehlo.reshape %safe : ({places}) -> {column}"
    if neutral is None:
        one, target = tensor(element, 1, width), tensor(element, scatter.rows + 1, width)
        yield f"%first = stablehlo.slice %rows [0:1, 0:{width}] : ({rows}) -> {one}"
        yield (
            f"%target = stablehlo.concatenate %rows, %first, dim = 0 : ({rows}, {one}) -> {target}"
        )
        written = ("target", target, "given")
    else:
        yield f"%neutral = stablehlo.constant dense<{neutral}> : {update}"
        yield (
            f"%are_outside = stablehlo.broadcast_in_dim %is_outside, dims = [0]"
            f" : ({truth}) -> {truths}"
        )
        yield f"%kept = stablehlo.select %are_outside, %neutral, %given : {truths}, {update}"
        written = ("rows", rows, "kept")
    name, target, updates = written
    region = f"%c = stablehlo.{scatter.combination} %a, %b : {scalar}\n  "
    yield (
        f'%scattered = "stablehlo.scatter"(%{name}, %at, %{updates}) <{{'
        f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],"
        f" inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,"
        f" unique_indices = false}}> ({{\n"
        f"  ^bb0(%a: {scalar}, %b: {scalar}):\n"
        f"  {region if scatter.combination else ''}"
        f"stablehlo.return %{'c' if scatter.combination else 'b'} : {scalar}\n"
        f"  }}) : ({target}, {column}, {update}) -> {target}"
    )
    end = f"[0:{scatter.rows}, 0:{width}] : ({target}) -> {rows}"
    yield f"%changed = stablehlo.slice %scattered {end}"
