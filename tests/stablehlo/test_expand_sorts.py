"""expand_sorts: the bits of a stable sort."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.passes import same_bits, stay

from lowering.stablehlo import Module, expand_sorts
from lowering.stablehlo.passes import expand_sorts as sizes

TOTAL = ", TOTALORDER"


def sort(
    element: str = "f32",
    direction: str = "GT",
    kind: str = TOTAL,
    dim: int = 1,
    *,
    swapped: bool = False,
    attributes: str = "",
) -> Module:
    """Numbers and their places, sorted by the numbers."""
    x, i, e = f"tensor<3x7x2x{element}>", "tensor<3x7x2xi32>", f"tensor<{element}>"
    order = "%b, %a" if swapped else "%a, %b"
    return Module.parse(f"""
        func.func @main(%x: {x}) -> ({x}, {i}) {{
          %i = stablehlo.iota dim = {dim} : {i}
          %0:2 = "stablehlo.sort"(%x, %i) <{{dimension = {dim} : i64, is_stable = true}}> ({{
          ^bb0(%a: {e}, %b: {e}, %c: tensor<i32>, %d: tensor<i32>):
            %1 = stablehlo.compare {direction}, {order}{kind} : ({e}, {e}) -> tensor<i1>
            stablehlo.return %1 : tensor<i1>
          }}) {{{attributes}}} : ({x}, {i}) -> ({x}, {i})
          return %0#0, %0#1 : {x}, {i}
        }}
    """)


def check(module: Module, x: Any) -> None:
    assert "stablehlo.sort" in module.text
    assert "stablehlo.sort" not in same_bits(module, expand_sorts, x)


def numbers() -> Any:
    """Many are equal, and some are not finite."""
    x = np.round(np.random.default_rng(0).standard_normal((3, 7, 2)) * 2)
    x[0, :4, 0] = np.inf, -np.inf, np.nan, -0.0
    x[1, :4, 1] = -np.nan, 0.0, -0.0, np.nan
    return x


def test_the_bits_are_those_of_a_stable_sort() -> None:
    for direction, dim in (("LT", 0), ("LT", 1), ("LT", 2), ("GT", 0), ("GT", 1)):
        check(sort(direction=direction, dim=dim), numbers().astype(np.float32))


TYPES: tuple[tuple[str, Any, str], ...] = (
    ("f16", np.float16, TOTAL),
    ("bf16", ml_dtypes.bfloat16, TOTAL),
    ("f32", np.float32, ", FLOAT"),
    ("i32", np.int32, ", SIGNED"),
    ("i64", np.int64, ""),
    ("i1", np.bool_, ""),
)


def test_types() -> None:
    x = np.round(np.random.default_rng(0).standard_normal((3, 7, 2)) * 2)
    for element, dtype, kind in TYPES:
        for swapped in (False, True):
            check(sort(element, kind=kind, swapped=swapped), x.astype(dtype))


def test_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic = (
        sort()
        .text.replace("<3x7x2x", "<?x7x2x")
        .replace(
            "stablehlo.iota dim = 1 : tensor<?x7x2xi32>",
            "stablehlo.constant dense<0> : tensor<3x7x2xi32>\n"
            "%j = stablehlo.convert %0 : (tensor<3x7x2xi32>) -> tensor<?x7x2xi32>",
        )
        .replace('"(%arg0, %0)', '"(%arg0, %j)')
    )
    others = [
        sort(direction="GE", kind=""),  # no strict order
        sort(dim=2),  # a top-k
        sort("f64"),
        sort("ui32", kind=""),
        sort(attributes='mhlo.sharding = "{replicated}"'),
        Module.parse(dynamic),
    ]
    stay(expand_sorts, others)
    monkeypatch.setattr(sizes, "MANY", 3 * 7 * 2 * 7 - 1)
    stay(expand_sorts, [sort()])


def test_other_forms_of_top_k_are_expanded() -> None:
    """In another order, and without places."""
    check(sort(direction="LT", dim=2, swapped=True), numbers().astype(np.float32))
    text = sort(dim=2).text.replace("#0, %1#1", "#0, %0").replace("%1#1 :", "%0 :")
    check(Module.parse(text), numbers().astype(np.float32))
