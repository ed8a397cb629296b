"""`--one-of-each`, with which `.ci/run` tests other releases of packages, leaves out no test."""

from __future__ import annotations

import sys
from pathlib import Path

from composites_testing.processes import run

FILE = Path(__file__).parents[1] / "hlo" / "test_convert.py"
"""It has tests with several parameters."""


def collected(*options: str) -> list[str]:
    command = (sys.executable, "-m", "pytest", "--collect-only", "-q", *options, str(FILE))
    done = run(*command, PYTEST_ADDOPTS="")  # a -v there would change what is printed
    assert done.code == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_each_test_has_its_first_parameters() -> None:
    every, some = collected(), collected("--one-of-each")
    first = {name.partition("[")[0]: name for name in reversed(every)}
    assert some == list(first.values())[::-1]
    assert len(some) < len(every)
