"""The snippets of README and docs run, and the README's tables are true.

(.ci/run runs its set-up commands.)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from composites.cli.app import app
from composites.registry.catalog import load_catalog
from composites.registry.validation import parse_registry

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
PRECISION = (ROOT / "docs" / "precision.md").read_text()


def blocks(language: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run(snippet: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", snippet], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("snippet", blocks("python"))
def test_python_snippet(snippet: str) -> None:
    assert re.search(r"ptxla\.\w+|acme\.swiglu_backward", run(snippet))


@pytest.mark.parametrize("snippet", blocks("python", PRECISION))
def test_snippet_of_precision(snippet: str) -> None:
    """Each prints a program that has what its last comment says, and casts nothing."""
    text = run(snippet)
    promised = re.findall(r"ptxla\.\w+", snippet)
    assert all(f'"{name}"' in text for name in promised)
    assert "stablehlo.dot" in text
    assert "stablehlo.convert" not in text


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
