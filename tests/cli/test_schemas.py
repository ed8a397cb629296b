"""`composites schema COMMAND` describes what the command writes as JSON."""

import json
import shlex
from pathlib import Path

import pytest
from composites_testing.json_schema import accepts
from typer.testing import CliRunner

import composites
from lowering.cli.app import app
from lowering.cli.schemas import OUTPUTS

REGISTRY = """schema: 2
namespace: acme
composites: {gelu: {op: aten::gelu, attributes: [approximate], when: {dtypes: [f32]}}}
kernels: {ptxla.gelu: {cpu: [{function: "acme:gelu"}]}}
"""
MODEL = """import torch
def make():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Hardtanh()), (torch.ones(2, 4),)
"""
PROGRAM = """
func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.add %x, %x : tensor<2xf32>
  return %y : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xbf16> {
  %y = stablehlo.composite "acme.twice" %x {composite_attributes = {limit = 0x7F800000 : f32},
    decomposition = @twice, version = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
  %z = stablehlo.convert %y : (tensor<2xf32>) -> tensor<2xbf16>
  return %z : tensor<2xbf16>
}
"""
FILES = {"acme.yaml": REGISTRY, "model.py": MODEL, "program.mlir": PROGRAM}
FILES |= {
    "old.yaml": REGISTRY.replace("f32", "bf16"),
    "wrong.yaml": REGISTRY.replace("gelu,", "g,"),
}
FILES |= {
    "kernels.py": "def twice(x, *, limit):\n    return x * 3\n",
    "sources/a.cc": '"acme.norm"',
}
CALLS = {
    "check": ["acme.yaml", "wrong.yaml"],
    "compare": ["program.mlir --bind acme.twice=kernels.py:twice"],
    "diagnose": ["program.mlir --platform cpu"],
    "diff": ["old.yaml acme.yaml"],
    "doctor": [""],
    "env": [""],
    "inspect": [
        "program.mlir",
        "program.mlir --casts",
        "program.mlir --against ROOT/registry.lock",
    ],
    "list": ["", "--kernels"],
    "run": [],
    "show": ["gelu", "softmax", "acme.gelu --registry acme.yaml"],
    "suggest": ["model.py:make"],
    "verify": ["gelu --dtypes f32 --samples 1"],
    "watch": ["acme.yaml --sources sources"],
}
"""The calls of each command."""
ROOT = str(Path(__file__).parents[2])
SLOW = ("doctor", "verify")


def printed(command: str) -> str:
    """The JSON that a command writes; an exit code of 1 is that of problems in it."""
    file = " written.json" * command.startswith("diagnose")
    result = CliRunner().invoke(app, shlex.split(f"{command} --json{file}"))
    assert result.exit_code in (0, 1), result.output
    return Path("written.json").read_text() if file else result.stdout


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in OUTPUTS],
)
def test_schema(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    schema = json.loads(CliRunner().invoke(app, ["schema", command]).stdout)
    calls = [f"{command} {call}".replace("ROOT", ROOT) for call in CALLS[command]]
    texts = [printed(call) for call in calls] or [composites.stats().to_json()]
    for text in texts:
        assert accepts(schema, json.loads(text, parse_constant=pytest.fail), closed=True), text
    assert not accepts(schema, {"another": 1}, closed=True)
