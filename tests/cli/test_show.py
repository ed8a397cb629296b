"""`composites show`: entries of the built-in registry, of a vendor's file and of a package."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from composites_testing.packages import install, returning
from typer.testing import CliRunner, Result

import composites
from composites.registry.catalog import builtin_registry_path
from lowering import activation
from lowering.cli.app import app
from lowering.frontends.chosen import is_installed
from lowering.generated import ptxla

REGISTRY = """\
schema: 1
namespace: umbra
composites:
  gelu_tanh:
    op: aten::gelu
    version: 3
    attributes: {approximate: approximate, tile: {value: [8, 128]}}
    when: {approximate: tanh, dtypes: [bf16], rank: [2, 3], where: ["self.shape[0] > 1"]}
    backward: derive
  softmax:
    op: aten::_softmax
    attributes: {axis: {from: dim, normalize: dim}}
  values:
    op: aten::topk
    results: [0]
    attributes: {k: {from: k, type: i32}}
  pow: {op: aten::pow.Tensor_Tensor, composite: power}
  root: {op: aten::sqrt, composite: power}
  scale:
    function: layers_of_umbra:scale
    operands: [x]
    attributes: {factor: factor}
  add: {op: aten::_foreach_add.List, attributes: {alpha: alpha}}
  lost: {function: "nowhere_at_all:f", operands: [x]}
  method: {function: "layers_of_umbra:Layer.forward", operands: [x]}
"""
LAYERS = """\
import torch
def scale(x: torch.Tensor, factor: float = 2.0):
    return x * factor
class Layer:
    def forward(self, x):
        return x
