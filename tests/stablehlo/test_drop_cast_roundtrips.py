"""drop_cast_roundtrips: what goes and what stays, and the same bits before and after."""

import re
from itertools import pairwise, product

import ml_dtypes
import numpy as np
import pytest
from composites_testing.passes import changed, stay
from composites_testing.selection import exhaustive

from lowering.stablehlo import Module, casts, drop_cast_roundtrips, run

ALL_OF_16_BITS = np.arange(2**16, dtype=np.uint16).reshape(256, 256)


def program(body: str, operand: str, result: str, more: str = "") -> Module:
    """A function of `%x`, and of what `more` declares, that returns `%y`."""
    return Module.parse(
        f"func.func @main(%x: {operand}{more}) -> {result} {{\n{body}\nreturn %y : {result}\n}}"
    )


def dropped(module: Module) -> Module:
    return changed(module, drop_cast_roundtrips)


def cast_types(module: Module) -> list[tuple[str, str]]:
    return [(cast.from_type, cast.to_type) for cast in casts(module).casts]


MOVES = {
    "transpose": ("stablehlo.transpose %w, dims = [1, 0] : (tensor<256x256xW>) -> R", "256x256"),
    "reshape": ("stablehlo.reshape %w : (tensor<256x256xW>) -> R", "4x64x256"),
    "broadcast": (
        "stablehlo.broadcast_in_dim %w, dims = [1, 2] : (tensor<256x256xW>) -> R",
        "2x256x256",
    ),
    "slice": ("stablehlo.slice %w [3:200:2, 0:256] : (tensor<256x256xW>) -> R", "99x256"),
    "reverse": ("stablehlo.reverse %w, dims = [0] : R", "256x256"),
    "dynamic_slice": (
        "stablehlo.dynamic_slice %w, %i, %i, sizes = [7, 9] :"
        " (tensor<256x256xW>, tensor<i32>, tensor<i32>) -> R",
        "7x9",
    ),
    "dynamic_update_slice": (
        "stablehlo.dynamic_update_slice %w, %w, %i, %i :"
        " (tensor<256x256xW>, tensor<256x256xW>, tensor<i32>, tensor<i32>) -> R",
        "256x256",
    ),
    "concatenate": (
        "stablehlo.concatenate %w, %w, dim = 0 : (tensor<256x256xW>, tensor<256x256xW>) -> R",
        "512x256",
    ),
    "pad": (
        "stablehlo.pad %w, %c, low = [1, 0], high = [0, 2], interior = [0, 1] :"
        " (tensor<256x256xW>, tensor<W>) -> R",
        "257x513",
    ),
    "select": ("stablehlo.select %p, %w, %all : tensor<256x256xi1>, R", "256x256"),
    "gather": (
        '"stablehlo.gather"(%w, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],'
        " collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,"
        " slice_sizes = array<i64: 1, 256>}> : (tensor<256x256xW>, tensor<3x1xi32>) -> R",
        "3x256",
    ),
}


def around(move: str, narrow: str, wide: str) -> Module:
    """A cast to a wide type and back around one operation, with what else it reads."""
    text, shape = MOVES[move]
    full, result = f"tensor<256x256x{wide}>", f"tensor<{shape}x{wide}>"
    one = "1" if wide.startswith(("i", "ui")) else "1.0"
    others = {
        "%i": "stablehlo.constant dense<5> : tensor<i32>",
        "%rows": "stablehlo.constant dense<[[9], [300], [2]]> : tensor<3x1xi32>",
        "%c": f"stablehlo.constant dense<{one}> : tensor<{wide}>",
        "%one": f"stablehlo.constant dense<{one}> : tensor<{wide}>",
        "%all": f"stablehlo.broadcast_in_dim %one, dims = [] : (tensor<{wide}>) -> {full}",
        "%p": f"stablehlo.compare NE, %x, %x : (tensor<256x256x{narrow}>,"
        f" tensor<256x256x{narrow}>) -> tensor<256x256xi1>",
    }
    read = {"%one", *re.findall(r"%\w+", text)} if "%all" in text else re.findall(r"%\w+", text)
    lines = [f"{name} = {made}" for name, made in others.items() if name in read]
    return program(
        "\n".join(lines)
        + f"""
        %w = stablehlo.convert %x : (tensor<256x256x{narrow}>) -> {full}
        %m = {text.replace("W>", f"{wide}>").replace("R", result)}
        %y = stablehlo.convert %m : ({result}) -> tensor<{shape}x{narrow}>
        """,
        f"tensor<256x256x{narrow}>",
        f"tensor<{shape}x{narrow}>",
    )


