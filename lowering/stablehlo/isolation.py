"""Reading a file that may be damaged: first in a separate process, which may crash.

jaxlib is made for files that it wrote itself. Other files can crash its process or keep it busy
forever, and no exception handler can catch that. `checked` lets another process read a file within
limits; if that process survives, this process reads the file. Damaged bytecode can also make jaxlib
write to memory that it does not own, which shows later or never (jaxlib 0.10.2). So the other
process writes the bytecode again, and this process reads only the new bytecode.
"""

import os
import re
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from typing import IO

from composites.child_processes import command_of, signal_name

from .errors import BytecodeError, CrashError, StableHLOError

OUT_OF_MEMORY = 12
"""The exit code of a process that had a MemoryError. The number is that of ENOMEM."""

REFUSED = 65
"""The exit code of a process that wrote why it cannot read bytecode: that of EX_DATAERR."""

_NO_MEMORY = re.compile(r"bad_alloc|MemoryError|out of memory|memory allocation", re.IGNORECASE)
"""The texts that native code and Python write when they run out of memory."""

_TRACEBACK = "Traceback (most recent call last)"
"""The text that Python writes for an uncaught exception, such as a missing module."""

_READER = "lowering.stablehlo.isolated_reading"


@dataclass(frozen=True)
class Limits:
    """Limits for reading a file. Beyond them, reading raises `CrashError`."""

    seconds: float = 600.0
    """The wall-clock time in seconds."""
    memory: int = 16 * 2**30
    """The memory in bytes. Operating systems other than Linux may ignore this limit."""

    def __post_init__(self) -> None:
        if not (0 < self.seconds < 10**9 and 0 < self.memory < 2**62):
            raise StableHLOError(
                f"{self.seconds} seconds and {self.memory} bytes are not limits; give positive"
                " numbers, such as Limits(seconds=60, memory=2**30)"
            )

    def apply(self) -> None:
        """Apply the limits to this process until it ends."""
        try:
            import resource
        except ImportError:  # no POSIX; the parent process limits the time
            return
        # Limit data, not addresses: drivers of accelerators reserve more addresses than memory.
        for kind, bound in (
            (resource.RLIMIT_DATA, int(self.memory)),
            # In case the parent process has ended. Several threads use several seconds per second.
            (resource.RLIMIT_CPU, int(self.seconds * (os.cpu_count() or 1)) + 1),
            (resource.RLIMIT_CORE, 0),
        ):
            hard = resource.getrlimit(kind)[1]
            limit = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            resource.setrlimit(kind, (limit, hard))


def checked(data: bytes, source: str, limits: Limits) -> bytes:
    """Let another process read a module, and return the bytes that this process can read. Errors in
    text are reported by the next read, not by this function.

    Raises:
        CrashError: the process died, or exceeded the limits.
        BytecodeError: the bytecode is damaged, or of a newer StableHLO.
    """
    command = command_of(_READER, str(limits.seconds), str(int(limits.memory)))
    with (
        tempfile.TemporaryFile() as file,
        tempfile.TemporaryFile() as written,
        tempfile.TemporaryFile() as noise,
    ):
        file.write(data)
        file.seek(0)
        try:
            done = subprocess.run(
                command,
                stdin=file,
                stdout=written,
                stderr=noise,
                timeout=limits.seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CrashError(f"{source}: {too_long(limits)}") from None
        except OSError as error:
            raise CrashError(f"{source}: no process can be started to read it: {error}") from error
        written.seek(0)
        if done.returncode == REFUSED:
            raise BytecodeError(f"{source}{written.read().decode()}")
        if done.returncode:
            raise CrashError(f"{source}: {cause_of_death(done.returncode, limits, noise)}")
        return written.read() or data


def cause_of_death(code: int, limits: Limits, noise: IO[bytes]) -> str:
    """The message about a process that ended with an exit code, which is negative for a signal, as
    in `subprocess`. `noise` is the output of the process to stderr."""
    noise.seek(0)
    text = noise.read(2**16).decode(errors="replace")
    if code == OUT_OF_MEMORY or _NO_MEMORY.search(text):
        return (
            f"it takes more than {limits.memory / 2**30:.3g} GiB of memory; it is damaged, or needs"
            " a higher limit (--memory, or Limits)"
        )
    if hasattr(signal, "SIGXCPU") and code == -signal.SIGXCPU:
        return too_long(limits)
    lines = [line.strip()[:200] for line in text.splitlines() if line.strip()]
    if code > 0 and any(line.startswith(_TRACEBACK) for line in lines):
        return f"the process that reads it failed, perhaps whatever the file is: {lines[-1]}"
    how = f"exit code {code}" if code > 0 else signal_name(-code)
    first = lines[0] if lines else ""
    return f"jaxlib crashed on it ({how}{f': {first}' if first else ''}); the file may be damaged"


def too_long(limits: Limits) -> str:
    """The message about a process that took too long."""
    return (
        f"it takes longer than {limits.seconds:g} seconds; it is damaged, or needs a higher limit"
        " (--seconds, or Limits)"
    )
