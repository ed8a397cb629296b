"""Print the share of planted faults that the tests catch.

    python -m tests.mutations                       a sample of 120 faults
    python -m tests.mutations --count 20 -- tests/registry tests/stablehlo

Faults are planted in the functions of `FOLDERS`, in a copy of the tracked files. The tests run once
on the copy without a fault and record which of them reach each fault; then each fault is turned on,
and the tests that reach it run until one fails. What follows `--` goes to pytest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

from tests.mutations.planting import Site, plant, sites
from tests.mutations.running import Outcome, run_reaching_tests

FOLDERS = (
    "composites/registry",
    "lowering/dispatch",
    "lowering/emission",
    "lowering/stablehlo/passes",
)
REPOSITORY = Path(__file__).parents[2]


def main() -> None:
    arguments = _parser().parse_args()
    chosen = sites(REPOSITORY, FOLDERS)[: arguments.count]
    copy = Path(tempfile.mkdtemp(prefix="mutations-"))
    try:
        _copy_tracked_files(copy)
        plant(copy, chosen)
        reached = _run_all_tests(copy, arguments.pytest)
        outcomes = _try_each(copy, chosen, reached, arguments.limit)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    _report(chosen, outcomes, sys.stdout)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=120, help="number of faults (default: 120)")
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        help="seconds of tests, as the first run took them, that are tried for one fault; the"
        " quickest tests come first (default: 120)",
    )
    parser.add_argument("pytest", nargs="*", help="arguments of pytest for the first run")
    return parser


def _copy_tracked_files(copy: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, copy / name)


def environment(copy: Path, **variables: str) -> dict[str, str]:
    """The environment of processes that import the copy."""
    return os.environ | {"PYTHONPATH": str(copy)} | variables


def _run_all_tests(copy: Path, arguments: Sequence[str]) -> dict[int, dict[str, float]]:
    """By site: the tests that reach it and pass, with their seconds."""
    reached, durations = copy / "reached.txt", copy / "durations.txt"
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-q"]
    plugin = ["-p", "composites_testing.durations", f"--passed-tests={durations}"]
    support = str(copy / "tests" / "support")
    start = time.perf_counter()
    subprocess.run(
        [*command, *plugin, *arguments],
        cwd=copy,
        env=environment(copy, COMPOSITES_MUTANTS_REACHED=str(reached))
        | {"PYTHONPATH": os.pathsep.join((str(copy), support))},
        check=False,
    )
    print(f"the first run took {time.perf_counter() - start:.0f} s", flush=True)
    seconds = dict(_durations(durations.read_text(encoding="utf-8").splitlines()))
    by_site: dict[int, dict[str, float]] = defaultdict(dict)
    for line in reached.read_text(encoding="utf-8").splitlines() if reached.exists() else ():
        site, _, test = line.partition(" ")
        if test in seconds:
            by_site[int(site)][test] = seconds[test]
    return by_site
