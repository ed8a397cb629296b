"""What the code imports is declared, and the lower end of each range is what `.ci/run` tests."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("composites/**/*.py"), *ROOT.glob("lowering/**/*.py")])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Packages whose import has another name.
DISTRIBUTIONS = {"google": "protobuf", "yaml": "pyyaml"}
# torch_xla's own extension module.
WITHIN_OTHERS = {"_XLAC": "torch_xla"}


def imported(source: str) -> Iterator[str]:
    """The top-level names of the modules that a module imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").split(".")[0]


def distribution(requirement: str) -> str:
    """`ml_dtypes` of `ml_dtypes>=0.5,<0.7`."""
    return re.split(r"[^\w.-]", requirement)[0].lower()


def test_what_is_imported_is_declared() -> None:
    extras = PROJECT["optional-dependencies"].values()
    declared = {distribution(r) for r in sum(extras, PROJECT["dependencies"])}
    names = {name for path in SOURCES for name in imported(path.read_text(encoding="utf-8"))}
    ours = {"composites", "lowering"}
    others = {WITHIN_OTHERS.get(name, name) for name in names - ours - sys.stdlib_module_names}
    assert {DISTRIBUTIONS.get(name, name) for name in others} - declared == set()


def test_the_lower_end_of_each_range_is_tested() -> None:
    lowest = (ROOT / ".ci" / "lowest.txt").read_text(encoding="utf-8")
    pinned = dict(line.split("==") for line in lowest.splitlines() if "==" in line)
    for requirement in PROJECT["dependencies"]:
        version = re.search(r">=([\d.]+)", requirement)
        assert version, requirement
        assert (pinned[distribution(requirement)] + ".").startswith(version[1] + "."), requirement
