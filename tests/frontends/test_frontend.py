"""The frontend that is chosen, what it has, and errors that say what to do."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import composites
from composites.errors import ExportError
from lowering import activation
from lowering.frontends import chosen

ROOT = Path(__file__).parents[2]

ROWS = {
    "`composites.export`: inference, gradients, training steps": "recording",
    "dropout and other random operators": "random_numbers",
    # Of a device on which scripts run, torch.compile makes graphs too.
    "`XLA_COMPOSITE_OP` and `composites.enable` in a script that trains": "compiled_graphs",
    "torch.compile": "compiled_graphs",
    "`composites verify`: entries and their alternatives beside PyTorch": "running",
    "`composites suggest`": "labels",
    "`mark_sharding` and `mark_dynamic` of tensors": "dynamic_sizes",
}
"""Rows of the table in docs/frontends.md, and the part of a frontend that each depends on."""


def test_the_table_of_the_documentation() -> None:
    text = (ROOT / "docs" / "frontends.md").read_text(encoding="utf-8")
    cells = dict(re.findall(r"^\| (.+?) \| (\w+ \| \w+) \|$", text, flags=re.MULTILINE))
    column = chosen.NAMES.index(chosen.chosen())
    frontend = activation.backend().frontend
    for row, part in ROWS.items():
        expected = "no" if getattr(frontend, part) is None else "yes"
        assert cells[row].split(" | ")[column] == expected, row


def test_torch_xla_comes_first() -> None:
    assert chosen.chosen() == ("xla" if find_spec("torch_xla") else "fx")


def test_an_unknown_frontend() -> None:
    with pytest.raises(ExportError, match="frontend must be 'xla' or 'fx', not 'tpu'"):
        composites.export(torch.nn.Linear(2, 2), (torch.ones(2),), frontend="tpu")


def test_another_frontend_in_the_same_process() -> None:
    activation.backend()
    used = chosen.chosen()
    (other,) = (name for name in chosen.NAMES if name != used)
    with pytest.raises(ExportError, match=f"uses frontend='{used}' already"):
        composites.export(torch.nn.Linear(2, 2), (torch.ones(2),), frontend=other)


def run(code: str) -> str:
    """The last line that a program writes to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else ""


EXPORT = "composites.export(torch.nn.GELU(), (torch.ones(2),), frontend='fx')"


@pytest.mark.torch_xla
def test_a_pytorch_without_backends_in_python() -> None:
    said = run(f"import torch, composites\n{EXPORT}")
    assert "needs a PyTorch in which a backend can be written in Python" in said
    assert "'torch-xla-composites[torch]' for PyTorch 2.10 to 2.15" in said


@pytest.mark.torch_xla
def test_a_frontend_that_cannot_be_made_is_not_kept() -> None:
    program = f"""
import torch, composites
from lowering.frontends import chosen
try:
    {EXPORT}
except composites.MissingPackageError:
    made = {EXPORT.replace(", frontend='fx'", "")}
    print(chosen.chosen(), len(made.outputs))
"""
    said = run(program)
    assert said == "xla 1"


def test_a_device_that_another_package_has_registered() -> None:
    said = run(
        "import torch, composites\ntorch.utils.rename_privateuse1_backend('other')\n" + EXPORT
    )
    assert "has registered the device 'other'" in said
    assert "export in a process that does not import that package" in said
