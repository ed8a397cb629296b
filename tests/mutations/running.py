"""Runs the tests that reach a planted fault, each fault in a process of its own.

A server process imports what most tests import and forks for each fault, so that a fault costs its
tests and not the imports of torch and torch_xla.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

SLACK = 60.0
"""Seconds that the tests of a fault may take beyond three times those of the first run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of the tests that ran with one fault."""

    caught: bool
    reason: str
    """The test that failed, or how the process ended; empty if all tests passed."""


class Server:
    """A process in `root` that runs tests with faults, one request at a time."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutations.running"],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, site: int, tests: Sequence[str], seconds: float) -> Outcome:
        """Run `tests` with the fault of `site`, or without one if it is -1, until one fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"site": site, "tests": list(tests), "seconds": seconds}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _serve() -> None:
    from composites_testing import environment

    environment.prepare()
    import torch  # noqa: F401
    import torch_xla  # noqa: F401

    # What tests print goes to standard error; answers alone go to the pipe.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        outcome = _in_a_fork(request["seconds"], partial(_run_tests, **request))
        answers.write(json.dumps({"caught": outcome.caught, "reason": outcome.reason}) + "\n")
        answers.flush()


def _in_a_fork(seconds: float, work: Callable[[], str]) -> Outcome:
    """The outcome of `work` in a child, which is ended with its children after `seconds`."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reader)
        os.write(writer, work().encode())
        os._exit(0)
    os.close(writer)
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    if not ended:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        return Outcome(True, f"still running after {seconds:.0f} s")
    with os.fdopen(reader, encoding="utf-8") as file:
        failed = file.read()
    if os.waitstatus_to_exitcode(status) != 0:
        return Outcome(True, f"exit status {os.waitstatus_to_exitcode(status)}")
    return Outcome(bool(failed), failed)


class _FirstFailure:
    def __init__(self) -> None:
        self.test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid


def _run_tests(site: int, tests: Sequence[str], seconds: float) -> str:
    """The first test that fails with the fault of `site`; empty if none does."""
    switch = importlib.import_module("composites._planted")  # of the copy

    os.environ["COMPOSITES_MUTANT"] = str(site)
    vars(switch)["chosen"] = site
    first = _FirstFailure()
    status = pytest.main(["-q", "-x", "--tb=no", "-m", "", *tests], plugins=[first])
    if not first.test and status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return f"pytest: {status!r}"
    return first.test


if __name__ == "__main__":
    _serve()
