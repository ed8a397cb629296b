"""Reading a file that may be damaged: first in a separate process, which may crash.

jaxlib is made for files that it wrote itself. Other files can crash its process or keep it busy
forever, which no exception handler sees. `checked` lets another process read a file within limits;
a file that it survives is then read in this one. Damaged bytecode can also make jaxlib write to
memory that it does not own, which is seen later or never (jaxlib 0.10.2). So the other process
writes the bytecode again, and this one reads only that.
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
"""The exit code of a process that had a MemoryError. It is the number of ENOMEM."""

REFUSED = 65
"""The exit code of a process that wrote why it cannot read bytecode. It is that of EX_DATAERR."""

_NO_MEMORY = re.compile(r"bad_alloc|MemoryError|out of memory|memory allocation", re.IGNORECASE)
"""The texts that native code and Python write where there is no memory."""

_TRACEBACK = "Traceback (most recent call last)"
"""The text that Python writes for an exception that nobody catches, such as a missing module."""

_READER = "lowering.stablehlo.isolated_reading"


@dataclass(frozen=True)
class Limits:
    """Limits for reading a file. Beyond them, reading raises `CrashError`."""

    seconds: float = 600.0
    """The seconds on the clock."""
    memory: int = 16 * 2**30
    """Bytes. Operating systems other than Linux may ignore this limit."""

    def __post_init__(self) -> None:
        if not (0 < self.seconds < 10**9 and 0 < self.memory < 2**62):
            raise StableHLOError(
                f"{self.seconds} seconds and {self.memory} bytes are not limits; give positive"
                " numbers, such as Limits(seconds=60, memory=2**30)"
            )

    def apply(self) -> None:
        """Limit this process, for as long as it lives."""
        try:
            import resource
        except ImportError:  # no POSIX; the process that waits for this one limits the time
            return
        # Data, not addresses: drivers of accelerators reserve more addresses than there is memory.
        for kind, bound in (
            (resource.RLIMIT_DATA, int(self.memory)),
            # Should the process that waits be gone. Threads spend several seconds at a time.
            (resource.RLIMIT_CPU, int(self.seconds * (os.cpu_count() or 1)) + 1),
            (resource.RLIMIT_CORE, 0),
        ):
            hard = resource.getrlimit(kind)[1]
            limit = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            resource.setrlimit(kind, (limit, hard))


def checked(data: bytes, source: str, limits: Limits) -> bytes:
    """Let another process read a module, and return the bytes that this one can read. Errors in
    text are not reported here, but by the next read.

    Raises:
        CrashError: the process died, or went over the limits.
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
    """The message about a process that ended with this code, negative for a signal, as `subprocess`
    has it. `noise` is what the process wrote to stderr."""
    noise.seek(0)
    said = noise.read(2**16).decode(errors="replace")
    if code == OUT_OF_MEMORY or _NO_MEMORY.search(said):
        return (
            f"it takes more than {limits.memory / 2**30:.3g} GiB of memory; it is damaged, or needs"
            " a higher limit (--memory, or Limits)"
        )
    if hasattr(signal, "SIGXCPU") and code == -signal.SIGXCPU:
        return too_long(limits)
    lines = [line.strip()[:200] for line in said.splitlines() if line.strip()]
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
