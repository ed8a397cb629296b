"""Whether the plug-in is installed, whether it runs, and what is on in a program because of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from composites.cli.doctor.findings import Finding, one_line
from composites.cli.doctor.processes import AUTOLOAD, Program, Told
from composites.cli.doctor.versions import INSTALL, without_torch_xla
from composites.settings import ALLOWLIST

_GROUP, _NAME, _VALUE = "torch.backends", "composites", "lowering.autoload:autoload"
_BROKEN_PLUGIN = re.compile(r"Failed to load the backend extension: (.+?)\.( |$)")
_DEVICE = "set PJRT_DEVICE, as in PJRT_DEVICE=CPU"
_OURS = ("AllowlistError", "RegistryError")


def plugin_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Findings on the entry point that PyTorch reads."""
    found = [point.value for point in entry_points(group=_GROUP) if point.name == _NAME]
    if _VALUE not in found:
        text = f"has no entry point in {_GROUP}, so nothing reads {ALLOWLIST.name}"
        yield Finding("problem", "plug-in", text, INSTALL)
    else:
        yield Finding("ok", "plug-in", f"entry point {_VALUE} of {_GROUP}")
    if environment.get(AUTOLOAD, "1") != "1":
        yield Finding(
            "problem" if ALLOWLIST.read(environment) else "warning",
            AUTOLOAD,
            f"is {environment[AUTOLOAD]!r}, so PyTorch runs no plug-in, and nothing reads"
            f" {ALLOWLIST.name}",
            f"unset {AUTOLOAD}, or call composites.enable in the program",
        )


def program_findings(told: Told, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Findings on a program that imports torch and torch_xla in this environment."""
    program = told.program
    needed = bool(ALLOWLIST.read(environment))
    if program.unreached("start"):
        text = program.failure or "it told nothing"
        yield Finding("problem", "a Python program", f"does not start: {text}", "mend Python first")
        return
    for name in ("torch", "torch_xla"):
        finding = _import(name, program, needed=needed)
        yield finding
        if finding.level != "ok":
            return
    device = program.steps.get("device", {}).get("type")
    if environment.get("PJRT_DEVICE"):
        yield Finding("ok", "PJRT_DEVICE", str(device))
    elif device:
        yield Finding("ok", "PJRT_DEVICE", f"is not set; torch_xla chooses {device}")
    else:
        yield Finding("warning", "PJRT_DEVICE", "is not set, and torch_xla chooses none", _DEVICE)
    yield from _active(told, environment)
    yield _jax(program)


def _import(name: str, program: Program, *, needed: bool) -> Finding:
    subject = f"import {name}"
    if program.unreached(name):
        text = f"fails: {program.failure or 'it ends the program'}"
        return Finding("problem", subject, text, _reinstall(text))
    errors = program.errors(name)
    if not errors:
        return Finding("ok", subject, str(Path(program.steps[name]["file"]).parent))
    missing = f"ModuleNotFoundError: No module named {name!r}"
    if missing in errors and name == "torch_xla" and without_torch_xla():
        text = "is not installed; composites.export takes frontend='fx', and nothing runs live"
        return Finding("ok", subject, text)
    if missing in errors:
        text = f"{name} is not installed"
        if needed:
            text += f", so {ALLOWLIST.name} does nothing"
        return Finding("problem" if needed else "warning", subject, text, INSTALL)
    text = f"fails: {one_line(errors[0])}"
    if any(error.startswith(_OURS) for error in errors):
        return Finding("problem", subject, text, f"correct {ALLOWLIST.name} or the registry file")
    plugin = _BROKEN_PLUGIN.search(errors[0])
    if plugin is not None:
        text = f"fails: the plug-in {plugin[1]} does: {one_line(errors[-1])}"
        advice = f"correct or uninstall its package; {AUTOLOAD}=0 leaves all plug-ins out"
        ours = "rename what shadows the package, or " + INSTALL
        return Finding("problem", subject, text, ours if plugin[1] == _NAME else advice)
    return Finding("problem", subject, text, _reinstall(text))


def _reinstall(said: str) -> str:
    """What to do if an import fails with this text."""
    if "_XLAC" in said or "undefined symbol" in said:
        return "torch and torch_xla have to be of one release; " + INSTALL
    return "install what it names anew, or all in a new environment: " + INSTALL


def _jax(program: Program) -> Finding:
    errors = program.errors("jax")
    if program.unreached("jax"):
        errors = (program.failure or "it ends the program",)
    if not errors:
        return Finding("ok", "import jax", "works beside torch_xla")
    advice = "pip install --upgrade jax jaxlib"
    return Finding("problem", "import jax", f"fails: {one_line(errors[0])}", advice)


def _active(told: Told, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the program has the entries on that XLA_COMPOSITE_OP names."""
    program, subject = told.program, "composites on"
    used = program.steps.get("plugin", {}).get("file")
    if used is None:
        if environment.get(AUTOLOAD, "1") == "1":
            text = "the plug-in did not run in a program"
            yield Finding("problem", subject, text, INSTALL)
        return
    if program.unreached("active"):
        text = f"cannot be asked for: {program.failure}"
        yield Finding("problem", subject, text, "remove what shadows the package, or " + INSTALL)
        return
    names = active(program)
    read = told.registries
    expected = read.named if read is not None else names
    if set(names) != set(expected):
        lacking = ", ".join(sorted(set(expected) - set(names))) or "nothing"
        text = f"{len(names)} of {len(expected)} entries are on in a program; lacking: {lacking}"
        yield Finding("problem", subject, text, "please report this, with this output")
    elif names:
        yield Finding("ok", subject, f"{len(names)} in a program that imports torch_xla")
    else:
        yield Finding("ok", subject, "none in a program that imports torch_xla")


def active(program: Program) -> Sequence[str]:
    """The entries that were on in the program."""
    return tuple(program.steps.get("active", {}).get("names", ()))
