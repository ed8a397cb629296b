"""widen_dots: which products become wide, and numbers that are no further from the exact ones."""

import ml_dtypes
import numpy as np
import pytest
from composites_testing import passes
from composites_testing.passes import changed, stay

from lowering.stablehlo import Module, casts, drop_cast_roundtrips, run, widen_dots

DOT = (
    "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]"
    " : (tensor<4x8xN>, tensor<8x4xN>) -> tensor<4x4xN>"
)


def program(body: str, results: str, narrow: str = "bf16", more: str = "") -> Module:
    """A function of `%a: 4x8` and `%b: 8x4`; N in its text is the narrow type."""
    text = f"func.func @main(%a: tensor<4x8xN>, %b: tensor<8x4xN>{more}) -> ({results}) {{\n{body}"
    return Module.parse(text.replace("N>", f"{narrow}>") + "\n}")


def product_then(body: str, result: str = "tensor<4x4xf32>", narrow: str = "bf16") -> Module:
    return program(f"%0 = {DOT}\n{body}\nreturn %y : {result}", result, narrow)


def widened(module: Module) -> Module:
    return changed(module, widen_dots)


def test_a_product_that_is_moved_and_cast() -> None:
    module = product_then(
        """
        %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x4xN>) -> tensor<4x4xN>
        %2 = stablehlo.reshape %1 : (tensor<4x4xN>) -> tensor<16xN>
        %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<16xN>) -> tensor<2x16xN>
        %y = stablehlo.convert %3 : (tensor<2x16xN>) -> tensor<2x16xf32>
        """,
        "tensor<2x16xf32>",
    )
    text = widened(module).text
    assert "(tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xf32>\n" in text
    assert "bf16" not in text.partition("-> tensor<4x4xf32>\n")[2]
    assert "stablehlo.convert" not in text


SUMMED = (
    ("bf16", "f32"), ("f16", "f32"), ("f8E4M3FN", "f32"), ("i8", "i32"), ("i16", "i32"),
    ("ui8", "ui32"),
)  # fmt: skip
"""Types, and the wider ones that products of them are summed in."""
# Nothing sums in f64 of itself, and a sum of i1 is an or.
NOT_SUMMED = (
    ("bf16", "f64"), ("f32", "f64"), ("f32", "bf16"), ("bf16", "f16"), ("f16", "bf16"),
    ("i8", "ui32"), ("ui8", "i32"), ("i8", "i16"), ("i8", "f32"), ("i1", "i32"), ("i32", "i64"),
    ("i4", "i32"),
)  # fmt: skip


def cast_product(narrow: str, wide: str) -> Module:
    result = f"tensor<4x4x{wide}>"
    cast = f"%y = stablehlo.convert %0 : (tensor<4x4xN>) -> {result}"
    return product_then(cast, result, narrow)


def test_types_that_are_summed_in_a_wider_one() -> None:
    for narrow, wide in SUMMED:
        after = widened(cast_product(narrow, wide))
        assert casts(after).casts == ()
        assert f"-> tensor<4x4x{wide}>\n    return" in after.text
    stay(widen_dots, [cast_product(*types) for types in NOT_SUMMED])


def test_every_product() -> None:
    module = Module.parse(
        """
        func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>, %x: tensor<1x8x8x2xbf16>,
            %k: tensor<3x3x2x5xbf16>) -> (tensor<4x4xf32>, tensor<1x6x6x5xf32>) {
          %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
          %1 = stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
          %2 = stablehlo.convolution(%x, %k)
            dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
            {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<1x8x8x2xbf16>, tensor<3x3x2x5xbf16>) -> tensor<1x6x6x5xbf16>
          %3 = stablehlo.convert %2 : (tensor<1x6x6x5xbf16>) -> tensor<1x6x6x5xf32>
          return %1, %3 : tensor<4x4xf32>, tensor<1x6x6x5xf32>
        }
        """
    )
    after = widened(module)
    assert casts(after).casts == ()
    random = np.random.default_rng(0)
    arrays = [
        random.standard_normal(shape).astype(ml_dtypes.bfloat16)
        for shape in ((4, 8), (8, 4), (1, 8, 8, 2), (3, 3, 2, 5))
    ]
    dot, convolution = run(after, *arrays)
    a, b, x, k = (array.astype(np.float64) for array in arrays)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    np.testing.assert_allclose(dot, a @ b, atol=1e-5)
    np.testing.assert_allclose(convolution, np.einsum("bxyiuv,uvio->bxyo", windows, k), atol=1e-5)


