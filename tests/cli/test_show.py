"""`composites show`: entries of the built-in registry, of a vendor's file and of a package."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from composites_testing.command_line import invoke
from composites_testing.golden import check_cases
from composites_testing.packages import install, returning
from composites_testing.selection import variants
from typer.testing import Result

import composites
from composites.registry.packages import builtin_registry_path
from lowering.frontends.chosen import is_installed
from lowering.generated import ptxla

pytestmark = pytest.mark.usefixtures("nothing_on")

REGISTRY = Path(__file__).with_name("show.yaml").read_text(encoding="utf-8")
LAYERS = """\
import torch
def scale(x: torch.Tensor, factor: float = 2.0):
    return x * factor
class Layer:
    def forward(self, x):
        return x
def slope(grad_output: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    return grad_output * self
"""


@pytest.fixture
def file(module_folder: Path) -> Path:
    path = module_folder / "umbra.yaml"
    path.write_text(REGISTRY)
    (module_folder / "layers_of_umbra.py").write_text(LAYERS)
    return path


def shown(*arguments: str, **environment: str) -> dict[str, Any]:
    """The one entry that the command describes as JSON."""
    result = invoke("show", *arguments, "--json", **environment)
    assert result.exit_code == 0, result.output
    (entry,) = json.loads(result.stdout)["composites"]
    return dict(entry)


def facts(result: Result) -> dict[str, list[str]]:
    """The lines of what is said of an entry, by what they begin with."""
    assert result.exit_code == 0, result.output
    values_by_heading: dict[str, list[str]] = {}
    for line in result.stdout.partition("\n\n")[0].splitlines()[1:]:
        heading, _, value = line.removeprefix("- ").partition(": ")
        values_by_heading.setdefault(heading, []).append(value)
    return values_by_heading


def test_what_is_shown(file: Path) -> None:
    """The description of an entry is shown, and the composites of its example call."""

    def show(parts: Mapping[str, str]) -> str:
        file.write_text(parts[""])
        result = invoke("show", *parts["arguments"].split(), "--registry", str(file))
        about, _, program = result.stdout.partition("\n\n")
        calls = [line.strip() for line in program.splitlines() if " stablehlo.composite " in line]
        programs = [] if calls else [program]
        text = "\n".join([about, *calls, *programs, result.stderr])
        for path, name in (
            (rf"{re.escape(str(builtin_registry_path()))}:\d+", "registry.yaml:N"),
            (re.escape(f"{file.parent}/"), ""),
            (r"\d+ lines of Python", "N lines of Python"),
            (r"%arg\d+", "%arg"),
        ):
            text = re.sub(path, name, text, flags=re.MULTILINE)
        return text

    check_cases(Path(__file__).parent / "golden" / "show.txt", show)


def test_lists_of_tensors(file: Path) -> None:
    entry = shown("umbra.add", "--registry", str(file))
    assert [operand["variadic"] for operand in entry["contract"]["operands"]] == [True, True]
    assert entry["tolerance"] == {"f64": 1e-9, "f32": 2e-5, "f16": 1e-2, "bf16": 0.1}
    assert "operand_segment_sizes = dense<2> : tensor<2xi64>" in entry["stablehlo"]
    assert entry["stablehlo"] in invoke("show", "umbra.add", "--registry", str(file)).stdout


def test_targets_are_those_that_take_the_example_call() -> None:
    assert shown("softmax")["targets"] == ["xla", "cuda", "portable", "iree", "litert"]
    assert shown("fft_r2c")["targets"] == ["xla", "cuda", "portable"]


@pytest.mark.slow
def test_the_hook_is_the_one_that_is_installed() -> None:
    entry = shown("rms_norm")
    source = Path(str(ptxla.__file__)).read_text()
    assert entry["hook"].startswith("def rms_norm(_composite")
    assert entry["hook"].rstrip() in source
    assert entry["hook"] in invoke("show", "rms_norm", "--hook").stdout
    assert "def rms_norm" not in invoke("show", "rms_norm").stdout


@variants("way", ["option", "variable", "package"])
def test_a_vendors_entry(way: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "package":
        install(file.parent, "umbra-ops", monkeypatch, umbra_ops=returning(file))
    arguments = ["--registry", str(file)] if way == "option" else []
    environment = {"XLA_COMPOSITE_REGISTRY": str(file)} if way == "variable" else {}
    text = facts(invoke("show", "gelu_tanh", *arguments, **environment))
    package = " (package umbra-ops)" if way == "package" else ""
    named = "" if way == "package" else f"XLA_COMPOSITE_REGISTRY={file} "
    assert text["entry"] == [f"umbra.gelu_tanh, {file}:4{package}"]
    assert text["turn on"] == [f"{named}XLA_COMPOSITE_OP=umbra.gelu_tanh python train.py"]
    assert text["attributes"] == ["approximate: string (approximate), tile: i64[] = (8, 128)"]
    assert text["when"] == [
        "approximate is 'tanh'; element types bf16; rank 2 or 3; self.shape[0] > 1"
    ]
    assert text["backward"] == ["derived, umbra.gelu_tanh_backward; saved for it: self"]
    entry = shown("gelu_tanh", *arguments, **environment)
    assert '"umbra.gelu_tanh" %arg0' in entry["stablehlo"]
    assert 'approximate = "tanh", tile = array<i64: 8, 128>' in entry["stablehlo"].replace(
        "dense<[8, 128]> : tensor<2xi64>", "array<i64: 8, 128>"
    )
    assert "version = 3 : i32} : (tensor<2x3xbf16>)" in entry["stablehlo"]
    assert '"umbra.gelu_tanh_backward" ' in entry["stablehlo_of_backward"]
    printed = invoke("show", "gelu_tanh", *arguments, **environment).stdout
    assert entry["stablehlo"] in printed
    assert entry["stablehlo_of_backward"] in printed
    assert composites.active() == ()


def test_the_vendors_entry_comes_before_the_builtin_one(file: Path) -> None:
    entry = shown("softmax", "--registry", str(file))
    assert entry["name"] == "umbra.softmax"
    (attribute,) = entry["contract"]["attributes"]
    assert (attribute["name"], attribute["type"], attribute["argument"]) == ("axis", "i64", "dim")
    assert (attribute["normalize"], attribute["optional"]) == (True, False)
    assert shown("ptxla.softmax", "--registry", str(file))["name"] == "ptxla.softmax"


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
    operator = 'operator: `aten::gelu(Tensor self, *, str approximate="none") -> Tensor`'
    assert operator in entry["facts"]
    assert entry["hook"].startswith("def gelu(")
    assert entry["stablehlo"] is None
    assert message in entry["no_stablehlo"]
