"""The time of each test file, which `pytest --file-times` prints after the run.

Wall time and CPU time (of the worker and of the processes that its tests start) are added up over
the tests of a file, with their fixtures. Collection is apart: each worker of pytest-xdist collects
all files, so a run that is N workers wide pays for it N times.
"""

import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

_CPU = "cpu seconds"
"""The property of a test's last report that holds its CPU time."""


def cpu_seconds() -> float:
    """CPU seconds of this process and of its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(slots=True)
class FileTime:
    """Seconds of the tests of one file."""

    tests: int = 0
    wall: float = 0.0
    cpu: float = 0.0


@dataclass(slots=True, eq=False)
class FileTimes:
    """Plugin that collects the times of all files; the controller of pytest-xdist prints them."""

    config: pytest.Config
    files: defaultdict[str, FileTime] = field(default_factory=lambda: defaultdict(FileTime))
    collections: list[float] = field(default_factory=list)
    """Seconds that each worker took to collect."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        start = time.perf_counter()
        result = yield
        seconds = time.perf_counter() - start
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["collection"] = seconds
        elif not self.config.getoption("numprocesses", None):
            self.collections.append(seconds)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.stash[_START] = cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        result = yield
        item.user_properties.append((_CPU, cpu_seconds() - item.stash[_START]))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        times = self.files[report.location[0]]
        times.wall += report.duration
        if report.when == "teardown":
            times.tests += 1
            times.cpu += sum(
                float(str(value)) for key, value in report.user_properties if key == _CPU
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if "collection" in getattr(node, "workeroutput", {}):
            self.collections.append(node.workeroutput["collection"])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if hasattr(self.config, "workerinput"):
            return
        terminalreporter.section("seconds of each file")
        terminalreporter.line(f"{'tests':>6} {'wall':>8} {'CPU':>8}  file")
        by_cpu = sorted(self.files.items(), key=lambda pair: -pair[1].cpu)
        for name, times in by_cpu:
            line = f"{times.tests:>6} {times.wall:>8.1f} {times.cpu:>8.1f}  {name}"
            terminalreporter.line(line)
        tests = sum(times.tests for times in self.files.values())
        wall = sum(times.wall for times in self.files.values())
        cpu = sum(times.cpu for times in self.files.values())
        terminalreporter.line(f"{tests:>6} {wall:>8.1f} {cpu:>8.1f}  all files")
        workers = ", ".join(f"{seconds:.1f}" for seconds in self.collections)
        terminalreporter.line(f"collection, of each worker: {workers}")


_START: pytest.StashKey[float] = pytest.StashKey()
