"""`composites schema COMMAND` describes what the command writes as JSON."""

import json
import shlex
from pathlib import Path

import pytest
from composites_testing.command_line import invoke
from composites_testing.json_schema import accepts
from composites_testing.selection import variants

from lowering.cli.schemas import OUTPUTS
from lowering.export.dimensions import Dimension
from lowering.export.manifest import Manifest, Value
from lowering.export.shardings import DeviceMesh
from lowering.stats.data import Checks, CheckStats, DeclinedStats, EntryStats, FallbackStats, Stats

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
DATA = ROOT / "tests" / "stablehlo" / "data"
BLOCK = DATA / "block.mlir"
TWICE = f"acme.twice={DATA.parent / 'stand_ins.py'}:twice"
CALLS = {
    "check": ["acme.yaml", "wrong.yaml"],
    "compare": [f"{BLOCK} --bind {TWICE}"],
    "describe": ["softmax"],
    "diagnose": [
        *(f"{BLOCK} --platform cpu", f"{BLOCK} --platform cpu --time"),
        f"{DATA}/three_sizes.mlir --kernels {DATA}/kernels.yaml --bisect",
    ],
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
FALLBACKS = (FallbackStats("its dtype is f64", "f64[2]", 1, {"train.py:3": 1}),)
DECLINED = (DeclinedStats("fast", "x has 1 row", 2),)
ENTRY = EntryStats(True, 3, 1, {"calls": 2}, FALLBACKS, {"stock": 2}, DECLINED, "ptxla.gelu")
CHECKS = Checks((CheckStats("ptxla.gelu", "acme:gelu", 3, 1, None, 1e-5),), 0.25)
SHARDED = Value("arg:0", ("batch", 4), "f32", sharding=(("data",), ()))
KEPT = Value("buffer:scale", (2,), "f32", kept=bytes(8))
MANIFEST = Manifest(
    inputs=(SHARDED, KEPT),
    outputs=(Value("buffer:scale", (2,), "f32", updates="buffer:scale"),),
    composites={"ptxla.gelu": 1},
    sha256={},
    mesh=DeviceMesh((("data", 2),)),
    dimensions=(Dimension("batch", 2, None),),
    keeps_decompositions=True,
)
MADE = {"manifest.json": [MANIFEST.text], "run": [Stats({"gelu": ENTRY}, CHECKS).to_json()]}
"""Values with what takes long to run: several devices, dimensions that vary, and checks."""


def printed(command: str, call: str) -> str:
    """The JSON that a command writes; an exit code of 1 is that of problems in it."""
    line, file = WRITTEN.get(command, (f"{command} {{}} --json", ""))
    result = invoke(*shlex.split(line.format(call)))
    assert result.exit_code in (0, 1), result.output
    return Path(file).read_text() if file else result.stdout


@variants("command", OUTPUTS, fast=set(OUTPUTS) - {"doctor", "verify"})
def test_schema(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, DATA.parent):
        monkeypatch.syspath_prepend(str(folder))
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    schema = json.loads(invoke("schema", command).stdout)
    for text in (*(printed(command, call) for call in CALLS[command]), *MADE.get(command, ())):
        assert accepts(schema, json.loads(text, parse_constant=pytest.fail), closed=True), text
    assert not accepts(schema, {"another": 1}, closed=True)
