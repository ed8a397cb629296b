"""The environment variables, and the registries and entries that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from composites.errors import did_you_mean, listed
from composites.log import LEVELS
from composites.settings import (
    ALLOWLIST,
    DECOMPOSITION,
    LOG,
    REGISTRIES,
    STATS,
    VARIABLES,
    unknown_variables,
)
from lowering.cli.doctor.findings import Finding, one_line
from lowering.cli.doctor.registries import ReadRegistries


def variable_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Findings on what the variables say by themselves."""
    known = [variable.name for variable in VARIABLES]
    for name in unknown_variables(environment):
        hint = did_you_mean(name.upper(), known).removeprefix("; ")
        advice = hint or f"the variables are {', '.join(known)}"
        yield Finding("warning", name, "is set, but nothing reads it", advice)
    level = LOG.read(environment)
    if level and level.lower() not in LEVELS:
        yield Finding("warning", LOG.name, f"{level} is no level", f"write {' or '.join(LEVELS)}")
    file = STATS.read(environment)
    if file and not Path(file).absolute().parent.is_dir():
        folder = Path(file).absolute().parent
        yield Finding("warning", STATS.name, f"{file} cannot be written", f"make {folder}")


def registry_findings(read: ReadRegistries) -> Iterator[Finding]:
    """Findings on the registries that were read, and those that cannot be."""
    for registry in read.registries:
        origin = f"package {registry.package}" if registry.package else "file"
        entries = f"{registry.entries} entr{'y' if registry.entries == 1 else 'ies'}"
        text = f"{entries} from {'the built-in file' if registry.builtin else origin}"
        yield Finding("ok", f"registry {registry.namespace}", f"{text}, {registry.source}")
    for file, reason in read.unusable:
        check = f"`composites check {file}`" if Path(file).is_file() else REGISTRIES.name
        yield Finding("problem", REGISTRIES.name, one_line(reason), f"correct it; see {check}")
    for package, reason in read.left_out:
        advice = "its entries are missing; correct or update it, or uninstall it"
        yield Finding("warning", f"package {package}", one_line(reason), advice)
    for remark in read.remarks:
        yield Finding("warning", "registries", one_line(remark), "uninstall one of them")


def allowlist_findings(text: str, read: ReadRegistries) -> Iterator[Finding]:
    """Findings on XLA_COMPOSITE_OP."""
    if not text:
        advice = f"to turn entries on, write {ALLOWLIST.name}={ALLOWLIST.example} before a command"
        yield Finding("ok", ALLOWLIST.name, f"is not set, so nothing is turned on; {advice}")
    for reason in read.wrong_names:
        advice = f"correct {ALLOWLIST.name}={text}; the program stops at `import torch_xla`"
        yield Finding("problem", ALLOWLIST.name, one_line(reason), advice)
    if text and not read.wrong_names:
        names = listed(read.named, 6, "nothing")
        yield Finding("ok", ALLOWLIST.name, f"{text} turns on {names}")


def decomposition_findings(text: str, allowlist: str, read: ReadRegistries) -> Iterator[Finding]:
    """Findings on XLA_COMPOSITE_DECOMPOSITION."""
    name = DECOMPOSITION.name
    if read.wrong_decomposition is not None:
        advice = f"correct {name}={text}; composites cannot be turned on"
        yield Finding("problem", name, one_line(read.wrong_decomposition), advice)
    elif text and not allowlist:
        advice = f"set {ALLOWLIST.name}, or turn composites on in code"
        yield Finding("warning", name, f"chooses {text}, and no composite is on", advice)
    elif text:
        yield Finding("ok", name, f"chooses {text}")
