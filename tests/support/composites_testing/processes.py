"""Fresh Python processes on XLA:CPU."""

import os
import subprocess
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that ended."""

    code: int
    stdout: str
    stderr: str

    def succeeded(self) -> "Finished":
        """Check that it ended well. Returns the process."""
        assert self.code == 0, self.stdout[-5000:] + self.stderr[-5000:]
        return self


def run_python(script: str, *arguments: str, **environment: str) -> Finished:
    """Run `script` with these arguments of Python's and these variables."""
    return run(sys.executable, *arguments, "-c", script, **environment)


def run(*command: str, cwd: str | os.PathLike[str] | None = None, **environment: str) -> Finished:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    return Finished(done.returncode, done.stdout, done.stderr)