def test_data_moves_in_the_narrow_type_with_the_same_bits() -> None:
    types = (
        ("bf16", "f32", ml_dtypes.bfloat16),
        ("f16", "f32", np.float16),
        ("i16", "i32", np.int16),
    )
    for move, (narrow, wide, dtype) in product(MOVES, types):
        module = around(move, narrow, wide)
        after = dropped(module)
        assert cast_types(after) == [], move
        assert wide == "i32" or wide not in after.text  # indices are i32
        x = ALL_OF_16_BITS.view(dtype)
        check_bits(run(after, x)[0], run(module, x)[0])


def check_bits(got: np.ndarray, want: np.ndarray) -> None:
    """The same bits, where a number is no NaN; NaN where there was NaN."""
    assert got.dtype == want.dtype
    with np.errstate(invalid="ignore"):
        nan = want != want
        np.testing.assert_array_equal(got != got, nan)
    zero = np.zeros_like(got)
    assert np.where(nan, zero, got).tobytes() == np.where(nan, zero, want).tobytes()


IN_A_ROW = {
    "bf16 f32 bf16": "",
    "bf16 f32 f64": "bf16-f64",
    "bf16 f32 f64 f32": "bf16-f32",
    "bf16 f32 f64 bf16": "",
    "f32 f32": "",
    "i1 i8 f32": "i1-f32",
    "i8 i16 f32 i32": "i8-i32",
    "f16 f32 bf16": "f16-f32 f32-bf16",
    "f32 bf16 f32": "f32-bf16 bf16-f32",
    "f64 f32 bf16": "f64-f32 f32-bf16",
    "f64 f32 bf16 f32 bf16": "f64-f32 f32-bf16",
    "i32 f32 i32": "i32-f32 f32-i32",
    "i1 i8 i1": "",
    "f8E4M3FN bf16 f8E4M3FN": "",
    "i8 bf16 i8": "",
    "i8 ui8 i8": "i8-ui8 ui8-i8",
    "i16 f16 i16": "i16-f16 f16-i16",
    "f8E5M2 f8E4M3FN f8E5M2": "f8E5M2-f8E4M3FN f8E4M3FN-f8E5M2",
}
"""Casts in a row, and those that are left of them."""


def test_casts_in_a_row() -> None:
    for types, expected in IN_A_ROW.items():
        tensors = [f"tensor<4x{type_}>" for type_ in types.split()]
        names = ["x", *(f"v{number}" for number in range(len(tensors) - 2)), "y"]
        lines = [
            f"%{name} = stablehlo.convert %{source} : ({narrow}) -> {wide}"
            for (source, name), (narrow, wide) in zip(
                pairwise(names), pairwise(tensors), strict=True
            )
        ]
        after = dropped(program("\n".join(lines), tensors[0], tensors[-1]))
        left = ["-".join(cast) for cast in cast_types(after)]
        assert sorted(left) == sorted(expected.split()), types


def test_what_reads_the_wide_value_reads_a_cast_of_the_moved_one() -> None:
    module = Module.parse(
        """
        func.func @main(%x: tensor<2x3xbf16>) -> (tensor<3x2xbf16>, tensor<3x2xf32>) {
          %0 = stablehlo.convert %x : (tensor<2x3xbf16>) -> tensor<2x3xf32>
          %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
          %2 = stablehlo.convert %1 : (tensor<3x2xf32>) -> tensor<3x2xbf16>
          %3 = stablehlo.tanh %1 : tensor<3x2xf32>
          return %2, %3 : tensor<3x2xbf16>, tensor<3x2xf32>
        }
        """
    )
    text = dropped(module).text
    assert "stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xbf16>)" in text
    assert "%1 = stablehlo.convert %0" in text
    assert "%2 = stablehlo.tanh %1 : tensor<3x2xf32>" in text
    assert "return %0, %2" in text


