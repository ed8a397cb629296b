"""Where a program finds the modules of this project: shadowed by others, or twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from lowering.cli.doctor.findings import Finding

# Each package has this module in it, and others of that name do not.
_MARKS = {"composites": "allowlist.py", "lowering": "autoload.py"}


def copy_findings(path: Iterable[str]) -> Iterator[Finding]:
    """Findings on the modules that a program with this `sys.path` imports."""
    path = tuple(path)
    for name in _MARKS:
        places = list(_places(name, path))
        ours = [place for place in places if _is_ours(name, place)]
        if not ours:
            yield Finding(
                "problem",
                name,
                "a program that is started here does not find this package",
                f"install it for this Python, or add {Path(__file__).parents[3]} to PYTHONPATH",
            )
        elif places[0] != ours[0]:
            yield Finding(
                "problem",
                name,
                f"{places[0]} is found in place of the package in {ours[0].parent}",
                f"rename {places[0].parent.name if _is_package(places[0]) else places[0].name},"
                " or start the program from another folder",
            )
        elif len(ours) > 1:
            others = ", ".join(str(place.parent) for place in ours[1:])
            yield Finding(
                "warning",
                name,
                f"there are {len(ours)} copies: {ours[0].parent} is used, {others} is not",
                "uninstall one, or take it off PYTHONPATH",
            )
        else:
            yield Finding("ok", name, str(ours[0].parent))


def _places(name: str, path: Iterable[str]) -> Iterator[Path]:
    """The files that the entries of a path have for a module, in their order, each once."""
    seen: set[Path] = set()
    for entry in path:
        spec = PathFinder.find_spec(name, [entry or "."])
        if spec is None or spec.origin is None:  # none, or a folder without `__init__.py`
            continue
        place = Path(spec.origin).resolve()
        if place not in seen:
            seen.add(place)
            yield place


def _is_package(place: Path) -> bool:
    return place.name == "__init__.py"


def _is_ours(name: str, place: Path) -> bool:
    return _is_package(place) and (place.parent / _MARKS[name]).is_file()
