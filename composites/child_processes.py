"""Commands that run a module of ours in another process of Python, and how processes ended."""

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
"""Empty text ends the folders: none of them is empty by then."""

FOR_XLA_ON_CPU: Mapping[str, str] = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Environment variables with which programs of XLA run faster on the CPU. Results of more than
32 MiB are in huge pages, which the system clears in less time at each call (needs glibc 2.35)."""


def command_of(module: str, *arguments: str) -> list[str]:
    """The command that runs `main` of a module, with these arguments in `sys.argv`.

    The other process finds this package, and everything else on the path of this process, in the
    same folders. They come after its own path: a user's json.py beside a model, which is first on
    the path here, would otherwise replace Python's json there.
    """
    root = str(Path(__file__).parents[1])
    folders = [folder or os.getcwd() for folder in sys.path]
    # -P: a file in the folder that the process is started in shadows nothing either.
    return [sys.executable, "-P", "-c", _RUN, root, module, *folders, "", *arguments]


def run_to_end(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a process, and return its exit code.

    The caller outlives the process: Ctrl-C, which a terminal sends to both, is left to the process,
    and SIGTERM is passed on to it.
    """
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with subprocess.Popen(command, env=environment) as process:
            signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
            if signal.SIGTERM in received:  # while the process was started
                process.terminate()
            return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def signal_name(number: int) -> str:
    """The name of a signal, such as `SIGSEGV`; `signal 34` of one that has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
