"""drop_cast_roundtrips: casts in a row, long ways, and random programs."""

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from composites_testing.passes import changed, program, same_bits
from composites_testing.selection import exhaustive

from lowering.stablehlo import Module, casts, drop_cast_roundtrips


def dropped(module: Module) -> Module:
    return changed(module, drop_cast_roundtrips)


def cast_types(module: Module) -> list[tuple[str, str]]:
    return [(cast.from_type, cast.to_type) for cast in casts(module).casts]


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
        names = ["x", *(f"v{number}" for number in range(len(tensors) - 2)), "r"]
        lines = [
            f"%{name} = stablehlo.convert %{source} : ({narrow}) -> {wide}"
            for (source, name), (narrow, wide) in zip(
                pairwise(names), pairwise(tensors), strict=True
            )
        ]
        after = dropped(program("\n".join(lines), f"%x: {tensors[0]}", tensors[-1]))
        left = ["-".join(cast) for cast in cast_types(after)]
        assert sorted(left) == sorted(expected.split()), types


def test_a_long_way_there_and_back() -> None:
    lines = ["%m0 = stablehlo.convert %x : (tensor<4x4xbf16>) -> tensor<4x4xf32>"]
    lines += [
        f"%m{i + 1} = stablehlo.transpose %m{i}, dims = [1, 0] : (tensor<4x4xf32>)"
        " -> tensor<4x4xf32>"
        for i in range(3000)
    ]
    lines.append("%r = stablehlo.convert %m3000 : (tensor<4x4xf32>) -> tensor<4x4xbf16>")
    after = dropped(program("\n".join(lines), "%x: tensor<4x4xbf16>", "tensor<4x4xbf16>"))
    assert "f32" not in after.text


@pytest.mark.parametrize("seed", [0, *exhaustive(*range(1, 8))])
def test_random_programs_keep_their_bits_and_their_second_run_changes_nothing(seed: int) -> None:
    """Squares are cast, moved and joined at random; every value is a result."""
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
    # Small numbers: a cast out of the range of an integer type may give anything.
    x = random.integers(0, 9, (4, 4)).astype(ml_dtypes.bfloat16) / 8
    t = random.standard_normal((4, 4)).astype(np.float32) ** 2
    s, p = random.integers(0, 9, (4, 4)).astype(np.int8), random.random((4, 4)) < 0.5
    same_bits(module, drop_cast_roundtrips, x, s, t, p)
