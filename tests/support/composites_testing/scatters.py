"""Scatters of many forms, and numbers for them."""

from typing import Any

import numpy as np

from lowering.stablehlo import Module

# Shapes of operand, indices and updates; dimension numbers.
FORMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], str]] = {
    "rows": (
        (8, 3),
        (6, 1),
        (6, 3),
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],"
        " index_vector_dim = 1",
    ),
    "many": (
        (4, 3),
        (9, 1),
        (9, 3),
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],"
        " index_vector_dim = 1",
    ),
    "columns, no vector": (
        (4, 7),
        (6,),
        (4, 6),
        "update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1],"
        " index_vector_dim = 1",
    ),
    "two dimensions": (
        (4, 5, 3),
        (6, 2),
        (6, 3),
        "update_window_dims = [1], inserted_window_dims = [0, 1],"
        " scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1",
    ),
    "two, the other way round, vector first": (
        (4, 3, 5),
        (2, 2, 3),
        (2, 3, 3),
        "update_window_dims = [1], inserted_window_dims = [0, 2],"
        " scatter_dims_to_operand_dims = [2, 0], index_vector_dim = 0",
    ),
    "elements": (
        (5, 6),
        (4, 3, 2),
        (4, 3),
        "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1],"
        " index_vector_dim = 2",
    ),
    "a window of one": (
        (6, 3),
        (5, 1),
        (5, 1, 3),
        "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
    ),
    "batches": (
        (4, 6, 2),
        (5, 4, 1),
        (5, 4, 2),
        "update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0],"
        " scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [1],"
        " index_vector_dim = 2",
    ),
    "vector": (
        (9,),
        (6, 1),
        (6,),
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
    ),
}


def scatter(
    form: str, combination: str, element: str = "f32", index: str = "i64", attributes: str = ""
) -> Module:
    """`@main` calls a composite whose decomposition is the scatter."""
    *shapes, numbers = FORMS[form]
    types = [
        f"tensor<{'x'.join([*map(str, shape), kind])}>"
        for shape, kind in zip(shapes, (element, index, element), strict=True)
    ]
    computed = f"%1 = stablehlo.{combination} %a, %b : tensor<{element}>" if combination else ""
    signature = f"({', '.join(types)}) -> {types[0]}"
    return Module.parse(f"""
        func.func @main(%x: {types[0]}, %i: {types[1]}, %u: {types[2]}) -> {types[0]} {{
          %0 = stablehlo.composite "acme.scatter" %x, %i, %u {{decomposition = @scatter}}
            : {signature}
          return %0 : {types[0]}
        }}
        func.func private @scatter(%x: {types[0]}, %i: {types[1]}, %u: {types[2]}) -> {types[0]} {{
          %0 = "stablehlo.scatter"(%x, %i, %u) <{{
            scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}}> ({{
          ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
            {computed}
            stablehlo.return %{1 if combination else "b"} : tensor<{element}>
          }}) {{{attributes}}} : {signature}
          return %0 : {types[0]}
        }}
    """)


def arguments(form: str, dtype: Any, index: str = "i64", far: bool = True) -> list[Any]:
    """An operand, indices of which some are outside, and updates. Repeated indices are frequent."""
    random = np.random.default_rng(0)
    shape, indices, updates, _ = FORMS[form]
    wide = np.int64 if index == "i64" else np.int32
    places = random.integers(-1, max(shape) + 1, indices).astype(wide)
    if far and index == "i64":
        places.flat[0] = 2**32
    numbers = [(random.standard_normal(each) * 4).astype(dtype) for each in (shape, updates)]
    return [numbers[0], places, numbers[1]]


def not_sums(combination: str) -> list[Module]:
    """Scatters that passes leave as they are: of this combination, sharded, and dynamic."""
    plain = scatter("rows", "add")
    return [
        scatter("rows", combination),
        scatter("rows", "add", attributes='mhlo.sharding = "{replicated}"'),
        Module.parse(plain.text.replace("tensor<6x", "tensor<?x")),
    ]
