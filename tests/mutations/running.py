"""Runs the tests that reach a planted fault, in a process of their own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SLACK = 90.0
"""Seconds that the tests of a fault may take beyond three times those of the first run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of the tests that ran with one fault."""

    caught: bool
    reason: str
    """The test that failed, or how the process ended; empty if all tests passed."""


def run_tests(
    root: Path, environment: Mapping[str, str], site: int, tests: Sequence[str], seconds: float
) -> Outcome:
    """Run tests of the copy in `root` until one fails, with the fault of a site (-1: none)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-m", "", *tests],
        cwd=root,
        env={**environment, "COMPOSITES_MUTANT": str(site)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # so that it can be ended with its children
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return Outcome(True, f"still running after {seconds:.0f} s")
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", output, re.MULTILINE)
    reason = failed[1] if failed else f"exit status {process.returncode}"
    return Outcome(True, reason) if process.returncode else Outcome(False, "")
