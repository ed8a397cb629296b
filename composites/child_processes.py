"""Run modules of this package in other Python processes, and name the signals that end them."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_RUN = (
    "import sys; root, module, *more = sys.argv[1:]; end = more.index('');"
    " sys.path.insert(0, root); import composites, lowering; sys.path.remove(root);"
    " sys.path += more[:end]; sys.argv[1:] = more[end + 1 :];"
    " import importlib; importlib.import_module(module).main()"
)
"""The program of the child. An empty argument ends the folders, none of which is empty."""

FOR_XLA_ON_CPU: Mapping[str, str] = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Environment variables that make XLA's programs faster on the CPU. Results of more than
32 MiB are in huge pages, which the system clears in less time at each call (needs glibc 2.35)."""


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `main` of a module with these arguments in `sys.argv`.

    The child finds this package, and everything else on the path of this process, in the same
    folders. The folders come after the child's own path: otherwise a user's json.py beside a
    model, which is first on the path of this process, would replace Python's json in the child.
    """
    root = str(Path(__file__).parents[1])
    folders = [folder or os.getcwd() for folder in sys.path]
    # -P: files in the working directory of the child shadow no modules either.
    return [sys.executable, "-P", "-c", _RUN, root, module, *folders, "", *arguments]


def run_to_end(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a process, and return its exit code.

    The caller outlives the child. Ctrl-C, which a terminal sends to both, is left to the child, and
    SIGTERM is passed on to the child.
    """
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with subprocess.Popen(command, env=environment) as process:
            signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
            if signal.SIGTERM in received:  # received while the child was started
                process.terminate()
            return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as `SIGSEGV`; `signal 34` for a signal without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
