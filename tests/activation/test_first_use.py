"""Whatever is used first, with the variable set, composites are on: one process for each order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COMPOSITE = """
@composites.composite("acme.twice")
def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x
twice(torch.ones(2))
"""
FIRST = {
    "export": "composites.export(torch.nn.GELU(), (torch.ones(2),))",
    "enable": "composites.enable('silu')",
    "enabled": "with composites.enabled('silu'): pass",
    "active": "composites.active()",
    "nn": "composites.nn.accumulate_gradients_in_fp32(torch.nn.Linear(2, 2))",
    "decorator": COMPOSITE,
    "nothing": "",
}
"""The first use of the package, before `import torch_xla`."""

SCRIPT = """
import json, sys, torch, composites
{first}
import torch_xla
on = composites.active()
program = composites.export(torch.nn.GELU(), (torch.ones(2),))
composites.disable()
print(json.dumps(dict(on=on, exported=program.composites, off=composites.active())))
"""


def facts(script: str, **environment: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PJRT_DEVICE": "CPU"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "first",
    [
        first
        if first in ("export", "enable")
        else pytest.param(first, marks=pytest.mark.exhaustive)
        for first in FIRST
    ],
)
def test_the_variable_works_whatever_is_first(first: str) -> None:
    found = facts(SCRIPT.format(first=FIRST[first]), XLA_COMPOSITE_OP="gelu")
    added = {
        "enable": ["ptxla.silu", "ptxla.silu_backward"],
        "nn": ["ptxla.mm", "ptxla.matmul_accumulate"],
    }.get(first, [])
    gelu = {
        "ptxla.gelu", "ptxla.gelu_backward", "ptxla.new_gelu", "ptxla.fast_gelu",
        "ptxla.bloom_gelu", "ptxla.bloom_gelu_backward",
    }  # fmt: skip
    assert set(found["on"]) == gelu.union(added)
    assert found["exported"] == {"ptxla.gelu": 1}
    assert found["off"] == []


def test_turning_off_before_torch_xla_is_imported() -> None:
    script = "import composites, json\ncomposites.disable()\nimport torch_xla\n"
    found = facts(f"{script}print(json.dumps(composites.active()))", XLA_COMPOSITE_OP="gelu")
    assert found == []


def test_a_command_with_the_variable_set(tmp_path: Path) -> None:
    model = f"{ROOT / 'examples' / 'models.py'}:conv_net"
    done = subprocess.run(
        [sys.executable, "-m", "composites", "export", model, "-o", str(tmp_path / "out")],
        env=os.environ | {"XLA_COMPOSITE_OP": "hardswish"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ptxla.hardswish" in done.stdout
