"""Tests of pytorch/xla, and PyTorch's tests of Dynamo, stock and with every composite on.

    python -m benchmarks.upstream CHECKOUT [--suite dynamo] [--seconds 600] [--logs FOLDER]
                                  [--files test_operations.py,scan/test_scan.py]
                                  [--markdown benchmarks/UPSTREAM.md] [--note TEXT]

CHECKOUT is a clone of https://github.com/pytorch/xla at the tag of the installed torch_xla, such as
v2.9.0, or of https://github.com/pytorch/pytorch for `--suite dynamo`. There the backends of tests
count and record graphs as in PyTorch, and `composites` compiles what they would run. The tests
need a few packages that this project does not: pip install absl-py expecttest parameterized. Each
file runs in two processes on the CPU, stock and with XLA_COMPOSITE_OP=all; those of SPMD have four
virtual devices. A test that ends the process, or that takes longer than `--seconds` and is ended,
is `crashed`, and pytest-xdist runs the rest of the file in another process. Tests whose outcome
differs are listed by name, and the exit code is then 1, unless the suite says of all of them why.
`--logs` keeps JUnit's XML, with what each test wrote when it failed.

- The columns count tests by outcome: `stock / composites`, or one number where both are equal.
- A test that fails in both is not a difference: some need a TPU, or a package that is not there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import yaml

from benchmarks.harness.pages import markdown_table, page, publish, versions_of

PLUGIN = Path(__file__).with_name("upstream_conftest.py")
SETTINGS = {"stock": "", "composites": "all"}
"""Names, and values of XLA_COMPOSITE_OP."""
OUTCOMES = ("passed", "skipped", "failed", "error", "crashed")
Outcomes = Mapping[str, str]
"""Outcomes of a file's tests by name."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests of one repository."""

    title: str
    repository: str
    package: str
    """The package whose version is the repository's tag."""
    files: Sequence[str]
    known: Mapping[str, str]
    """Differences that are meant, and why."""


_FILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
SUITES = {name: Suite(**fields) for name, fields in _FILE.items()}


@dataclass(frozen=True, slots=True)
class Row:
    """A file, stock against composites."""

    file: str
    outcomes: Mapping[str, Outcomes]
    """The outcomes by setting."""

    @property
    def differences(self) -> list[tuple[str, str, str]]:
        """Tests with their outcomes, where these differ."""
        stock, ours = (self.outcomes[name] for name in SETTINGS)
        return [
            (test, stock.get(test, "absent"), ours.get(test, "absent"))
            for test in sorted({*stock, *ours})
            if stock.get(test) != ours.get(test)
        ]

    def count(self, outcome: str) -> str:
        """The number of tests with an outcome: `stock / composites`, or one number."""
        stock, ours = (Counter(self.outcomes[name].values())[outcome] for name in SETTINGS)
        return str(stock) if stock == ours else f"{stock} / {ours}"