KEPT = {
    "1.5": False,
    "-0.0": False,
    "0xFF800000": False,  # minus infinity
    "0x7FC00000": True,  # NaN: its bits are not ours to choose
    "0.1": True,  # no bfloat16
    "1.0e-45": True,
}


@pytest.mark.parametrize("constant", KEPT)
def test_a_constant_has_to_be_of_the_narrow_type(constant: str) -> None:
    module = program(
        f"""
        %c = stablehlo.constant dense<{constant}> : tensor<4xf32>
        %w = stablehlo.convert %x : (tensor<4xbf16>) -> tensor<4xf32>
        %m = stablehlo.concatenate %c, %w, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
        %y = stablehlo.convert %m : (tensor<8xf32>) -> tensor<8xbf16>
        """,
        "tensor<4xbf16>",
        "tensor<8xbf16>",
    )
    after = dropped(module)
    assert (after.text == module.text) == KEPT[constant]
    x = np.asarray([1, -0.0, np.inf, 1e-40], ml_dtypes.bfloat16)
    if "FC" not in constant:
        assert run(module, x)[0].tobytes() == run(after, x)[0].tobytes()


COMPUTED = (
    "%m = stablehlo.tanh %w : tensor<4x4xf32>",
    "%m = stablehlo.add %w, %w : tensor<4x4xf32>",
    "%m = stablehlo.add %w, %z : tensor<4x4xf32>",
    "%m = stablehlo.select %p, %w, %z : tensor<4x4xi1>, tensor<4x4xf32>",
    "%m = stablehlo.optimization_barrier %w : tensor<4x4xf32>",
    "%b = stablehlo.bitcast_convert %w : (tensor<4x4xf32>) -> tensor<4x4xi32>\n"
    "%m = stablehlo.bitcast_convert %b : (tensor<4x4xi32>) -> tensor<4x4xf32>",
)
"""Operations that compute, hold back, or have another operand that is not of the narrow type."""


def test_what_does_not_only_move_its_data_back_stays() -> None:
    modules = [
        program(
            "%w = stablehlo.convert %x : (tensor<4x4xbf16>) -> tensor<4x4xf32>\n"
            f"{between}\n"
            "%y = stablehlo.convert %m : (tensor<4x4xf32>) -> tensor<4x4xbf16>",
            "tensor<4x4xbf16>",
            "tensor<4x4xbf16>",
            ", %z: tensor<4x4xf32>, %p: tensor<4x4xi1>",
        )
        for between in COMPUTED
    ]
    one_way = program(
        "%w = stablehlo.convert %x : (tensor<2x4xbf16>) -> tensor<2x4xf32>\n"
        "%y = stablehlo.transpose %w, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>",
        "tensor<2x4xbf16>",
        "tensor<4x2xf32>",
    )
    tensor = "tensor<2xcomplex<f32>>"
    constant = f"%c = stablehlo.constant dense<(0.0,1.0)> : {tensor}\n"
    complex_sum = program(f"{constant}%y = stablehlo.add %x, %c : {tensor}", tensor, tensor)
    stay(drop_cast_roundtrips, [*modules, one_way, complex_sum])


def test_a_long_way_there_and_back() -> None:
    lines = ["%m0 = stablehlo.convert %x : (tensor<4x4xbf16>) -> tensor<4x4xf32>"]
    lines += [
        f"%m{i + 1} = stablehlo.transpose %m{i}, dims = [1, 0] : (tensor<4x4xf32>)"
        " -> tensor<4x4xf32>"
        for i in range(3000)
    ]
    lines.append("%y = stablehlo.convert %m3000 : (tensor<4x4xf32>) -> tensor<4x4xbf16>")
    after = dropped(program("\n".join(lines), "tensor<4x4xbf16>", "tensor<4x4xbf16>"))
    assert "f32" not in after.text


