"""The whole examination: from the surroundings of a program to findings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from composites.settings import ALLOWLIST, DECOMPOSITION
from lowering.cli.doctor.copies import copy_findings
from lowering.cli.doctor.findings import Examination, Finding, Level
from lowering.cli.doctor.plugin import active, plugin_findings, program_findings
from lowering.cli.doctor.processes import Told, ask
from lowering.cli.doctor.script import script_findings
from lowering.cli.doctor.variables import (
    allowlist_findings,
    decomposition_findings,
    registry_findings,
    variable_findings,
)
from lowering.cli.doctor.versions import install, version_findings


def examine(script: Path | None = None) -> Examination:
    """Look at all that a program needs that is started here, or that is this script."""
    folder = Path.cwd() if script is None else script.absolute().parent
    told = ask(folder)
    read = told.registries
    return Examination(
        findings=tuple(_findings(told, script)),
        registries=() if read is None else read.registries,
        active=active(told.program),
    )


def _findings(told: Told, script: Path | None) -> Iterator[Finding]:
    environment = os.environ
    allowlist = ALLOWLIST.read()
    yield from version_findings(
        torch_needed=bool(allowlist), torch_xla_works=told.program.missing == ()
    )
    if (start := told.program.steps.get("start")) is not None:
        yield from copy_findings(start["path"])
    yield from plugin_findings(environment)
    yield from variable_findings(environment)
    if told.registries is None:
        why = told.registries_failure or "nothing was told"
        without_torch = "No module named 'torch'" in why
        advice = "make `import torch` work first" if told.program.errors("torch") else install()
        level: Level = "warning" if without_torch and not allowlist else "problem"
        yield Finding(level, "registries", f"cannot be read: {why}", advice)
    else:
        yield from registry_findings(told.registries)
        yield from allowlist_findings(allowlist, told.registries)
        text = DECOMPOSITION.read()
        yield from decomposition_findings(text, allowlist, told.registries)
    yield from program_findings(told, environment)
    if script is not None:
        yield from script_findings(script)
