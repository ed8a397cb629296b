"""What pyproject.toml claims to work with is what `.ci/run lowest` and `.ci/run newest` install."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
EXTRAS_WITH_RANGES = ("torch-xla", "models", "cli")  # `.ci/run fx` installs the release of `torch`


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def claimed() -> list[Requirement]:
    """The requirements of the package and of the extras that its users install."""
    extras = project()["optional-dependencies"]
    written = [
        *project()["dependencies"],
        *(r for e in EXTRAS_WITH_RANGES for r in extras.get(e, [])),
    ]
    return [Requirement(requirement) for requirement in written]


def constraints(file: str) -> dict[str, Requirement]:
    lines = (ROOT / ".ci" / file).read_text().splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


def end(requirement: Requirement, operator: str) -> str:
    """The version that stands behind an operator of a range."""
    return next(s.version for s in requirement.specifier if s.operator == operator)


@pytest.mark.parametrize("requirement", claimed(), ids=lambda requirement: requirement.name)
def test_both_ends_of_a_range_are_installed(requirement: Requirement) -> None:
    name = canonicalize_name(requirement.name)
    lowest = constraints("lowest.txt")[name]
    assert f"{end(lowest, '==')}.0".startswith(f"{end(requirement, '>=')}.")
    if name != "pydantic":  # which `.ci/run` upgrades by itself
        newest = end(constraints("newest.txt")[name], ">=")
        assert newest in requirement.specifier
        assert end(requirement, "<") in (_next(newest, 0), _next(newest, 1))


def _next(version: str, place: int) -> str:
    """The first version of which one number is higher: 3.1 becomes 4, or 3.2."""
    numbers = [int(number) for number in version.split(".")[: place + 1]]
    numbers[place] += 1
    return ".".join(map(str, numbers))


def test_classifiers_name_the_supported_pythons() -> None:
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    assert versions == ["3.11", "3.12", "3.13"]
    assert project()["requires-python"] == ">=3.11,<3.14"
    steps = (ROOT / ".ci" / "run").read_text()
    assert all(f"make_environment {version} " in steps for version in (versions[0], versions[-1]))
