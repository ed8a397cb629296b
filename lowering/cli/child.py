"""The work of a command in a child process, which may die of a damaged file.

The child is a fork: it has the terminal and the options of its parent, and starts at once. A
process with threads cannot be forked safely, so this is for the command's own process only, before
jaxlib is imported.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import IO, TypeAlias

import typer

from lowering.stablehlo import CrashError, Limits
from lowering.stablehlo.isolation import OUT_OF_MEMORY, cause_of_death, too_long

Work: TypeAlias = Callable[[], None]

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

_GRACE = 2.0
"""Seconds that an interrupted child has to remove its temporary files."""


def run_in_child(work: Work, file: str, limits: Limits) -> None:
    """Do the work of a command on a file in a child process, and exit as the child does.

    Raises:
        CrashError: the child died, or went over the limits.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        work()
        return
    with tempfile.TemporaryFile() as noise:
        child = multiprocessing.get_context("fork").Process(
            target=_child, args=(work, limits, noise)
        )
        child.start()
        try:
            child.join(limits.seconds)
        except KeyboardInterrupt:  # the terminal interrupts the child too
            child.join(_GRACE)
            child.kill()
            raise
        if child.exitcode is None:
            child.kill()
            child.join()
            raise CrashError(f"{file}: {too_long(limits)}")
        if child.exitcode < 0 or child.exitcode == OUT_OF_MEMORY:
            raise CrashError(f"{file}: {cause_of_death(child.exitcode, limits, noise)}")
        noise.seek(0)
        sys.stderr.write(noise.read().decode(errors="replace"))
    raise typer.Exit(child.exitcode)


def _child(work: Work, limits: Limits, noise: IO[bytes]) -> None:
    _die_with_parent()
    _divert_stderr(noise)
    limits.apply()
    try:
        work()
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def _die_with_parent() -> None:
    """End when the parent does, whatever ends it. Only Linux has this; others have the limits."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _divert_stderr(noise: IO[bytes]) -> None:
    """Keep what native code writes to stderr, such as its last words, apart from our messages."""
    with suppress(OSError):  # stderr may be closed
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
        os.dup2(noise.fileno(), 2)
