"""`kernels:` in registry files: what is read, printed and listed, and what is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from composites.registry.kernels_for_others import check_kernels_for_others
from composites.registry.listed_kernels import listed_in
from composites.registry.validation import load_registry, parse_registry
from lowering.cli.app import app

ENTRY = """\
schema: 1
namespace: acme
composites:
  gelu@2:
    op: aten::gelu
    composite: fast_gelu
    attributes: {approximate: approximate}
    kernels:
      cpu:
        - function: acme.kernels:gelu
          operands: [x]
          when: {dtypes: [f32], rank: [2], approximate: [none], where: ["x.shape[-1] < 9"]}
          ignores: [approximate]
          priority: 3
        - {target: acme_gelu, library: acme.kernels:library}
      cuda:
        - {function: acme.kernels:on_cuda, version: 1}
kernels:
  ptxla.softmax@1:
    tpu: [{function: acme.pallas:softmax}]
  other.thing:
    cpu: [{target: thing}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "acme.yaml"
    path.write_text(ENTRY)
    return path


def test_what_is_read(file: Path) -> None:
    registry = load_registry(file)
    of_entry = registry.composites[0].kernels
    assert [(k.composite, k.version, k.platform, k.name) for k in of_entry] == [
        ("acme.fast_gelu", 2, "cpu", "acme.kernels:gelu"),
        ("acme.fast_gelu", 2, "cpu", "acme_gelu"),
        ("acme.fast_gelu", 1, "cuda", "acme.kernels:on_cuda"),
    ]
    assert of_entry[0].when.values == (("approximate", ("none",)),)
    assert [(k.composite, k.version) for k in registry.kernels] == [
        ("ptxla.softmax", 1),
        ("other.thing", None),
    ]
    assert [k.location.line for k in (*of_entry, *registry.kernels)] == [10, 15, 17, 20, 22]
    assert listed_in(file) == (*of_entry, *registry.kernels)


def test_list(file: Path) -> None:
    runner = CliRunner(env={"XLA_COMPOSITE_REGISTRY": str(file), "COLUMNS": "200"})
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


def test_check(tmp_path: Path) -> None:
    """A function that is missing is a problem; a module that is not here is a remark."""
    path = tmp_path / "acme.yaml"
    head = "schema: 1\nnamespace: acme\ncomposites: {}\nkernels:\n"
    path.write_text(
        f"{head}  ptxla.gelu:\n    cpu: [{{function: math:no_such}}]\n"
        "    cuda: [{target: t, library: not_installed:library}]\n"
        "    tpu: [{function: math:erf}]\n"
    )
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 1
    assert "acme.yaml:6: ptxla.gelu: kernels: " in result.stderr.replace("\n", " ")
    path.write_text(f"{head}  ptxla.gelu: {{cuda: [{{target: t, library: not_installed:f}}]}}\n")
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 0
    assert "not_installed:f was not checked" in " ".join(result.stderr.split())


OF_OTHERS = {
    "ptxla.sofmax: {K}": "warning: {}: kernels: no entry makes ptxla.sofmax; did you mean"
    " 'ptxla.softmax'?",
    "ptxla.softmax@7: {K}": "warning: {}: kernels: no entry makes version 7 of ptxla.softmax (it"
    " has 1)",
    "ptxla.softmax: {cpu: [{target: t, when: {dmi: 1}}]}": "{}: ptxla.softmax: kernels: when:"
    " ptxla.softmax has no attribute 'dmi'; did you mean 'dim'? (it has dim)",
    "ptxla.softmax@1: {cpu: [{target: t, ignores: [dmi]}]}": "{}: ptxla.softmax: kernels: ignores:"
    " ptxla.softmax has no attribute 'dmi'; did you mean 'dim'? (it has dim)",
    "ptxla.softmax@1: {cpu: [{target: t, when: {dim: 1}}]}": "",
    "ptxla.layer_norm_backward: {cpu: [{target: t, ignores: [output_mask]}]}": "",
    "other.sofmax@7: {cpu: [{target: t, when: {dmi: 1}}]}": "",  # of a registry that is not here
}


def test_check_of_kernels_for_others(tmp_path: Path) -> None:
    path = tmp_path / "acme.yaml"
    for kernels, expected in OF_OTHERS.items():
        listed = kernels.replace("{K}", "{cpu: [{target: t}]}")
        path.write_text(f"schema: 1\nnamespace: acme\ncomposites: {{}}\nkernels:\n  {listed}\n")
        result = CliRunner().invoke(app, ["check", str(path)])
        assert result.stderr.rstrip("\n") == expected.format(f"{path}:5")
        assert result.exit_code == (1 if "attribute" in expected else 0)


def test_versions_that_another_registry_has_are_sorted() -> None:
    entries = "  a: {op: 'aten::silu', version: 2}\n  a@1: {op: 'aten::silu'}\n"
    has = parse_registry(f"schema: 1\nnamespace: acme\ncomposites:\n{entries}", "acme.yaml")
    lists = "namespace: umbra\ncomposites: {}\nkernels: {acme.a@7: {cpu: [{target: t}]}}\n"
    (said,) = check_kernels_for_others(parse_registry(f"schema: 1\n{lists}", "umbra.yaml"), [has])
    assert str(said).endswith("no entry makes version 7 of acme.a (it has 1, 2)")
