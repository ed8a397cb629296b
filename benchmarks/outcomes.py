"""A pytest plugin that writes each test's outcome when it is known, one line of JSON each.

`benchmarks.upstream` copies this file, as conftest.py, beside the tests that it runs. A test that
ends the process leaves the line that says that it began, and the line of the session's end is not
written. Tests that are in the file already are not run again.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ENDED = "the session"
_WRITTEN = Path(os.environ["COMPOSITES_OUTCOMES"])


def pytest_collection_modifyitems(items: list[Any]) -> None:
    known: set[str] = set()
    if _WRITTEN.exists():
        known = {json.loads(line)["test"] for line in _WRITTEN.read_text().splitlines()}
    items[:] = [item for item in items if item.nodeid not in known]


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _write(report.nodeid, "error", str(report.longrepr))


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(nodeid, "began")


def pytest_runtest_logreport(report: Any) -> None:
    if hasattr(report, "wasxfail"):
        _write(report.nodeid, "xfailed" if report.skipped else "xpassed", report.longreprtext)
    elif report.when == "call" or report.skipped:
        _write(report.nodeid, report.outcome, report.longreprtext)
    elif report.failed:
        _write(report.nodeid, "error", report.longreprtext)


def pytest_sessionfinish() -> None:
    active = "not imported"
    if "torch_xla" in sys.modules and "composites" in sys.modules:
        import composites

        active = " ".join(sorted(composites.active()))
    _write(ENDED, "ended", active)


def _write(test: str, outcome: str, text: str = "") -> None:
    with _WRITTEN.open("a") as file:
        file.write(json.dumps({"test": test, "outcome": outcome, "text": text}) + "\n")
