"""`composites schema COMMAND` describes what the command writes as JSON."""

import json
import shlex
from pathlib import Path

import pytest
from composites_testing.json_schema import accepts
from composites_testing.selection import variants
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
FILES = {
    "acme.yaml": REGISTRY,
    "old.yaml": REGISTRY.replace("f32", "bf16"),
    "wrong.yaml": REGISTRY.replace("gelu,", "g,"),
    "model.py": MODEL,
    "sources/a.cc": '"acme.norm"',
}
ROOT = Path(__file__).parents[2]
BLOCK = ROOT / "tests" / "stablehlo" / "data" / "block.mlir"
TWICE = f"acme.twice={BLOCK.parents[1] / 'stand_ins.py'}:twice"
CALLS = {
    "check": ["acme.yaml", "wrong.yaml"],
    "compare": [f"{BLOCK} --bind {TWICE}"],
    "diagnose": [f"{BLOCK} --platform cpu", f"{BLOCK} --platform cpu --time"],
    "diff": ["old.yaml acme.yaml"],
    "doctor": [""],
    "env": [""],
    "inspect": [f"{BLOCK}{also}" for also in ("", " --casts", f" --against {ROOT}/registry.lock")],
    "list": ["", "--kernels"],
    "manifest.json": ["model.py:make"],
    "node-data": [
        f"inspect {BLOCK}",
        f"compare {BLOCK} --bind {TWICE}",
        f"diagnose {BLOCK} --platform cpu",
    ],
    "run": [],
    "show": ["gelu", "softmax", "acme.gelu --registry acme.yaml"],
    "suggest": ["model.py:make"],
    "verify": ["gelu --dtypes f32 --samples 1"],
    "watch": ["acme.yaml --sources sources"],
}
"""The calls of each command."""
WRITTEN = {
    "diagnose": ("diagnose {} --json a.json", "a.json"),
    "manifest.json": ("export {} -o step", "step/manifest.json"),
    "node-data": ("{} --node-data a.json", "a.json"),
}
"""The commands that write files, and these."""


def printed(command: str, call: str) -> str:
    """The JSON that a command writes; an exit code of 1 is that of problems in it."""
    line, file = WRITTEN.get(command, (f"{command} {{}} --json", ""))
    result = CliRunner().invoke(app, shlex.split(line.format(call)))
    assert result.exit_code in (0, 1), result.output
    return Path(file).read_text() if file else result.stdout


@variants("command", OUTPUTS, fast=set(OUTPUTS) - {"doctor", "verify"})
def test_schema(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    schema = json.loads(CliRunner().invoke(app, ["schema", command]).stdout)
    texts = [printed(command, call) for call in CALLS[command]]
    texts = texts or [composites.stats().to_json()]
    for text in texts:
        assert accepts(schema, json.loads(text, parse_constant=pytest.fail), closed=True), text
    assert not accepts(schema, {"another": 1}, closed=True)
