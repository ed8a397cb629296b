"""The built-in registry, and registries that installed packages announce with an entry point.

A package whose registry cannot be found or read must not stop unrelated work. So this module does
not raise errors: problems become values. It does not import torch.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from pathlib import Path

ENTRY_POINT_GROUP = "composites.registries"

_NAMESPACE_LINE = re.compile(r"^namespace:\s*['\"]?([\w.$]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Announced:
    """The registry file that a package announces."""

    package: str
    name: str
    """The name of the entry point."""
    path: Path

    @property
    def namespace(self) -> str:
        """The namespace in the file, even if the rest of the file is not valid."""
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return self.name
        match = _NAMESPACE_LINE.search(text)
        return match[1] if match else self.name


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An installed package whose registry cannot be used. Its entries may be unknown."""

    package: str
    reason: str

    def __str__(self) -> str:
        return f"the registry of the package {self.package} cannot be used: {self.reason}"


def builtin_registry_path() -> Path:
    """Return the built-in registry.yaml, in an installed package or at the root of a checkout."""
    installed = Path(str(files("composites").joinpath("registry.yaml")))
    return installed if installed.exists() else installed.parent.parent / "registry.yaml"


def announced() -> Iterator[Announced | LeftOut]:
    """Yield the announcements of installed packages, sorted by the names of entry points."""
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda p: p.name):
        package = point.dist.name if point.dist else point.value.partition(":")[0]
        try:
            path = _registry_file(point)
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}"
            yield LeftOut(package, f"entry point {point.name} = {point.value}: {reason}")
        else:
            yield Announced(package, point.name, path)


def _registry_file(point: EntryPoint) -> Path:
    """Return the file that an entry point refers to, as a path or as a function that returns a
    path."""
    value: object = point.load()
    value = value() if callable(value) else value
    if not isinstance(value, str | Path):
        raise TypeError(f"must be a path or a function that returns one, not {value!r}")
    return Path(value)
