"""casts: every conversion with where it stands, what it costs and how often; table, JSON, CLI."""

import json
from pathlib import Path
from typing import Literal

from composites_testing.passes import DATA, composite_module, load
from composites_testing.stablehlo_commands import invoke, printed

from lowering.stablehlo import Cast, Module, cast_table, casts

STEP = load("casts")
ROUND = DATA / "roundtrips.mlir"
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
    rows = casts(composite_module("acme.f", "tensor<2xf32>", body)).casts
    assert sorted(cast.users for cast in rows) == [(), ("custom_call",)]
    report = casts(Module.parse("module {}"))
    assert (report.casts, report.count, report.bytes, report.kinds) == ((), 0, 0, {})


def test_table() -> None:
    lines = printed(cast_table(casts(STEP))).splitlines()
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


def test_inspect_casts(tmp_path: Path) -> None:
    code, out, err = invoke("inspect", ROUND, "--casts")
    assert (code, err) == (0, "")
    assert "casts of @module" in out
    assert "3 casts, 2 widening, 1 narrowing" in " ".join(out.split())
    code, out, _ = invoke("inspect", ROUND, "--casts", "--json")
    assert code == 0
    assert json.loads(out) == json.loads(casts(Module.read(ROUND)).to_json())


OPTIONS = {
    "": 3,
    "--widen-dots": 2,
    "--drop-cast-roundtrips": 1,
    "--widen-dots --drop-cast-roundtrips": 0,
}
"""The casts that are left."""


def test_lower_takes_casts_away(tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    for options, left in OPTIONS.items():
        assert invoke("lower", ROUND, "-o", out, *options.split()) == (0, "", "")
        assert casts(Module.read(out)).count == left
