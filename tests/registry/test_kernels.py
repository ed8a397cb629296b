"""`kernels:` in registry files: what is read, printed and listed, and what is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from composites.registry.contracts import check_kernels_for_others
from composites.registry.listed_kernels import kernel_platforms, listed_in
from composites.registry.model import KERNEL_PLATFORMS
from composites.registry.validation import load_registry, parse_registry
from lowering.cli.app import app

FILE = Path(__file__).parent / "files" / "kernels.yaml"


def test_what_is_read() -> None:
    registry = load_registry(FILE)
    kernels = registry.composites[0].kernels
    assert [(k.composite, k.version, k.platform, k.name) for k in kernels] == [
        ("acme.fast_gelu", 2, "cpu", "acme.kernels:gelu"),
        ("acme.fast_gelu", 2, "cpu", "acme_gelu"),
        ("acme.fast_gelu", 1, "cuda", "acme.kernels:on_cuda"),
    ]
    assert kernels[0].when.values == (("approximate", ("none",)),)
    assert [(k.composite, k.version) for k in registry.kernels] == [
        ("ptxla.softmax", 1),
        ("other.thing", None),
    ]
    assert [k.location.line for k in (*kernels, *registry.kernels)] == [10, 15, 17, 20, 22]
    assert listed_in(FILE) == (*kernels, *registry.kernels)


def test_list() -> None:
    runner = CliRunner(env={"XLA_COMPOSITE_REGISTRY": str(FILE), "COLUMNS": "200"})
    printed = runner.invoke(app, ["list", "--kernels", "--json"])
    assert printed.exit_code == 0, printed.output
    rows = json.loads(printed.stdout)["kernels"]
    assert [(row["composite"], row["platform"], row["known"]) for row in rows] == [
        ("acme.fast_gelu", "cpu", True),
        ("acme.fast_gelu", "cpu", True),
        ("acme.fast_gelu", "cuda", False),  # version 1
        ("other.thing", "cpu", False),
        ("ptxla.softmax", "tpu", True),
    ]
    assert rows[0]["priority"] == 3
    assert "element types f32" in rows[0]["when"]
    table = runner.invoke(app, ["list", "--kernels"])
    assert "acme.pallas:softmax" in table.stdout
    assert "no entry produces it" in table.stdout


def test_a_derived_backward_is_known(tmp_path: Path) -> None:
    path = tmp_path / "acme.yaml"
    names = ("layer_norm_backward@1", "layer_norm_backward@9", "layer_norm_backwards")
    kernels = "".join(f"  ptxla.{name}: {{cpu: [{{target: t}}]}}\n" for name in names)
    path.write_text(f"schema: 1\nnamespace: acme\ncomposites: {{}}\nkernels:\n{kernels}")
    runner = CliRunner(env={"XLA_COMPOSITE_REGISTRY": str(path)})
    rows = json.loads(runner.invoke(app, ["list", "--kernels", "--json"]).stdout)["kernels"]
    assert [row["known"] for row in rows] == [True, False, False]


def test_versions_that_another_registry_has_are_sorted() -> None:
    entries = "  a: {op: 'aten::silu', version: 2}\n  a@1: {op: 'aten::silu'}\n"
    has = parse_registry(f"schema: 1\nnamespace: acme\ncomposites:\n{entries}", "acme.yaml")
    lists = "namespace: umbra\ncomposites: {}\nkernels: {acme.a@7: {cpu: [{target: t}]}}\n"
    umbra = parse_registry(f"schema: 1\n{lists}", "umbra.yaml")
    (warning,) = check_kernels_for_others([umbra], [has])
    assert warning.endswith("no entry makes version 7 of acme.a (it has 1, 2)")


def test_plugins_are_platforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "acme.yaml"
    kernels = "{chip: [{target: t}], xpu: [{target: t}], cuad: [{target: t}]}"
    text = f"schema: 2\nnamespace: acme\ncomposites: {{}}\nkernels: {{acme.a: {kernels}}}\n"
    path.write_text(text)
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(path))
    assert kernel_platforms() == (*KERNEL_PLATFORMS, "chip", "xpu", "cuad")
    (warning,) = check_kernels_for_others([parse_registry(text, "acme.yaml")], [])
    assert warning.endswith("'cuad' names a PJRT plug-in; did you mean 'cuda'?")