def test_several_casts_to_the_same_type_all_go() -> None:
    module = program(
        f"""
        %0 = {DOT}
        %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x4xN>) -> tensor<4x4xN>
        %2 = stablehlo.convert %0 : (tensor<4x4xN>) -> tensor<4x4xf32>
        %3 = stablehlo.convert %1 : (tensor<4x4xN>) -> tensor<4x4xf32>
        %4 = stablehlo.convert %1 : (tensor<4x4xN>) -> tensor<4x4xf32>
        return %2, %3, %4 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
        """,
        "tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>",
    )
    assert "return %0, %1, %1" in widened(module).text


ALGORITHM = (
    "algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type ="
    " f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1,"
    " allow_imprecise_accumulation = false>"
)
CAST = "stablehlo.convert %0 : (tensor<4x4xN>) -> tensor<4x4xf32>"


def test_what_stays() -> None:
    """Products with another use, that the function returns, that nothing reads, that something is
    computed of, and one that says itself what to sum in."""
    other_uses = (
        "%1 = stablehlo.convert %0 : (tensor<4x4xN>) -> tensor<4x4xf64>",
        "%1 = stablehlo.negate %0 : tensor<4x4xN>",
        "%1 = stablehlo.reshape %0 : (tensor<4x4xN>) -> tensor<16xN>\n"
        "%2 = stablehlo.negate %1 : tensor<16xN>",
    )
    results = "tensor<4x4xN>, tensor<4x4xf32>"
    returned = program(f"%0 = {DOT}\n%1 = {CAST}\nreturn %0, %1 : {results}", results)
    unread = product_then("%y = stablehlo.constant dense<0.0> : tensor<4x4xf32>")
    sums = "%1 = stablehlo.add %0, %0 : tensor<4x4xN>\n%y = "
    computed = product_then(sums + CAST.replace("%0", "%1"))
    dot = DOT.replace("[0] :", f"[0], {ALGORITHM} :")
    said = program(f"%0 = {dot}\n%1 = {CAST}\nreturn %1 : tensor<4x4xf32>", "tensor<4x4xf32>")
    uses = [product_then(f"{other}\n%y = {CAST}") for other in other_uses]
    stay(widen_dots, [*uses, returned, unread, computed, said])


# As autocast writes the gradient of a residual stream: it is added to in f32, and the next product
# takes it in bf16.
RESIDUAL = program(
    f"""
    %0 = {DOT}
    %1 = stablehlo.convert %0 : (tensor<4x4xN>) -> tensor<4x4xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = stablehlo.convert %2 : (tensor<4x4xf32>) -> tensor<4x4xN>
    %4 = stablehlo.dot %3, %a : (tensor<4x4xN>, tensor<4x8xN>) -> tensor<4x8xN>
    %5 = stablehlo.add %r, %2 : tensor<4x4xf32>
    return %4, %5 : tensor<4x8xN>, tensor<4x4xf32>
    """,
    "tensor<4x8xN>, tensor<4x4xf32>",
    more=", %r: tensor<4x4xf32>",
)


def test_a_product_that_is_cast_back_stays_whichever_pass_comes_first() -> None:
    stay(widen_dots, [RESIDUAL])
    one = drop_cast_roundtrips(widen_dots(RESIDUAL))
    assert one.text == widen_dots(drop_cast_roundtrips(RESIDUAL)).text
    assert [(cast.from_type, cast.to_type) for cast in casts(one).casts] == [("bf16", "f32")]


