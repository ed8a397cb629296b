"""Whether the plug-in is installed, whether it runs, and what is on in a program because of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from composites.errors import installing
from composites.settings import ALLOWLIST
from lowering.cli.doctor.findings import Finding, one_line
from lowering.cli.doctor.processes import AUTOLOAD, Program, Told
from lowering.cli.doctor.versions import (
    for_jax_alone,
    install,
    install_torch,
    without_torch_xla,
)
from lowering.frontends.torch_xla import capabilities

_GROUP, _NAME, _VALUE = "torch.backends", "composites", "lowering.autoload:autoload"
_BROKEN_PLUGIN = re.compile(r"Failed to load the backend extension: (.+?)\.( |$)")
_INSTALL_TORCH_XLA = installing("torch-xla,cli")
_WITH_TORCH_XLA = f"make an environment of its own with {_INSTALL_TORCH_XLA}"
_DEVICE = "set PJRT_DEVICE, as in PJRT_DEVICE=CPU"
_OURS = ("AllowlistError", "RegistryError")


def plugin_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Findings on the entry point that PyTorch reads."""
    found = [point.value for point in entry_points(group=_GROUP) if point.name == _NAME]
    if _VALUE not in found:
        text = f"has no entry point in {_GROUP}, so nothing reads {ALLOWLIST.name}"
        yield Finding("problem", "plug-in", text, install())
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
    """Findings on a program that imports torch, torch_xla and jax in this environment."""
    program = told.program
    needed = bool(ALLOWLIST.read(environment))
    if program.unreached("start"):
        text = program.failure or "it told nothing"
        yield Finding("problem", "a Python program", f"does not start: {text}", "mend Python first")
        return
    found = _import("torch", program, needed=needed)
    yield found
    if found.level == "ok":
        found = _import("torch_xla", program, needed=needed)
        yield found
    if found.level == "problem" and program.unreached("jax"):  # it ended there
        return
    if not program.errors("torch"):
        if not program.errors("torch_xla"):
            yield from _device(program, environment)
            yield from _capabilities(program)
            yield from _active(told, environment, "that imports torch_xla")
        elif without_torch_xla():
            yield from _recorder(program)
            if not program.errors("recorder"):
                yield from _active(told, environment, "that exports")
    yield _jax(program)


def _device(program: Program, environment: Mapping[str, str]) -> Iterator[Finding]:
    device = program.steps.get("device", {}).get("type")
    if environment.get("PJRT_DEVICE"):
        yield Finding("ok", "PJRT_DEVICE", str(device))
    elif device:
        yield Finding("ok", "PJRT_DEVICE", f"is not set; torch_xla chooses {device}")
    else:
        yield Finding("warning", "PJRT_DEVICE", "is not set, and torch_xla chooses none", _DEVICE)


def _capabilities(program: Program) -> Iterator[Finding]:
    subject, missing = "names in torch_xla", program.missing
    if missing:
        yield Finding("problem", subject, capabilities.sentence(missing), capabilities.ADVICE)
    elif missing is not None:
        yield Finding("ok", subject, "all that composites need are there")


def _recorder(program: Program) -> Iterator[Finding]:
    """Whether programs can be exported without torch_xla."""
    if program.unreached("recorder"):  # the plug-in did not run, which is reported
        return
    subject, errors = "frontend fx", program.errors("recorder")
    if errors:
        yield Finding("problem", subject, f"fails: {one_line(errors[0])}", install())
    else:
        yield Finding("ok", subject, "records what composites.export is given")


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
        if not needed:
            return Finding("ok", subject, text)
        text += f", so {ALLOWLIST.name} is for exports and JAX programs"
        return Finding("warning", subject, text, f"where scripts need it, {_WITH_TORCH_XLA}")
    if missing in errors and name == "torch_xla":
        text = "torch_xla is not installed"
        if needed:
            text += f", so {ALLOWLIST.name} is for JAX programs only"
        if for_jax_alone():
            advice = f"where PyTorch programs need it, {_INSTALL_TORCH_XLA}"
            return Finding("warning", subject, text, advice)
        return Finding("problem" if needed else "warning", subject, text, _INSTALL_TORCH_XLA)
    if missing in errors:
        text = f"{name} is not installed"
        if needed:
            text += f", so JAX programs with {ALLOWLIST.name} end with an error"
        return Finding("problem" if needed else "warning", subject, text, install_torch())
    text = f"fails: {one_line(errors[0])}"
    if any(error.startswith(_OURS) for error in errors):
        return Finding("problem", subject, text, f"correct {ALLOWLIST.name} or the registry file")
    plugin = _BROKEN_PLUGIN.search(errors[0])
    if plugin is not None:
        text = f"fails: the plug-in {plugin[1]} does: {one_line(errors[-1])}"
        advice = f"correct or uninstall its package; {AUTOLOAD}=0 leaves all plug-ins out"
        ours = "rename what shadows the package, or " + install()
        return Finding("problem", subject, text, ours if plugin[1] == _NAME else advice)
    return Finding("problem", subject, text, _reinstall(text))


def _reinstall(said: str) -> str:
    """What to do if an import fails with this text."""
    if "_XLAC" in said or "undefined symbol" in said:
        return "torch and torch_xla have to be of one release; " + install()
    return "install what it names anew, or all in a new environment: " + install()


def _jax(program: Program) -> Finding:
    errors = program.errors("jax")
    if program.unreached("jax"):
        errors = (program.failure or "it ends the program",)
    if not errors:
        beside = [name for name in ("torch_xla", "torch") if "file" in program.steps.get(name, {})]
        return Finding("ok", "import jax", f"works beside {beside[0]}" if beside else "works")
    advice = "pip install --upgrade jax jaxlib"
    return Finding("problem", "import jax", f"fails: {one_line(errors[0])}", advice)


def _active(told: Told, environment: Mapping[str, str], which: str) -> Iterator[Finding]:
    """Whether a program has the entries on that XLA_COMPOSITE_OP names.

    Args:
        which: which program this is.
    """
    program, subject = told.program, "composites on"
    used = program.steps.get("plugin", {}).get("file")
    if used is None:
        if environment.get(AUTOLOAD, "1") == "1":
            text = "the plug-in did not run in a program"
            yield Finding("problem", subject, text, install())
        return
    if program.unreached("active"):
        text = f"cannot be asked for: {program.failure}"
        yield Finding("problem", subject, text, "remove what shadows the package, or " + install())
        return
    names = active(program)
    read = told.registries
    expected = read.named if read is not None else names
    if set(names) != set(expected):
        lacking = ", ".join(sorted(set(expected) - set(names))) or "nothing"
        text = f"{len(names)} of {len(expected)} entries are on in a program; lacking: {lacking}"
        yield Finding("problem", subject, text, "please report this, with this output")
    elif names:
        yield Finding("ok", subject, f"{len(names)} in a program {which}")
    else:
        exports = "; composites.export then takes all" if program.errors("torch_xla") else ""
        yield Finding("ok", subject, f"none in a program {which}{exports}")


def active(program: Program) -> Sequence[str]:
    """The entries that were on in the program."""
    return tuple(program.steps.get("active", {}).get("names", ()))