def run(tests: Path, file: str, composites: str, seconds: float, log: Path) -> Outcomes:
    """The outcomes of a file's tests, which pytest writes to `log` as JUnit's XML."""
    environment = {name: v for name, v in os.environ.items() if name != "XLA_COMPOSITE_OP"}
    devices, active = "4" if "spmd" in file else "1", log.with_suffix(".active")
    environment |= {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": devices}
    environment |= {"COMPOSITES_ACTIVE": str(active), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # As if the file were run as a script, which is what pytorch/xla's run_tests.sh does.
    folders = [str((tests / file).parent), str(tests), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    if composites:
        environment["XLA_COMPOSITE_OP"] = composites
        environment |= {"XLA_COMPOSITE_COMPILE": "1"} if find_spec("torch_xla") is None else {}
    for written in (log, active):
        written.unlink(missing_ok=True)
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(tests)),
            *("-p", "xdist.plugin", "-n", "1", f"--junitxml={log}"),
            *("-o", f"faulthandler_timeout={seconds}", "-o", "faulthandler_exit_on_timeout=true"),
            str(tests / file),
        ],
        cwd=tests,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if active.exists() and bool(active.read_text()) != bool(composites):
        sys.exit(f"with XLA_COMPOSITE_OP={composites!r}, active were: {active.read_text()}")
    return outcomes_of(log, file)


def outcomes_of(log: Path, file: str) -> Outcomes:
    """The outcomes in JUnit's XML, where there is some; of a test that has several, the worst."""
    if not log.exists():
        return {f"{file} (as a whole)": "crashed"}
    outcomes: dict[str, str] = {}
    module = file.removesuffix(".py").replace("/", ".")
    for case in ElementTree.parse(log).iter("testcase"):
        parts = [case.get("classname", "").removeprefix(module).strip("."), case.get("name", "")]
        test = "::".join([file, *filter(None, parts)])
        outcomes[test] = max(outcomes.get(test, "passed"), _outcome(case), key=OUTCOMES.index)
    return outcomes


def _outcome(case: ElementTree.Element) -> str:
    problem = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
    if problem is None:
        return "passed"
    if "crashed while running" in problem.get("message", ""):  # the words of pytest-xdist
        return "crashed"
    return {"failure": "failed"}.get(problem.tag, problem.tag)


def compare(tests: Path, file: str, seconds: float, logs: Path) -> Row:
    """Run a file with each setting."""
    stem = file.replace("/", ".")
    return Row(
        file,
        {
            name: run(tests, file, composites, seconds, logs / f"{stem}.{name}.xml")
            for name, composites in SETTINGS.items()
        },
    )


def copied(checkout: Path, folder: Path) -> Path:
    """A copy of the checkout's tests, with our plugin.

    In the checkout, pytest would import the torch_xla that lies beside the tests, not the installed
    one.
    """
    tests = folder / "test"
    shutil.copytree(checkout / "test", tests)
    (tests / "__init__.py").unlink(missing_ok=True)
    shutil.copy(PLUGIN, tests / "conftest.py")
    (folder / "examples").symlink_to(checkout.resolve() / "examples")  # tests import from there
    return tests


def markdown(rows: Sequence[Row], suite: Suite, note: str) -> str:
    """The page. Outcomes that no test has are left out."""
    shown = [outcome for outcome in OUTCOMES if any(row.count(outcome) != "0" for row in rows)]
    cells = [
        [row.file, *(row.count(outcome) for outcome in shown), str(len(row.differences))]
        for row in rows
    ]
    explained = (__doc__ or "").partition("\n\n- ")[2]
    packages = versions_of(*dict.fromkeys(["torch", suite.package]))
    return page(
        suite.title,
        f"Printed by `python -m benchmarks.upstream` with {packages} on"
        f" the CPU; every composite of the built-in registry is on. {note}".strip(),
        markdown_table(["file", *shown, "differences"], cells, numbers=range(1, len(shown) + 2)),
        f"- {explained.strip()}",
        "## Differences",
        [f"- {line}" for row in rows for line in _listed(row, suite.known)] or "None.",
    )


def _listed(row: Row, reasons: Mapping[str, str]) -> list[str]:
    return [
        f"`{test}`: {stock} -> {ours}" + (f" ({reasons[test]})" if test in reasons else "")
        for test, stock, ours in row.differences
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a clone of the repository")
    parser.add_argument("--suite", choices=SUITES, default="xla")
    parser.add_argument("--files", help="below test/, comma-separated")
    parser.add_argument("--note", default="", help="where the tests come from, for the page")
    parser.add_argument("--seconds", type=float, default=600, help="the longest that a test takes")
    parser.add_argument("--logs", type=Path, help="keep the outcomes and failures in this folder")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    arguments = parser.parse_args()
    suite = SUITES[arguments.suite]
    files = arguments.files.split(",") if arguments.files else suite.files
    missing = [name for name in files if not (arguments.checkout / "test" / name).is_file()]
    if missing:
        sys.exit(
            f"{arguments.checkout} has no file test/{missing[0]}; give a clone of"
            f" {suite.repository} at tag v{version(suite.package)}"
        )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tests = copied(arguments.checkout, Path(folder))
        logs = arguments.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        for file in files:
            rows.append(compare(tests, file, arguments.seconds, logs.resolve()))
            for line in _listed(rows[-1], suite.known):
                print(f"{file}: {line}", flush=True)
    publish(markdown(rows, suite, arguments.note), arguments.markdown)
    sys.exit(any(test not in suite.known for row in rows for test, _, _ in row.differences))


if __name__ == "__main__":
    main()
