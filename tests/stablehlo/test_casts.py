"""casts: every conversion with where it stands, what it costs and how often; table, JSON, CLI."""

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from composites_testing.passes import composite_module
from composites_testing.stablehlo_commands import invoke
from rich.console import Console

from lowering.stablehlo import Cast, Module, cast_table, casts

# Two calls of @half, in one of which a composite holds another cast; @idle is called by nothing.
TEXT = """
module @step {
  func.func @main(%x: tensor<8x4xf32> loc("weight"), %n: tensor<?xi32>, %i: tensor<i32>)
      -> (tensor<8x4xf32>, tensor<?xf32>, tensor<f32>) {
    %0 = stablehlo.convert %x : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %1 = func.call @half(%0) : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
    %2 = stablehlo.tanh %1 : tensor<8x4xbf16> loc("activation"("model.py":3:1))
    %3 = stablehlo.composite "acme.half" %2 {decomposition = @half}
      : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
    %4 = stablehlo.add %0, %3 : tensor<8x4xbf16>
    %5 = stablehlo.convert %4 : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %6 = stablehlo.convert %n : (tensor<?xi32>) -> tensor<?xf32>
    %7 = stablehlo.constant dense<0.0> : tensor<f32>
    %8 = stablehlo.while(%a = %7) : tensor<f32> cond {
      %9 = stablehlo.convert %a : (tensor<f32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    } do {
      stablehlo.return %a : tensor<f32>
    }
    return %5, %6, %8 : tensor<8x4xf32>, tensor<?xf32>, tensor<f32>
  }
  func.func private @half(%x: tensor<8x4xbf16>) -> tensor<8x4xbf16> {
    %0 = stablehlo.composite "acme.wide" %x {decomposition = @wide}
      : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = stablehlo.convert %0 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    return %1 : tensor<8x4xbf16>
  }
  func.func private @wide(%x: tensor<8x4xbf16>) -> tensor<8x4xf32> {
    %0 = stablehlo.tanh %x : tensor<8x4xbf16> loc("activation"("model.py":3:1))
    %1 = stablehlo.convert %0 : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
  func.func private @idle(%x: tensor<100xf32>) -> tensor<100xi8> {
    %0 = stablehlo.convert %x : (tensor<100xf32>) -> tensor<100xi8>
    return %0 : tensor<100xi8>
  }
}
"""
STEP = Module.parse(TEXT)
Conversion = tuple[str, str, tuple[int, ...], Literal["widening", "narrowing"]]


def test_every_cast_is_listed_most_bytes_first() -> None:
    report = casts(STEP)
    size = 8 * 4 * (4 + 2)
    full: Conversion = ("f32", "bf16", (8, 4), "narrowing")
    back: Conversion = ("bf16", "f32", (8, 4), "widening")
    assert report.casts == (
        Cast("half", "acme.wide", ("return",), *full, 2, size, 2 * size),
        Cast("wide", "tanh (activation)", ("return",), *back, 2, size, 2 * size),
        Cast("main", "%arg0 (weight)", ("add", "call"), *full, 1, size, size),
        Cast("main", "add", ("return",), *back, 1, size, size),
        Cast("main", "%arg1", ("return",), "i32", "f32", (None,), "integer to float", 1, 8, 8),
        Cast("main", "%arg0 of while", ("return",), "f32", "i1", (), "float to integer", 1, 5, 5),
        Cast("idle", "%arg0", ("return",), "f32", "i8", (100,), "float to integer", 0, 500, 0),
    )
    assert (report.module, report.count, report.bytes) == ("step", 8, 6 * size + 13)
    kinds = {"narrowing": 3, "widening": 3, "integer to float": 1, "float to integer": 1}
    assert report.kinds == kinds


def test_what_reads_nothing_and_what_has_no_casts() -> None:
    body = """
          %0 = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xf16>
          %1 = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xbf16>
          %r = stablehlo.custom_call @acme(%1) : (tensor<2xbf16>) -> tensor<2xf32>"""
    found = casts(composite_module("acme.f", "tensor<2xf32>", body)).casts
    assert sorted(cast.users for cast in found) == [(), ("custom_call",)]
    report = casts(Module.parse("module {}"))
    assert (report.casts, report.count, report.bytes, report.kinds) == ((), 0, 0, {})


def test_json_is_the_whole_report() -> None:
    data = json.loads(casts(STEP).to_json())
    assert sorted(data) == ["bytes", "casts", "count", "kinds", "module"]
    listed = [
        {**asdict(cast), "users": [*cast.users], "shape": [*cast.shape]}
        for cast in casts(STEP).casts
    ]
    assert data["casts"] == listed


def test_table() -> None:
    output = io.StringIO()
    Console(file=output, width=160).print(cast_table(casts(STEP)))
    lines = output.getvalue().splitlines()
    (first,) = (line for line in lines if "acme.wide" in line)
    cells = [cell.strip() for cell in first.split("│")[1:-1]]
    assert cells[:4] == ["@half", "acme.wide", "8x4xf32 -> bf16", "narrowing"]
    assert cells[4:] == ["return", "2", "384 B"]
    assert any("?xi32 -> f32" in line for line in lines)
    assert lines[0].strip() == "casts of @step"
    # Folded to the width of the table.
    assert " ".join(" ".join(lines).split()).endswith(
        "8 casts, 3 narrowing, 3 widening, 1 integer to float, 1 float to integer;"
        " 1.1 KiB read and written"
    )


ROUND = """
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) -> (tensor<4x4xf32>, tensor<8x4xbf16>) {
  %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %2 = stablehlo.convert %a : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %4 = stablehlo.convert %3 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  return %1, %4 : tensor<4x4xf32>, tensor<8x4xbf16>
}
"""


def test_inspect_casts(tmp_path: Path) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(ROUND)
    code, out, err = invoke("inspect", file, "--casts")
    assert (code, err) == (0, "")
    assert "casts of @module" in out
    assert "3 casts, 2 widening, 1 narrowing" in " ".join(out.split())
    code, out, _ = invoke("inspect", file, "--casts", "--json")
    assert code == 0
    assert json.loads(out) == json.loads(casts(Module.read(file)).to_json())


OPTIONS = {
    "": 3,
    "--widen-dots": 2,
    "--drop-cast-roundtrips": 1,
    "--widen-dots --drop-cast-roundtrips": 0,
}
"""The casts that are left."""


def test_lower_takes_casts_away(tmp_path: Path) -> None:
    file, out = tmp_path / "in.mlir", tmp_path / "out.mlir"
    file.write_text(ROUND)
    for options, left in OPTIONS.items():
        assert invoke("lower", file, "-o", out, *options.split()) == (0, "", "")
        assert casts(Module.read(out)).count == left
