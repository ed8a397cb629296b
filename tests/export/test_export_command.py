"""`composites export`: what it writes, and what it says about mistakes."""

import sys
from functools import partial
from pathlib import Path

import pytest
from composites_testing.golden import Parts, check_cases
from composites_testing.stablehlo_commands import invoke
from safetensors.numpy import load_file

from composites import Program
from lowering.stablehlo import Module

FACTORIES = """
import torch

def linear():
    return torch.nn.Linear(4, 4), (torch.ones(2, 4),)

class Loss(torch.nn.Linear):
    def forward(self, x, *, scale=1):
        return torch.nn.functional.gelu(super().forward(x)).sum() * scale

def loss():
    return Loss(4, 4), (torch.ones(2, 4),), {"scale": 3}

def module_only():
    return torch.nn.Linear(4, 4)

def no_arguments():
    return (torch.nn.Linear(4, 4),)

def tensor_argument():
    return torch.nn.Linear(4, 4), torch.ones(2, 4)

number = 3

def raises():
    raise ValueError("no weights here")
"""


export = partial(invoke, "export")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The factories. What the command prints is not folded."""
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "factories.py"
    path.write_text(FACTORIES)
    return path


def test_a_training_step_with_all_options(file: Path, tmp_path: Path) -> None:
    code, out, _ = export(
        *(f"{file}:loss", "--optimizer", "torch.optim:AdamW", "--ops", "gelu,softmax"),
        *("--portable", "1.0.0", "--weights", "-o", tmp_path / "out"),
    )
    assert code == 0
    assert "ptxla.gelu_backward" in out
    program = Program.load(tmp_path / "out")
    assert program.composites == {"ptxla.gelu": 1, "ptxla.gelu_backward": 1}
    assert "state:weight.exp_avg" in [value.name for value in program.inputs]
    weights = load_file(tmp_path / "out" / "weights.safetensors")
    assert sorted(weights) == ["param:bias", "param:weight"]
    artifact = (tmp_path / "out" / "program.mlirbc").read_bytes()
    assert b"StableHLO_v1.0.0" in artifact
    Module.from_bytes(artifact)


def test_several_devices(file: Path, tmp_path: Path) -> None:
    code, _, errors = export(
        *(f"{file}:linear", "-o", tmp_path / "out", "--mesh", "data=2,model=2"),
        *("--shard", "weight=model,-", "--shard", "arg:0=-,data+model"),
    )
    assert (code, errors) == (0, "")
    program = Program.load(tmp_path / "out")
    assert program.mesh is not None
    assert program.mesh.axes == (("data", 2), ("model", 2))
    named = {value.name: value.sharding for value in program.inputs}
    assert named["param:weight"] == (("model",), ())
    assert named["arg:0"] == ((), ("data", "model"))
    assert "mhlo.sharding" in program.mlir


def test_an_export_that_fails_writes_nothing(file: Path, tmp_path: Path) -> None:
    def message(parts: Parts) -> str:
        arguments = parts[""].replace("FACTORIES", str(file)).split()
        code, out, errors = export(*arguments, "-o", tmp_path / "out")
        assert not out
        assert not (tmp_path / "out").exists()
        return f"exit code {code}\n{errors}".replace(str(file), "FACTORIES")

    check_cases(Path(__file__).parent / "golden" / "commands.txt", message)
    code, _, errors = export(f"{file}:linear", "-o", file)
    assert (code, errors) == (1, f"error: {file} cannot be written: File exists\n")
    assert file.read_text() == FACTORIES


def test_a_file_does_not_take_the_place_of_another_module(tmp_path: Path) -> None:
    """The file can have dataclasses, which look for their module."""
    import json

    file = tmp_path / "json.py"
    file.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import KW_ONLY, dataclass\n"
        f"{FACTORIES}"
        "@dataclass\n"
        "class Sizes:\n"
        "    _: KW_ONLY\n"
        "    width: int = 4\n"
    )
    assert export(f"{file}:linear", "-o", tmp_path / "out")[0] == 0
    assert sys.modules["json"] is json
