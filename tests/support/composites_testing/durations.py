"""Plugin of pytest that writes the tests that passed, with their seconds, to a file."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--passed-tests", help="file that gets a line for each test that passed")


class _PassedTests:
    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{report.duration:.3f} {report.nodeid}\n")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("passed_tests")
    if file and not hasattr(config, "workerinput"):
        Path(file).write_text("", encoding="utf-8")
        config.pluginmanager.register(_PassedTests(Path(file)))
