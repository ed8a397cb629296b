"""inspect: counts, sizes and shares; the table; JSON."""

import json

from composites_testing.passes import composite_module, load
from composites_testing.stablehlo_commands import printed

from lowering.stablehlo import Module, clean, composite_count, composite_table, inspect


def test_counts_sizes_and_shares() -> None:
    report = inspect(load("block"))
    rows = {row.name: row for row in report.composites}
    # twice, dot_general, twice, and in outer: tanh, subtract. The constants do not count.
    assert report.operations == 5
    assert report.plain_operations == 1
    assert report.bytes == 5 * 4 * 8 * 4
    assert [row.name for row in report.composites] == ["acme.twice", "ptxla.outer", "acme.tanh"]
    twice = rows["acme.twice"]
    assert (twice.count, twice.operations, twice.bytes, twice.share) == (2, 1, 128, 0.4)
    assert twice.attributes == {"axis": 1, "scale": 2.0}
    assert twice.version == 0
    assert (twice.operands, twice.results) == (("tensor<4x8xf32>",), ("tensor<4x8xf32>",))
    outer = rows["ptxla.outer"]
    assert (outer.count, outer.operations, outer.bytes, outer.version) == (1, 2, 256, 1)
    assert rows["acme.tanh"].count == 1


def test_nested_composites_count_once_for_each_call_around_them() -> None:
    module = load("nested_duplicates")
    expected = {"acme.inner": 3, "acme.other": 1, "acme.outer": 2}
    assert composite_count(module) == expected
    assert composite_count(clean(module)) == expected


def test_wrapping_and_sharing_do_not_change_the_report() -> None:
    before, after = load("wrapped_gelu"), clean(load("wrapped_gelu"))
    assert inspect(before).composites == inspect(after).composites
    assert inspect(before).operations == inspect(after).operations
    assert {row.count for row in inspect(after).composites} == {1, 2}


ATTRIBUTES: dict[str, object] = {
    "true": True,
    "-3 : i32": -3,
    '"x"': "x",
    "bf16": "bf16",
    "@impl": "@impl",
    "[1, [true]]": [1, [True]],
    "{k = 1}": {"k": 1},
    "unit": True,
    "[0xFF800000 : f32]": ["-inf"],
    "array<i64: 1, 2>": [1, 2],
    "dense<[[1, 2]]> : tensor<1x2xi64>": [[1, 2]],
    "dense<true> : tensor<2xi1>": [True, True],
    "dense<[true, false, true]> : tensor<3xi1>": [True, False, True],
    "dense<2.5> : tensor<f32>": 2.5,
    "dense<1.5> : tensor<2xbf16>": "dense<1.500000e+00> : tensor<2xbf16>",
}


def test_attributes_as_json() -> None:
    for written, expected in ATTRIBUTES.items():
        module = composite_module("acme.f", "tensor<2xf32>", attributes=f"{{b = {written}}}")
        report = json.loads(inspect(module).to_json())
        assert report["composites"][0]["attributes"] == {"b": expected}


def test_modules_without_composites_and_unusual_types() -> None:
    report = inspect(load("plain_calls"))
    assert report.composites == ()
    assert report.operations == report.plain_operations == 8
    assert inspect(Module.parse("module {}")).operations == 0
    module = Module.parse(
        """
        func.func @main(%x: tensor<?x4xf32>, %t: !stablehlo.token) -> !stablehlo.token {
          %0 = stablehlo.negate %x : tensor<?x4xf32>
          %1 = stablehlo.after_all %t : !stablehlo.token
          return %1 : !stablehlo.token
        }
        """
    )
    assert inspect(module).bytes == 16


def test_table() -> None:
    text = printed(composite_table(inspect(load("block"))))
    assert "composites of @block" in text
    assert "acme.twice" in text
    assert "axis=1, scale=2" in text
    assert "4x8xf32, 4x8xf32 -> 4x8xf32" in text
    assert "ptxla.outer v1" in text
    assert "40.0%" in text
    assert "5 operations, 4 of them in composites (80%); 640 B of values" in text
    markup = composite_module("acme.f", "tensor<2xf32>", attributes='{b = "[red]plain[/red]"}')
    assert "[red]plain[/red]" in printed(composite_table(inspect(markup)))