def test_regions_and_decompositions_too() -> None:
    module = Module.parse(
        """
        func.func @main(%x: tensor<4x4xbf16>, %i: tensor<i32>) -> tensor<4x4xbf16> {
          %w = stablehlo.convert %x : (tensor<4x4xbf16>) -> tensor<4x4xf32>
          %0 = "stablehlo.case"(%i) ({
            %1 = stablehlo.reverse %w, dims = [0] : tensor<4x4xf32>
            %2 = stablehlo.convert %1 : (tensor<4x4xf32>) -> tensor<4x4xbf16>
            stablehlo.return %2 : tensor<4x4xbf16>
          }, {
            stablehlo.return %x : tensor<4x4xbf16>
          }) : (tensor<i32>) -> tensor<4x4xbf16>
          %3 = stablehlo.composite "acme.turn" %0 {decomposition = @turn}
            : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
          return %3 : tensor<4x4xbf16>
        }
        func.func private @turn(%x: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
          %0 = stablehlo.convert %x : (tensor<4x4xbf16>) -> tensor<4x4xf32>
          %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
          %2 = stablehlo.convert %1 : (tensor<4x4xf32>) -> tensor<4x4xbf16>
          return %2 : tensor<4x4xbf16>
        }
        """
    )
    assert "f32" not in dropped(module).text


def test_dynamic_shapes_and_types_that_xla_noted() -> None:
    """A note does not outlive the change."""
    for rows, note in (("?", ""), ("2", '{xla_shape = "f32[4,2]{0,1}"}')):
        module = program(
            f"""
            %w = stablehlo.convert %x : (tensor<{rows}x4xbf16>) -> tensor<{rows}x4xf32>
            %m = stablehlo.transpose %w, dims = [1, 0] {note}
              : (tensor<{rows}x4xf32>) -> tensor<4x{rows}xf32>
            %y = stablehlo.convert %m : (tensor<4x{rows}xf32>) -> tensor<4x{rows}xbf16>
            """,
            f"tensor<{rows}x4xbf16>",
            f"tensor<4x{rows}xbf16>",
        )
        assert "f32" not in dropped(module).text


@pytest.mark.parametrize("seed", [0, *exhaustive(*range(1, 8))])
def test_random_programs_keep_their_bits_and_their_second_run_changes_nothing(seed: int) -> None:
    """Squares that are cast, moved and joined at random; every value is a result."""
    random = np.random.default_rng(seed)
    types = ["bf16", "f16", "f32", "f64", "i8", "i32", "i1"]
    values = [("x", "bf16"), ("s", "i8"), ("t", "f32")]
    lines: list[str] = []
    for number in range(40):
        name, type_ = values[random.integers(max(0, len(values) - 8), len(values))]
        tensor, new = f"tensor<4x4x{type_}>", f"v{number}"
        peers = [other for other, kind in values if kind == type_]
        match random.integers(0, 5):
            case 0:
                lines.append(
                    f"%{new} = stablehlo.transpose %{name}, dims = [1, 0] : ({tensor}) -> {tensor}"
                )
            case 1:
                lines.append(f"%{new} = stablehlo.reverse %{name}, dims = [0] : {tensor}")
            case 2:
                lines.append(
                    f"%{new} = stablehlo.select %p, %{name}, %{random.choice(peers)}"
                    f" : tensor<4x4xi1>, {tensor}"
                )
            case _:
                wider = {"bf16": "f32", "f16": "f32", "f32": "f64", "i8": "i32", "i1": "i8"}
                type_ = wider.get(type_, "f32") if random.random() < 0.4 else random.choice(types)
                lines.append(
                    f"%{new} = stablehlo.convert %{name} : ({tensor}) -> tensor<4x4x{type_}>"
                )
        values.append((new, type_))
    results = ", ".join(f"tensor<4x4x{type_}>" for _, type_ in values)
    module = Module.parse(
        "func.func @main(%x: tensor<4x4xbf16>, %s: tensor<4x4xi8>, %t: tensor<4x4xf32>,"
        f" %p: tensor<4x4xi1>) -> ({results}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {', '.join(f'%{name}' for name, _ in values)} : {results}\n}}"
    )
    after = dropped(module)
    # Small numbers: a cast out of the range of an integer type may give anything.
    x = random.integers(0, 9, (4, 4)).astype(ml_dtypes.bfloat16) / 8
    t = random.standard_normal((4, 4)).astype(np.float32) ** 2
    s, p = random.integers(0, 9, (4, 4)).astype(np.int8), random.random((4, 4)) < 0.5
    for want, got in zip(run(module, x, s, t, p), run(after, x, s, t, p), strict=True):
        assert want.tobytes() == got.tobytes()
