"""pytorch/xla's own tests, with stock torch_xla and with every composite on.

    python -m benchmarks.upstream CHECKOUT [--files test_operations.py,scan/test_scan.py]
                                  [--seconds 600] [--logs FOLDER]
                                  [--markdown benchmarks/UPSTREAM.md]

CHECKOUT is a clone of https://github.com/pytorch/xla at the tag of the installed torch_xla, such as
v2.9.0. Its tests need a few packages that this project does not: pip install absl-py expecttest
parameterized. Each file runs in two processes on the CPU, stock and with XLA_COMPOSITE_OP=all;
those of SPMD have four virtual devices. A test that ends the process, or that takes longer than
`--seconds`, is `crashed` or `timed out`, and another process runs the rest of the file. Tests whose
outcome differs are listed by name, and the exit code is then 1, unless `KNOWN` says of all of them
why. `--logs` keeps what each test wrote when it failed.

- The columns count tests by outcome: `stock / composites`, or one number where both are equal.
- A test that fails in both is no difference: some need a TPU, or a package that is not there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import yaml

from benchmarks.harness.pages import markdown_table, page, publish, versions_of

ENDED = "the session"

PLUGIN = Path(__file__).with_name("outcomes.py")
SETTINGS = {"stock": "", "composites": "all"}
"""Names, and values of XLA_COMPOSITE_OP."""
_FILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
FILES: Sequence[str] = _FILE["files"]
OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed", "crashed", "timed out")
KNOWN: Mapping[str, str] = _FILE["known"]
"""Differences that are meant, and why."""
MAX_RUNS = 20
"""How often a file is started again after a crash."""

Outcomes = Mapping[str, str]
"""Outcomes of a file's tests by name."""


@dataclass(frozen=True, slots=True)
class Row:
    """One file, stock against composites."""

    file: str
    outcomes: Mapping[str, Outcomes]
    """By setting."""

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


def run(tests: Path, file: str, composites: str, seconds: float, written: Path) -> Outcomes:
    """The outcomes of a file's tests; `written` gets what each test wrote."""
    environment = {name: v for name, v in os.environ.items() if name != "XLA_COMPOSITE_OP"}
    devices = "4" if "spmd" in file else "1"
    environment |= {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": devices}
    environment |= {"COMPOSITES_OUTCOMES": str(written), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # As if the file were run as a script, which is what pytorch/xla's run_tests.sh does.
    folders = [str((tests / file).parent), str(tests)]
    environment["PYTHONPATH"] = os.pathsep.join([*folders, *_path()])
    if composites:
        environment["XLA_COMPOSITE_OP"] = composites
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tests)]
    for _ in range(MAX_RUNS):
        in_time = _wait([*command, str(tests / file)], tests, environment, seconds, written)
        found = _read(written)
        if ENDED in found:
            _check_active(written, composites)
            break
        began = [test for test, outcome in found.items() if outcome == "began"]
        # Tests with subtests may have an outcome before they end the process.
        last = began or [list(found)[-1]] if found else [f"{file} (as a whole)"]
        for test in last:
            _append(written, test, "crashed" if in_time else "timed out")
        if not found:
            break
    else:
        _append(written, f"{file} (the rest)", "crashed")
    return {test: outcome for test, outcome in _read(written).items() if test != ENDED}


def _check_active(written: Path, composites: str) -> None:
    """Whether the composites were on that should be."""
    active = json.loads(written.read_text().splitlines()[-1])["text"]
    if bool(active) != bool(composites) and active != "not imported":
        sys.exit(f"with XLA_COMPOSITE_OP={composites!r}, active were: {active or 'none'}")


def _path() -> list[str]:
    return [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


def _wait(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    written: Path,
) -> bool:
    """Run a command; False if it wrote nothing for this time and was ended."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    size, since = 0, time.monotonic()
    try:
        while True:
            try:
                process.wait(timeout=1)
                return True
            except subprocess.TimeoutExpired:
                if _size(written) != size:
                    size, since = _size(written), time.monotonic()
                elif time.monotonic() - since > seconds:
                    return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _size(written: Path) -> int:
    return written.stat().st_size if written.exists() else 0


def _read(written: Path) -> dict[str, str]:
    """The last outcome of each test; of several that say that it did not pass, the worst."""
    found: dict[str, str] = {}
    for line in written.read_text().splitlines() if written.exists() else ():
        record = json.loads(line)
        ended = record["outcome"] in ("crashed", "timed out")
        if ended or found.get(record["test"]) not in ("failed", "crashed", "timed out"):
            found[record["test"]] = record["outcome"]
    return found


def _append(written: Path, test: str, outcome: str) -> None:
    with written.open("a") as file:
        file.write(json.dumps({"test": test, "outcome": outcome, "text": ""}) + "\n")


def compare(tests: Path, file: str, seconds: float, logs: Path) -> Row:
    """Run a file with each setting."""
    outcomes: dict[str, Outcomes] = {}
    for name, composites in SETTINGS.items():
        written = logs / f"{file.replace('/', '.')}.{name}.jsonl"
        written.unlink(missing_ok=True)
        outcomes[name] = run(tests, file, composites, seconds, written)
    return Row(file, outcomes)


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


def markdown(rows: Sequence[Row]) -> str:
    """The page. Outcomes that no test has are left out."""
    shown = [outcome for outcome in OUTCOMES if any(row.count(outcome) != "0" for row in rows)]
    cells = [
        [row.file, *(row.count(outcome) for outcome in shown), str(len(row.differences))]
        for row in rows
    ]
    explained = (__doc__ or "").partition("\n\n- ")[2]
    return page(
        "pytorch/xla's own tests",
        "Printed by `python -m benchmarks.upstream CHECKOUT --markdown benchmarks/UPSTREAM.md` with"
        f" {versions_of('torch', 'torch_xla')} on the CPU; every composite of the built-in"
        " registry is on.",
        markdown_table(["file", *shown, "differences"], cells, numbers=range(1, len(shown) + 2)),
        f"- {explained.strip()}",
        "## Differences",
        [f"- {line}" for row in rows for line in _listed(row)] or "None.",
    )


def _listed(row: Row) -> list[str]:
    return [
        f"`{test}`: {stock} -> {ours}" + (f" ({KNOWN[test]})" if test in KNOWN else "")
        for test, stock, ours in row.differences
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a clone of pytorch/xla")
    parser.add_argument("--files", default=",".join(FILES), help="below test/, comma-separated")
    parser.add_argument("--seconds", type=float, default=600, help="the longest that a test takes")
    parser.add_argument("--logs", type=Path, help="keep the outcomes and failures in this folder")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    arguments = parser.parse_args()
    files = arguments.files.split(",")
    missing = [name for name in files if not (arguments.checkout / "test" / name).is_file()]
    if missing:
        sys.exit(
            f"{arguments.checkout} has no file test/{missing[0]}; give a clone of"
            f" https://github.com/pytorch/xla at tag v{version('torch_xla')}"
        )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tests = copied(arguments.checkout, Path(folder))
        logs = arguments.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        for file in files:
            rows.append(compare(tests, file, arguments.seconds, logs.resolve()))
            for line in _listed(rows[-1]):
                print(f"{file}: {line}", flush=True)
    publish(markdown(rows), arguments.markdown)
    sys.exit(any(test not in KNOWN for row in rows for test, _, _ in row.differences))


if __name__ == "__main__":
    main()
