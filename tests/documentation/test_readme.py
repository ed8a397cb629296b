"""The README's snippets run, and its tables are true. (.ci/run runs its set-up commands.)"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from composites.cli import app
from composites.registry.catalog import load_catalog
from composites.registry.validation import parse_registry

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("snippet", blocks("python"))
def test_python_snippet(snippet: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", snippet], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert re.search(r"ptxla\.\w+|acme\.swiglu_backward", result.stdout)


def test_registry_snippet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "vendor" / "acme_package"))
    (snippet,) = blocks("yaml")
    assert parse_registry(snippet, "README.md").composites[0].qualified == "acme.gelu_tanh"


def test_commands_that_are_mentioned_exist() -> None:
    mentioned = set(
        re.findall(
            r"composites (codegen|docs|check|list|schema|env|run|export|inspect|lower)", TEXT
        )
    )
    for command in sorted(mentioned):
        result = CliRunner().invoke(app, [command, "--help"])
        assert result.exit_code == 0, command


def test_table_of_composites() -> None:
    rows = re.findall(r"^\| [^|]+ \| (`.+`) \|$", TEXT, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    catalog = load_catalog([])
    backwards = {entry.backward for entry in catalog}
    assert sorted(named) == sorted({e.composite for e in catalog if e.name not in backwards})


def test_built_in_variables_are_described() -> None:
    for name in ("XLA_COMPOSITE_OP", "XLA_COMPOSITE_REGISTRY"):
        assert name in TEXT
        result = CliRunner().invoke(app, ["env"], env={**os.environ, "COLUMNS": "200"})
        assert name in result.stdout