"""


@pytest.fixture(autouse=True)
def nothing_on() -> Iterator[None]:
    composites.disable()
    activation.catalog.cache_clear()
    yield
    composites.disable()
    activation.catalog.cache_clear()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "umbra.yaml"
    path.write_text(REGISTRY)
    (tmp_path / "layers_of_umbra.py").write_text(LAYERS)
    monkeypatch.delitem(sys.modules, "layers_of_umbra", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return path


def invoke(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, ["show", *arguments], env=environment)


def shown(*arguments: str, **environment: str) -> dict[str, Any]:
    """The one entry that the command describes as JSON."""
    result = invoke(*arguments, "--json", **environment)
    assert result.exit_code == 0, result.output
    (entry,) = json.loads(result.stdout)["composites"]
    return dict(entry)


def rows(result: Result) -> dict[str, list[str]]:
    """The lines of each heading."""
    assert result.exit_code == 0, result.output
    found: dict[str, list[str]] = {}
    heading = ""
    for line in result.stdout.partition("\n\n")[0].splitlines():
        heading = line[:15].strip() or heading
        found.setdefault(heading, []).append(line[15:].strip())
    return found


def test_a_builtin_entry() -> None:
    result = invoke("gelu")
    text = rows(result)
    line = 1 + builtin_registry_path().read_text().splitlines().index("  gelu:")
    assert text == {
        "composite": ["ptxla.gelu, version 1"],
        "entry": [f"ptxla.gelu, {builtin_registry_path()}:{line} (built-in)"],
        "also made by": ["ptxla.new_gelu, ptxla.fast_gelu, ptxla.bloom_gelu"],
        "turn on": ["XLA_COMPOSITE_OP=gelu python train.py"],
        "catches": ['aten::gelu(Tensor self, *, str approximate="none") -> Tensor'],
        "catches in JAX": [
            "programs  jax.nn:gelu, adapted by composites.jax_functions.activations:gelu"
        ],
        "caught at": ["dispatch key XLA"],
        "operands": ["self"],
        "attributes": ["approximate: string, from the argument approximate"],
        "results": ["Tensor"],
        "decomposition": ["native: the stock lowering"],
        "backward": ["ptxla.gelu_backward"],
        "hook": ["10 lines of Python; --hook prints them"],
    }
    assert "\nmodule @gelu {\n" in result.stdout
    call = next(line for line in result.stdout.splitlines() if "stablehlo.composite " in line)
    assert 'stablehlo.composite "ptxla.gelu" %arg0 {composite_attributes' in call
    assert "func.func private @ptxla.gelu.impl(" in result.stdout
    assert composites.active() == ()


def test_lists_of_tensors(file: Path) -> None:
    text = rows(invoke("umbra.add", "--registry", str(file)))
    assert text["operands"] == [
        "self (a list: one operand for each tensor)",
        "other (a list: one operand for each tensor)",
    ]
    assert text["attributes"][-1] == (
        "operand_segment_sizes: i64[], the number of tensors of each operand"
    )
    entry = shown("umbra.add", "--registry", str(file))
    assert [operand["variadic"] for operand in entry["operands"]] == [True, True]
    assert "operand_segment_sizes = dense<2> : tensor<2xi64>" in entry["stablehlo"]


@pytest.mark.slow
def test_the_hook_is_the_one_that_is_installed() -> None:
    entry = shown("rms_norm")
    assert entry["caught_at"] == ["AutogradXLA", "Functionalize"]
    source = Path(str(ptxla.__file__)).read_text()
    first, second = re.split(r"\n+(?=def )", entry["hook"])
    assert first.startswith("def rms_norm(_lowering")
    assert second.startswith("def rms_norm_at_autograd(_composite")
    assert first in source
    assert second.rstrip() in source
    assert entry["hook"] in invoke("rms_norm", "--hook").stdout
    assert "def rms_norm" not in invoke("rms_norm").stdout


@pytest.mark.parametrize(
    "way",
    ["option", *(pytest.param(way, marks=pytest.mark.slow) for way in ("variable", "package"))],
)
def test_a_vendors_entry(way: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "package":
        install(file.parent, "umbra-ops", monkeypatch, umbra_ops=returning(file))
    arguments = ["--registry", str(file)] if way == "option" else []
    environment = {"XLA_COMPOSITE_REGISTRY": str(file)} if way == "variable" else {}
    text = rows(invoke("gelu_tanh", *arguments, **environment))
    package = " (package umbra-ops)" if way == "package" else ""
    named = "" if way == "package" else f"XLA_COMPOSITE_REGISTRY={file} "
    assert text["composite"] == ["umbra.gelu_tanh, version 3"]
    assert text["entry"] == [f"umbra.gelu_tanh, {file}:4{package}"]
    assert text["turn on"] == [f"{named}XLA_COMPOSITE_OP=umbra.gelu_tanh python train.py"]
    assert text["attributes"] == [
        "approximate: string, from the argument approximate",
        "tile: i64[], = [8, 128]",
    ]
    assert text["when"] == [
        "approximate: tanh",
        "dtypes: bf16",
        "rank: 2, 3",
        "where: self.shape[0] > 1",
    ]
    assert text["backward"] == ["umbra.gelu_tanh_backward, derived; takes gradients, then self"]
    assert text["caught at"] == ["dispatch key AutogradXLA; in inference mode Functionalize"]
    entry = shown("gelu_tanh", *arguments, **environment)
    assert '"umbra.gelu_tanh" %arg0' in entry["stablehlo"]
    assert 'approximate = "tanh", tile = array<i64: 8, 128>' in entry["stablehlo"].replace(
        "dense<[8, 128]> : tensor<2xi64>", "array<i64: 8, 128>"
    )
    assert "version = 3 : i32} : (tensor<2x3xbf16>)" in entry["stablehlo"]
    assert '"umbra.gelu_tanh_backward" ' in entry["stablehlo_of_backward"]
    printed = invoke("gelu_tanh", *arguments, **environment).stdout
    assert entry["stablehlo"] in printed
    assert entry["stablehlo_of_backward"] in printed
    assert composites.active() == ()


def test_the_vendors_entry_comes_before_the_builtin_one(file: Path) -> None:
    entry = shown("softmax", "--registry", str(file))
    assert entry["name"] == "umbra.softmax"
    (attribute,) = entry["attributes"]
    assert (attribute["name"], attribute["type"], attribute["argument"]) == ("axis", "i64", "dim")
    assert (attribute["normalized"], attribute["optional"]) == (True, False)
    assert shown("ptxla.softmax", "--registry", str(file))["name"] == "ptxla.softmax"


@pytest.mark.slow
def test_chosen_results(file: Path) -> None:
    entry = shown("values", "--registry", str(file))
    assert entry["results"] == ["Tensor (result 0 of the operator)"]
    assert entry["attributes"][0]["type"] == "i32"
    assert '"umbra.values"' in entry["stablehlo"]


def test_a_python_function(file: Path) -> None:
    result = invoke("umbra.scale", "--registry", str(file), "--hook")
    text = rows(result)
    assert text["catches"] == ["layers_of_umbra:scale(x: torch.Tensor, factor: float = 2.0)"]
    assert text["caught at"] == ["the Python function, which is replaced"]
    assert text["attributes"] == ["factor: f32, from the argument factor"]
    assert text["decomposition"] == ["native: the function's own body"]
    assert "def hook_of_function(" in result.stdout
    (call,) = [line for line in result.stdout.splitlines() if "stablehlo.composite " in line]
    assert '"umbra.scale" %arg0 {composite_attributes = {factor = 2.000000e+00 : f32}' in call


@pytest.mark.parametrize(
    ("name", "function", "reason"),
    [
        ("lost", "nowhere_at_all:f (not found here)", "there is no module nowhere_at_all"),
        ("method", "layers_of_umbra:Layer.forward(self, x)", "Layer.forward is a method, and its"),
    ],
)
def test_a_function_without_an_example(name: str, function: str, reason: str, file: Path) -> None:
    result = invoke(name, "--registry", str(file))
    text = rows(result)
    assert text["catches"] == [function]
    assert ("hook" in text) == (name == "method")
    last = result.stdout.splitlines()[-1]
    assert last.startswith("no StableHLO of an example call: ")
    assert reason in last
    advice = f"; `XLA_COMPOSITE_OP=umbra.{name} composites run SCRIPT` shows the calls of a real"
    assert advice in last


@pytest.mark.slow
def test_versions_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "umbra.yaml"
    file.write_text(
        "schema: 1\nnamespace: umbra\ncomposites:\n  gelu: {op: aten::gelu, version: 2}\n"
        "  gelu@1: {op: aten::gelu, attributes: {approximate: approximate}}\n"
    )
    newest = shown("umbra.gelu", "--registry", str(file))
    older = shown("umbra.gelu@1", "--registry", str(file))
    assert (newest["name"], newest["version"]) == ("umbra.gelu", 2)
    assert newest["also_made_by"] == ["umbra.gelu@1"]
    assert (older["name"], older["version"]) == ("umbra.gelu@1", 1)
    assert older["turn_on"].endswith("XLA_COMPOSITE_OP=umbra.gelu@1")
    for entry, number in ((newest, 2), (older, 1)):
        assert f"version = {number} : i32" in entry["stablehlo"]
        assert f"Lower calls as umbra.gelu, version {number}." in entry["hook"]
    result = invoke("umbra.gelu@3", "--registry", str(file))
    assert result.stderr.startswith("error: there is no version 3 of 'umbra.gelu'")


@pytest.mark.slow
def test_a_backward_without_an_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "umbra.yaml"
    file.write_text(
        "schema: 1\nnamespace: umbra\ncomposites:\n"
        "  gelu: {op: aten::gelu, backward: slope}\n"
        "  slope: {gradients: [self], operands: [grad_output, self],"
        " decomposition: 'slopes_of_umbra:slope'}\n"
    )
    (tmp_path / "slopes_of_umbra.py").write_text(
        "from torch import Tensor\n"
        "def slope(grad_output: Tensor, self: Tensor) -> Tensor:\n    return grad_output * self\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = shown("slope", "--registry", str(file))
    assert entry["results"] == ["the gradient of self"]
    assert '"umbra.slope"' in entry["stablehlo"]
    text = rows(invoke("slope", "--registry", str(file)))
    assert text["caught at"] == ["no call by itself"]
    assert shown("umbra.gelu", "--registry", str(file))["backward"] == "umbra.slope"


@pytest.mark.slow
def test_a_composite_of_several_entries_and_a_group(file: Path) -> None:
    for name, entries in {
        "power": ["umbra.pow", "umbra.root"],
        "umbra.power": ["umbra.pow", "umbra.root"],
        "matmul_out_dtype": ["ptxla.mm", "ptxla.bmm"],
        "umbra.*": ["umbra.gelu_tanh", "umbra.scale"],
    }.items():
        result = invoke(name, "--registry", str(file))
        assert result.exit_code == 0
        for entry in entries:
            assert f"│ {entry} v" in result.stdout
        assert result.stdout.endswith(
            f"{name} stands for these entries; name one of them to see all of it\n"
        )
    found = json.loads(invoke("power", "--registry", str(file), "--json").stdout)["composites"]
    assert [entry["name"] for entry in found] == ["umbra.pow", "umbra.root"]


def test_a_wrong_name_and_a_wrong_file(tmp_path: Path) -> None:
    for name, message in (
        ("gelo", "there is no composite 'gelo'; did you mean 'gelu'?"),
        ("ptxlo.*", "there is no namespace 'ptxlo'; did you mean 'ptxla'?"),
    ):
        result = invoke(name, XLA_COMPOSITE_OP="sofmax")
        assert result.exit_code == 1
        assert result.stderr.startswith(f"error: {message}")
    file = tmp_path / "wrong.yaml"
    file.write_text("schema: 1\nnamespace: umbra\ncomposites: {a: {op: aten::gellu}}\n")
    result = invoke("a", "--registry", str(file))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{file}:3: a: PyTorch has no operator aten::gellu")


@pytest.mark.slow
def test_an_entry_that_cannot_be_turned_on(tmp_path: Path) -> None:
    file = tmp_path / "umbra.yaml"
    file.write_text(
        "schema: 1\nnamespace: umbra\ncomposites: {norm: {op: aten::native_layer_norm}}\n"
    )
    entry = shown("norm", "--registry", str(file))
    assert entry["stablehlo"] is None
    assert entry["no_stablehlo"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (None, "composites need torch_xla, which is not installed; pip install"),
        ("raise ImportError('undefined symbol')", "`composites doctor` says why"),
    ],
)
def test_without_a_working_torch_xla(
    broken: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_installed()  # this process has the frontend of torch_xla, whatever follows
    if broken is None:
        monkeypatch.setitem(sys.modules, "torch_xla", None)
    else:
        (tmp_path / "torch_xla.py").write_text(broken)
        monkeypatch.delitem(sys.modules, "torch_xla", raising=False)
        monkeypatch.syspath_prepend(str(tmp_path))
    entry = shown("gelu")
    assert entry["signatures"] == ['aten::gelu(Tensor self, *, str approximate="none") -> Tensor']
    assert entry["hook"].startswith("def gelu(")
    assert entry["stablehlo"] is None
    assert message in entry["no_stablehlo"]


COPYING = """\
schema: 1
namespace: umbra
composites:
  scale:
    function: layers_of_umbra:scale
    copies: [models_of_umbra, layers_of_nobody]
    operands: [x]
    attributes: {factor: factor}
