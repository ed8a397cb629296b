"""`composites doctor` where the fx frontend is the only one."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from composites_testing.processes import run


def examine(**environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by subject."""
    done = run(sys.executable, "-m", "composites", "doctor", "--json", **environment)
    return done.code, {f["subject"]: f for f in json.loads(done.stdout)["findings"]}


def test_a_healthy_environment_without_torch_xla() -> None:
    code, report = examine(XLA_COMPOSITE_OP="gelu")
    assert code == 0, report
    assert report["import jax"]["level"] == "ok"
    assert report["composites on"]["text"].endswith(" in a program that imports torch")
    assert report["import torch_xla"]["level"] == "warning"
    assert not [check for check in report.values() if check["level"] == "problem"]


@pytest.mark.exhaustive
def test_suggestions_need_torch_xla(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\ndef net(): return torch.nn.Identity(), ()\n")
    model = f"{tmp_path / 'model.py'}:net"
    done = run(sys.executable, "-m", "composites", "suggest", model)
    assert done.code == 1
    assert "suggestions need torch_xla" in done.stderr
    assert "pip install '.[torch-xla,cli]'" in done.stderr