def test_regions_and_decompositions_too_and_functions_keep_their_types() -> None:
    module = Module.parse(
        f"""
        func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>, %i: tensor<i32>)
            -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {{
          %0 = "stablehlo.case"(%i) ({{
            %d = {DOT}
            %w = stablehlo.convert %d : (tensor<4x4xN>) -> tensor<4x4xf32>
            stablehlo.return %w : tensor<4x4xf32>
          }}) : (tensor<i32>) -> tensor<4x4xf32>
          %1 = stablehlo.composite "acme.wide" %a, %b {{decomposition = @wide}}
            : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xf32>
          %2 = stablehlo.composite "acme.narrow" %a, %b {{decomposition = @narrow}}
            : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
          %3 = stablehlo.convert %2 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
          return %0, %1, %3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
        }}
        func.func private @wide(%a: tensor<4x8xN>, %b: tensor<8x4xN>) -> tensor<4x4xf32> {{
          %d = {DOT}
          %w = stablehlo.convert %d : (tensor<4x4xN>) -> tensor<4x4xf32>
          return %w : tensor<4x4xf32>
        }}
        func.func private @narrow(%a: tensor<4x8xN>, %b: tensor<8x4xN>) -> tensor<4x4xN> {{
          %d = {DOT}
          return %d : tensor<4x4xN>
        }}
        """.replace("N>", "bf16>")
    )
    after = widened(module)
    (left,) = casts(after).casts
    assert (left.function, left.source) == ("main", "acme.narrow")
    assert after.text.count("-> tensor<4x4xbf16>") == 3


def test_a_dynamic_shape() -> None:
    body = """
      %0 = stablehlo.dot %a, %b : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xbf16>
      %r = stablehlo.convert %0 : (tensor<?x4xbf16>) -> tensor<?x4xf32>"""
    operands = "%a: tensor<?x8xbf16>, %b: tensor<8x4xbf16>"
    module = passes.program(body, operands, "tensor<?x4xf32>")
    assert casts(widened(module)).casts == ()


@pytest.mark.parametrize(("narrow", "dtype"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)])
def test_numbers_are_at_least_as_close_to_the_exact_ones(narrow: str, dtype: type) -> None:
    size = 64
    square, wide = f"tensor<{size}x{size}x{narrow}>", f"tensor<{size}x{size}xf32>"
    body = f"""
      %0 = stablehlo.dot %a, %b : ({square}, {square}) -> {square}
      %1 = stablehlo.transpose %0, dims = [1, 0] : ({square}) -> {square}
      %r = stablehlo.convert %1 : ({square}) -> {wide}"""
    module = passes.program(body, f"%a: {square}, %b: {square}", wide)
    # XLA may leave the rounding out by itself; behind a barrier it rounds, as other compilers do.
    # XLA:CPU of jaxlib 0.12 rounds every partial sum of the bf16 product without the barrier.
    barrier = f"%h = stablehlo.optimization_barrier %0 : {square}\n    %1"
    rounded = Module.parse(
        module.text.replace("%1", barrier, 1).replace("transpose %0", "transpose %h")
    )
    random = np.random.default_rng(0)
    a: np.ndarray
    b: np.ndarray
    a, b = (random.standard_normal((size, size)).astype(dtype) for _ in range(2))
    exact = (a.astype(np.float64) @ b.astype(np.float64)).T
    errors = [np.abs(run(m, a, b)[0] - exact).max() for m in (widened(module), module, rounded)]
    assert errors[0] <= min(errors[1:])
    assert errors[0] < 1e-5 < 1e-3 < errors[2]


def test_integers_no_longer_overflow() -> None:
    module = product_then(
        "%y = stablehlo.convert %0 : (tensor<4x4xN>) -> tensor<4x4xi32>", "tensor<4x4xi32>", "i8"
    )
    a, b = np.full((4, 8), 100, np.int8), np.full((8, 4), 100, np.int8)
    np.testing.assert_array_equal(run(module, a, b)[0], np.full((4, 4), -128))  # 80000 mod 256
    np.testing.assert_array_equal(run(widened(module), a, b)[0], np.full((4, 4), 80000))
