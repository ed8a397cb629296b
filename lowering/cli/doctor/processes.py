"""The two child processes of the doctor, side by side, and what they told.

A child may end in any way, or not at all. What it had told by then is kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composites.child_processes import signal_name
from composites.settings import LOG, STATS
from lowering.cli.doctor import program
from lowering.cli.doctor.registries import ReadRegistries, from_json

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
"""PyTorch runs the plug-ins of `torch.backends` unless this is set to something else than 1."""

TIME_LIMIT = 180.0
"""Seconds. On a quiet machine a child needs about five."""

_REGISTRIES = (
    "import json, sys\n"
    "sys.path[:] = json.loads(sys.argv[2])\n"
    "from lowering.cli.doctor.registries import main\n"
    "main(sys.argv[1])\n"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended, and the lines that it told."""

    lines: Sequence[str]
    failure: str | None
    """What it said last if it failed; None if it did not."""


@dataclass(frozen=True, slots=True)
class Program:
    """What the program told."""

    steps: Mapping[str, Mapping[str, Any]]
    """The steps that it took, in their order, each with what it told of it."""
    failure: str | None

    def errors(self, step: str) -> Sequence[str]:
        """The errors that an import ended with."""
        return tuple(self.steps.get(step, {}).get("errors", ()))

    @property
    def missing(self) -> Sequence[str] | None:
        """The names that torch_xla lacks; None if it was not imported, or could not be asked."""
        found = self.steps.get("capabilities")
        return None if found is None else tuple(found["missing"])

    def unreached(self, step: str) -> bool:
        """Whether the process ended before it could tell of a step."""
        return step not in self.steps


@dataclass(frozen=True, slots=True)
class Told:
    """What both children told."""

    program: Program
    registries: ReadRegistries | None
    registries_failure: str | None


def ask(folder: Path) -> Told:
    """Run both children. `folder` is that of the user's script."""
    # Behind the others, so that a vendor's modules are found there and nothing is shadowed.
    path = json.dumps([*sys.path, str(folder)])
    quiet = {LOG.name: "", STATS.name: ""}
    program_command = [str(program.__file__)], [str(folder)], quiet
    # Without plug-ins, torch is imported even where one of them is broken.
    registries_command = ["-c", _REGISTRIES], [path], {**quiet, AUTOLOAD: "0"}
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda c: _run(*c), (program_command, registries_command))
    told = [json.loads(line) for line in first.lines]
    registries = None if second.failure or not second.lines else from_json(second.lines[0])
    return Told(
        Program({step.pop("step"): step for step in told}, first.failure),
        registries,
        second.failure,
    )


def _run(what: Sequence[str], arguments: Sequence[str], environment: Mapping[str, str]) -> Ended:
    """Run Python with a file for what it tells as the first argument."""
    with tempfile.TemporaryDirectory(prefix="composites-") as folder:
        told = Path(folder) / "told.jsonl"
        try:
            done = subprocess.run(
                [sys.executable, *what, str(told), *arguments],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=TIME_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            failure: str | None = f"it did not end within {TIME_LIMIT:.0f} seconds"
        else:
            failure = _failure(done.returncode, done.stderr.decode(errors="replace"))
        text = told.read_text(encoding="utf-8") if told.exists() else ""
    # The last line may not be whole.
    return Ended([line for line in text.splitlines(keepends=True) if line.endswith("\n")], failure)


def _failure(code: int, stderr: str) -> str | None:
    if code == 0:
        return None
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = f": {lines[-1].strip()}" if lines else ""
    if code > 0:
        return f"it ended with exit code {code}{said}"
    return f"it was ended by {signal_name(-code)}{said}"