"""


@pytest.mark.slow
def test_copies_are_listed_on_demand(tmp_path: Path, file: Path) -> None:
    file.write_text(COPYING)
    models = tmp_path / "models_of_umbra"
    models.mkdir()
    scale = LAYERS.partition("class")[0]
    broken = f"import no_such_library\n{scale}"
    loud = "raise AssertionError('nothing here has the code')\n"
    texts = {"__init__": "", "a": scale, "b": f"{scale}twice = scale\n", "c": broken, "d": loud}
    for name, text in texts.items():
        (models / f"{name}.py").write_text(text)
    try:
        found = rows(invoke("scale", "--registry", str(file)))
        assert found["copies"] == ["all in models_of_umbra, layers_of_nobody; --copies lists them"]
        assert not [name for name in sys.modules if name.startswith("models_of_umbra")]
        found = rows(invoke("scale", "--registry", str(file), "--copies"))
        assert found["copies"] == [
            "3 in models_of_umbra, layers_of_nobody",
            "models_of_umbra.a:scale",
            "models_of_umbra.b:scale",
            "models_of_umbra.b:twice",
            "unknown: importing models_of_umbra.c failed: package no_such_library is not installed",
        ]
        entry = shown("scale", "--registry", str(file), "--copies")
        assert entry["copies_in"] == ["models_of_umbra", "layers_of_nobody"]
        assert len(entry["copies"]) == 3
        assert len(entry["copies_unknown"]) == 1
        assert shown("scale", "--registry", str(file))["copies"] is None
    finally:
        for name in [name for name in sys.modules if name.startswith("models_of_umbra")]:
            del sys.modules[name]


@pytest.mark.slow
def test_an_entry_without_copies_says_nothing_of_them() -> None:
    assert "copies" not in rows(invoke("gelu", "--copies"))
    assert rows(invoke("swiglu"))["copies"] == ["all in transformers; --copies lists them"]
