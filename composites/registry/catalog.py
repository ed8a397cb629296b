"""All registries of a process: from the project, from files, and from installed packages.

Vendor registries come before the built-in registry, and the files of XLA_COMPOSITE_REGISTRY come
before installed packages. A vendor entry shadows a built-in entry of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from pathlib import Path

from composites.errors import AllowlistError, Problem, RegistryError, did_you_mean
from composites.registry.model import Composite, Registry
from composites.registry.validation import load_registry
from composites.settings import registry_files

ENTRY_POINT_GROUP = "composites.registries"


def builtin_registry_path() -> Path:
    """The built-in registry.yaml, inside an installed package or at the root of a checkout."""
    installed = Path(str(files("composites").joinpath("registry.yaml")))
    return installed if installed.exists() else installed.parent.parent / "registry.yaml"


@dataclass(frozen=True, slots=True)
class Catalog:
    """The registries in the order in which their entries claim calls; the built-in one comes
    last."""

    registries: tuple[Registry, ...]

    def __post_init__(self) -> None:
        sources: dict[str, str] = {}
        for registry in self.registries:
            for entry in registry.composites:
                other = sources.setdefault(entry.qualified, registry.source)
                if other != registry.source:
                    raise RegistryError(
                        [
                            Problem(
                                entry.location.file,
                                entry.location.line,
                                entry.name,
                                f"{entry.qualified} is already defined in {other}; use your own"
                                " namespace",
                            )
                        ]
                    )

    def __iter__(self) -> Iterator[Composite]:
        for registry in self.registries:
            yield from registry.composites

    def qualified(self, name: str) -> Composite | None:
        return next((entry for entry in self if entry.qualified == name), None)

    def shadowed(self, entry: Composite) -> bool:
        """Whether a vendor has an entry with the name of this built-in entry."""
        return any(entry in r.composites for r in self.registries if r.builtin) and any(
            r.get(entry.name) for r in self.registries if not r.builtin
        )

    def backward_of(self, entry: Composite) -> Composite | None:
        if entry.backward is None or entry.derives:
            return None
        return self.qualified(f"{entry.namespace}.{entry.backward}")

    def find(self, name: str) -> tuple[Composite, ...]:
        """The entries that a name, qualified or not, refers to.

        A name can be that of an entry, of a composite that entries produce, or of a group of
        entries.

        Raises:
            AllowlistError: there is no such entry, or several vendors have one and `name` has no
                namespace.
        """
        exact = tuple(e for e in self if name in (e.qualified, e.composite_name))
        if exact:
            return exact
        owners = [r for r in self.registries if r.named(name)]
        vendors = [r for r in owners if not r.builtin]
        if len(vendors) > 1:
            choices = " or ".join(f"{r.namespace}.{name} ({r.source})" for r in vendors)
            raise AllowlistError(f"{name!r} is defined by more than one vendor; write {choices}")
        if not owners:
            raise AllowlistError(self._unknown(name))
        return (vendors or owners)[0].named(name)

    def namespace(self, namespace: str) -> tuple[Composite, ...]:
        """All entries of a namespace.

        Raises:
            AllowlistError: there is no such namespace.
        """
        entries = tuple(entry for entry in self if entry.namespace == namespace)
        if not entries:
            known = sorted({registry.namespace for registry in self.registries})
            raise AllowlistError(
                f"there is no namespace {namespace!r}{did_you_mean(namespace, known)}"
                f" (known: {', '.join(known)})"
            )
        return entries

    def _unknown(self, name: str) -> str:
        known = [entry.name for entry in self] + [entry.qualified for entry in self]
        known += [entry.group for entry in self if entry.group is not None]
        return (
            f"there is no composite {name!r}{did_you_mean(name, known)}"
            "; `composites list` prints them all"
        )


def load_catalog(files: Iterable[str] | None = None) -> Catalog:
    """Load every registry of this process.

    Args:
        files: vendor files; by default the files that XLA_COMPOSITE_REGISTRY names.

    Raises:
        RegistryError: with the problems of all files.
    """
    paths = registry_files() if files is None else tuple(files)
    problems: list[Problem] = []
    registries: list[Registry] = []
    every: tuple[str | Path, ...] = (*paths, *_installed_files(problems))
    for path in every:
        try:
            registries.append(load_registry(path))
        except RegistryError as error:
            problems.extend(error.problems)
    if problems:
        raise RegistryError(problems)
    registries.append(load_registry(builtin_registry_path(), builtin=True))
    return Catalog(tuple(registries))


def _installed_files(problems: list[Problem]) -> Iterator[Path]:
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda p: p.name):
        try:
            yield _registry_file(point)
        except Exception as error:
            owner = point.dist.name if point.dist else "a package"
            message = f"entry point {point.name} = {point.value} of {owner}: {error}"
            problems.append(Problem(point.value, 1, None, message))


def _registry_file(point: EntryPoint) -> Path:
    """The file that an entry point refers to: its value is a path or a function that returns
    one."""
    value: object = point.load()
    value = value() if callable(value) else value
    if not isinstance(value, str | Path):
        raise TypeError(f"must be a path or a function that returns one, not {value!r}")
    return Path(value)
