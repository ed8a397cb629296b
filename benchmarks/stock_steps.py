"""Training steps on stock torch_xla, in an environment of its own, for benchmarks/live.py.

    python -m benchmarks.stock_steps NAME

Each line of the standard input is a number of steps, and is answered with a line of JSON: the
seconds of each step, and the peak memory of the process in MB. The first answer is for one step,
which traces and compiles.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from resource import RUSAGE_SELF, getrusage

PACKAGES = "torch", "torch_xla", "transformers"
Steps = Callable[[int], tuple[list[float], float]]
"""Takes a number of steps; returns the seconds of each, and the peak memory in MB."""


def answer(name: str) -> None:
    """Run steps of a case of benchmarks/live.py as the standard input asks for them."""
    import torch_xla  # noqa: F401 (registers the device)

    from benchmarks.harness import timing
    from benchmarks.kernels import on_torch_xla
    from benchmarks.live import CASES

    answers, step = sys.stdout, None
    for line in sys.stdin:
        with redirect_stdout(sys.stderr):
            if step is None:
                step = on_torch_xla(CASES[name].build)
                seconds = [timing.seconds(step)[0]]
            else:
                seconds = timing.samples_of(step, int(line))
        peak = getrusage(RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([seconds, peak]), file=answers, flush=True)


@contextmanager
def stock_steps(python: str, name: str) -> Iterator[Steps]:
    """Steps of a case in a process of another Python interpreter.

    Args:
        python: an interpreter whose environment has torch_xla.
        name: a case of benchmarks/live.py.

    Raises:
        RuntimeError: the process ended before it answered.
    """
    command = [python, "-m", "benchmarks.stock_steps", name]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as process:
        asked, answered = process.stdin, process.stdout
        assert asked is not None
        assert answered is not None

        def run(count: int) -> tuple[list[float], float]:
            asked.write(f"{count}\n")
            line = answered.readline()
            if not line:
                raise RuntimeError(f"{' '.join(command)} ended; see the standard error")
            seconds, peak = json.loads(line)
            return seconds, peak

        yield run
        asked.close()


def stock_versions(python: str) -> str:
    """The versions of the packages in the environment of another Python interpreter."""
    script = f"from benchmarks.harness.pages import versions_of; print(versions_of{PACKAGES})"
    return subprocess.check_output([python, "-c", script], text=True).strip()


if __name__ == "__main__":
    answer(sys.argv[1])
