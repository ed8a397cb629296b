"""The versions of Python and of the packages, against what the package's metadata asks for."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from composites.errors import installing
from lowering.cli.doctor.findings import Finding, Level

PACKAGE = "torch-xla-composites"
_OPTIONAL = ("models",)
"""Extras of packages that only have to fit where they are installed."""
_FRONTEND = ("torch", "torch_xla")


def without_torch_xla() -> bool:
    """Whether programs of this environment are exported by the frontend that needs no torch_xla."""
    return installed("torch_xla") is None and _torch_fits("torch")


def for_jax_alone() -> bool:
    """Whether this environment has composites in JAX programs alone: its PyTorch has the schemas
    and decompositions, and is too old for the frontend that needs no torch_xla."""
    return installed("torch_xla") is None and not _torch_fits("torch") and _torch_fits("jax")


def without_torch() -> bool:
    """Whether this environment has no PyTorch at all, which reading and lowering files, and running
    programs on JAX, do without."""
    return installed("torch") is None and installed("torch_xla") is None


def install() -> str:
    """How the package is installed anew, with what this environment has of frontends."""
    frontend = "" if without_torch() else f"{_extra()},"
    return installing(f"{frontend}cli")


def install_torch() -> str:
    """How torch is installed, where it is missing."""
    if not without_torch():
        return install()
    return (
        f"{installing('torch,cli')} for exports and JAX programs, or '.[torch-xla,cli]' for scripts"
        " on XLA devices"
    )


def version_findings(*, torch_needed: bool, torch_xla_works: bool = False) -> Iterator[Finding]:
    """Findings on all versions.

    Where torch is missing, files can still be read and lowered, so this is a problem only if torch
    is needed.

    Args:
        torch_xla_works: whether a program imports torch_xla, and it has all that is needed of it.
            A version is then no problem, since vendors have releases of their own.
    """
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError:
        yield Finding("problem", PACKAGE, "is not installed", install())
        return
    frontend = {str(canonicalize_name(name)) for name in _FRONTEND}
    yield _python(package)
    yield Finding("ok", PACKAGE, package.version)
    extras = ("", "cli") if without_torch() else ("", _extra(), "cli")
    for requirement in requirements(package, extras):
        of_frontend = _name(requirement) in frontend
        finding = _package(requirement, needed=torch_needed or not of_frontend)
        works = torch_xla_works and of_frontend and finding.level == "problem"
        yield _untested(finding, requirement) if works else finding
    if without_torch():
        level: Level = "problem" if torch_needed else "warning"
        yield Finding(level, "torch", "missing; exports and programs need it", install_torch())
    for requirement in requirements(package, _OPTIONAL):
        finding = _package(requirement, needed=False)
        if installed(requirement.name) is not None:
            yield finding if finding.level == "ok" else replace(finding, level="warning")
    if not torch_xla_works:
        yield from _torch_xla_fits()
    yield from _jaxlib_fits()


def _extra() -> str:
    if without_torch_xla():
        return "torch"
    return "jax" if for_jax_alone() else "torch-xla"


def _torch_fits(extra: str) -> bool:
    """Whether PyTorch is installed in a version that an extra of this package asks for."""
    found = installed("torch")
    if found is None or not _is_version(found):
        return False
    try:
        needed = requirements(distribution(PACKAGE), (extra,))
    except PackageNotFoundError:
        return False
    return any(_name(one) == "torch" and one.specifier.contains(found) for one in needed)


def _untested(finding: Finding, requirement: Requirement) -> Finding:
    """A version that the package does not ask for, and that has what is needed."""
    text = (
        f"{installed(requirement.name)} is untested; {_written(requirement.specifier)} is tested."
        " It has what composites need"
    )
    return replace(finding, level="warning", text=text, advice="report what does not work")


def requirements(package: Distribution, extras: Sequence[str]) -> Sequence[Requirement]:
    """What a package needs for these extras; the empty one is the package itself."""
    found: dict[str, Requirement] = {}
    for text in package.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if "" in extras if marker is None else any(marker.evaluate({"extra": e}) for e in extras):
            found.setdefault(_name(requirement), requirement)
    return tuple(found.values())


def installed(name: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(name) or None
    except (PackageNotFoundError, KeyError):  # KeyError: metadata without a version
        return None


def _name(requirement: Requirement) -> str:
    return canonicalize_name(requirement.name)


def _python(package: Distribution) -> Finding:
    wanted = SpecifierSet(package.metadata["Requires-Python"] or "")
    found = platform.python_version()
    if wanted.contains(found, prereleases=True):
        return Finding("ok", "Python", found)
    return Finding(
        "problem",
        "Python",
        f"{found}, but {_written(wanted)} is needed",
        f"make an environment with Python {_written(wanted)}",
    )


def _package(requirement: Requirement, *, needed: bool) -> Finding:
    found = installed(requirement.name)
    pip = f"pip install '{requirement.name}{_written(requirement.specifier)}'"
    wanted = _written(requirement.specifier)
    if found is None:
        level: Level = "problem" if needed else "warning"
        return Finding(level, requirement.name, f"missing; {wanted} is needed", pip)
    if not _is_version(found):
        text = f"{found} is no version; {wanted} is needed"
        return Finding("warning", requirement.name, text, pip)
    if requirement.specifier.contains(found, prereleases=True):
        return Finding("ok", requirement.name, found)
    state = "too old" if _is_older(found, requirement.specifier) else "too new"
    return Finding("problem", requirement.name, f"{found} is {state}; {wanted} is needed", pip)


def _is_older(found: str, wanted: SpecifierSet) -> bool:
    lowest = [s.version for s in wanted if s.operator in (">=", "==", "~=", ">")]
    return any(Version(found) < Version(end) for end in lowest)


def _written(specifiers: SpecifierSet) -> str:
    """A range with its lower end first."""
    return ",".join(sorted(map(str, specifiers), key=lambda text: text[0] != ">"))


def _torch_xla_fits() -> Iterator[Finding]:
    """torch_xla is built for one release of torch, and cannot be imported with another."""
    torch, torch_xla = (installed(name) for name in _FRONTEND)
    if torch is None or torch_xla is None or not (_is_version(torch) and _is_version(torch_xla)):
        return  # reported with the packages
    release = Version(torch_xla).release[:2]
    if Version(torch).release[:2] != release:
        of = ".".join(map(str, release))
        yield Finding(
            "problem",
            "torch and torch_xla",
            f"torch_xla {torch_xla} is built for torch {of}, not for {torch}",
            f"pip install 'torch=={of}.*' 'torch_xla=={of}.*'",
        )


def _jaxlib_fits() -> Iterator[Finding]:
    """jax cannot be imported with a jaxlib that is not of its time."""
    jax, jaxlib = installed("jax"), installed("jaxlib")
    if jax is None or jaxlib is None or not _is_version(jaxlib):  # reported with the packages
        return
    for requirement in requirements(distribution("jax"), ("",)):
        wanted = requirement.specifier
        if _name(requirement) == "jaxlib" and not wanted.contains(jaxlib, prereleases=True):
            text = f"jax {jax} needs jaxlib {_written(wanted)}, not {jaxlib}"
            yield Finding("problem", "jax and jaxlib", text, "pip install --upgrade jax jaxlib")


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
