"""Print the share of planted faults that the tests catch.

    python -m tests.mutations                       a sample of 120 faults
    python -m tests.mutations --count 20 -- tests/registry tests/stablehlo

Faults are planted in the functions of `FOLDERS`, in a copy of the tracked files. The tests run once
on the copy without a fault and record which of them reach each fault; then each fault is turned on,
and the tests that reach it run until one fails. What follows `--` goes to pytest.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutations.planting import Site, plant, sites
from tests.mutations.running import SLACK, Outcome, run_tests

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
    _print_outcomes(chosen, outcomes)


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


def _environment(copy: Path) -> dict[str, str]:
    """Variables of processes that import the copy."""
    path = os.pathsep.join((str(copy), str(copy / "tests" / "support")))
    return os.environ | {"PYTHONPATH": path}


def _run_all_tests(copy: Path, arguments: Sequence[str]) -> dict[int, dict[str, float]]:
    """The tests that reach a site and pass, with their seconds, by site."""
    reached, durations = copy / "reached.txt", copy / "durations.txt"
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-q"]
    plugin = ["-p", "composites_testing.durations", f"--passed-tests={durations}"]
    start = time.perf_counter()
    subprocess.run(
        [*command, *plugin, *arguments],
        cwd=copy,
        env=_environment(copy) | {"COMPOSITES_MUTANTS_REACHED": str(reached)},
        check=False,
    )
    print(f"The first run took {time.perf_counter() - start:.0f} s.", flush=True)
    seconds = dict(_durations(durations))
    by_site: dict[int, dict[str, float]] = defaultdict(dict)
    for line in reached.read_text(encoding="utf-8").splitlines() if reached.exists() else ():
        site, _, test = line.partition(" ")
        if test in seconds:
            by_site[int(site)][test] = seconds[test]
    return by_site


def _durations(file: Path) -> Iterator[tuple[str, float]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        seconds, _, test = line.partition(" ")
        yield test, float(seconds)


def _try_each(
    copy: Path, chosen: Sequence[Site], reached: Mapping[int, Mapping[str, float]], limit: float
) -> dict[int, Outcome]:
    """Run the tests of each site, of two at once; sites without tests have no outcome."""

    def attempt(number: int) -> Outcome:
        tests = list(_quickest(reached[number], limit))
        seconds = 3 * sum(reached[number][test] for test in tests) + SLACK
        outcome = run_tests(copy, _environment(copy), number, tests, seconds)
        if outcome.reason in reached[number]:
            # A test that fails in this order without the fault has not caught it.
            control = run_tests(copy, _environment(copy), -1, [outcome.reason], seconds)
            outcome = Outcome(not control.caught, outcome.reason)
        state = "caught" if outcome.caught else "SURVIVED"
        print(f"{state}: {chosen[number]}  [{outcome.reason}]", flush=True)
        return outcome

    numbers = [number for number in range(len(chosen)) if reached.get(number)]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(numbers, pool.map(attempt, numbers), strict=True))


def _quickest(tests: Mapping[str, float], limit: float) -> Iterator[str]:
    """The quickest tests, which together take `limit` seconds; one at least."""
    total = 0.0
    for test, seconds in sorted(tests.items(), key=lambda pair: pair[1]):
        total += seconds
        if total > limit and total > seconds:
            return
        yield test


def _print_outcomes(chosen: Sequence[Site], outcomes: Mapping[int, Outcome]) -> None:
    for number, site in enumerate(chosen):
        if number not in outcomes:
            print(f"not reached: {site}")
    caught = sum(outcome.caught for outcome in outcomes.values())
    share = caught / len(chosen)
    print(f"{caught} of {len(chosen)} planted faults were caught ({share:.0%}); ", end="")
    print(f"{len(chosen) - len(outcomes)} were not reached by a test.")


if __name__ == "__main__":
    main()
