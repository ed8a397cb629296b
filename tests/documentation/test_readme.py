"""The README is short, and what it says of commands, names and files is true.

(.ci/run runs its two set-up commands; test_docs.py runs its snippets.)
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from typer.testing import CliRunner

from lowering.cli.app import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 140


def test_it_has_two_set_up_commands_of_one_line() -> None:
    commands = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert [command.count("\n") for command in commands] == [1, 1]


def test_the_variable_is_one_that_is_read() -> None:
    result = CliRunner().invoke(app, ["env"], env={**os.environ, "COLUMNS": "200"})
    for name in set(re.findall(r"XLA_COMPOSITE_\w+", TEXT)):
        assert name in result.stdout


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", TEXT):
        assert (ROOT / target).exists(), target
