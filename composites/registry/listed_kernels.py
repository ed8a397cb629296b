"""The kernels of all registry files, as a program without torch can take them.

Nothing here imports torch or the functions that kernels name. Signatures of operators are not
available, so operands that an entry does not list follow from the functions later.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

from composites.errors import CompositesWarning, RegistryError
from composites.registry.builtin import builtin_registry_path
from composites.registry.kernels import (
    RegistryFile,
    check_extended,
    checked_document,
    extended_path,
    kernel_problems,
    rows_of_file,
)
from composites.registry.model import Composite, Kernel, Registry
from composites.registry.packages import LeftOut, announced
from composites.settings import registry_files

FAST = "fast"


@dataclass(frozen=True, slots=True)
class ListedKernel:
    """A decomposition to choose, and its entry, as its file has it. Operands that the entry does
    not list are those arguments of the decomposition that no attribute holds."""

    entry: Composite
    kernel: Kernel

    @property
    def name(self) -> str:
        """The name by which XLA_COMPOSITE_DECOMPOSITION chooses the kernel."""
        return f"{self.entry.qualified}={self.kernel.name}"

    @property
    def saves(self) -> tuple[str, ...] | None:
        """Operands and results that a derived backward takes; None for all operands."""
        further = dict(self.entry.saved)
        saves = self.entry.saves
        return None if saves is None else tuple(name for name in saves if name not in further)


def all_listed() -> tuple[Kernel, ...]:
    """The kernels for platforms of all registries: of files that the user has named, of installed
    packages, and of the project. Packages whose file cannot be read are left out.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    return tuple(kernel for file in _all_files() for kernel in _of_platforms(file))


def listed_in(path: Path) -> tuple[Kernel, ...]:
    """The kernels for platforms of one file. Nothing else of its entries is checked.

    Raises:
        RegistryError: the file cannot be read, or its kernels are wrong.
    """
    return _of_platforms(_read(path))


def fast_kernels() -> tuple[ListedKernel, ...]:
    """The kernels that `decompositions="fast"` chooses from, of all registries, as `all_listed`.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    files = _all_files()
    of_files = [_entries(file) for file in files]
    own = [(entry, kernel) for entries in of_files for entry in entries for kernel in entry.kernels]
    added = [
        (entry, kernel)
        for file, own_entries in zip(files, of_files, strict=True)
        for kernel in file.for_others
        for entries in of_files
        for entry in (entries if entries is not own_entries else ())
        if entry.qualified == kernel.composite and kernel.version in (None, entry.version)
    ]
    # A kernel of a file is tried before those of the entry.
    return tuple(ListedKernel(*pair) for pair in (*added, *own) if FAST in pair[1].goals)


def listed_tolerances(path: Path | None = None) -> dict[tuple[str, int], dict[str, float]]:
    """The tolerances of entries by name and version of their composites, and by element type.
    Derived backwards have those of their entries. Of the entries of one composite in a file, the
    greatest counts, and of files the first.

    Args:
        path: a file that comes before those of all registries, as `all_listed` has them.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    tolerances: dict[tuple[str, int], dict[str, float]] = {}
    for file in (*([] if path is None else [_read(path)]), *_all_files()):
        of_file: dict[tuple[str, int], dict[str, float]] = {}
        for entry in _entries(file):
            for name in (entry.composite_name, *([entry.backward_name] if entry.derives else ())):
                greatest = of_file.setdefault((name, entry.version), {})
                for element_type, limit in entry.tolerance:
                    greatest[element_type] = max(limit, greatest.get(element_type, 0.0))
        tolerances = of_file | tolerances
    return tolerances


def _entries(file: RegistryFile) -> tuple[Composite, ...]:
    """The entries of a file, behind those of other files that it includes.

    Raises:
        RegistryError: another file cannot be included.
    """
    entries: list[Composite] = []
    for name, items in file.document.extends.items():
        line = file.document.text.location("extends", name)
        document = checked_document(extended_path(name, line))
        if document.problems:
            raise RegistryError(document.problems)
        check_extended(document)
        other = RegistryFile(document, rows_of_file(document))
        included = Registry(name, document.namespace, tuple(map(other.entry, document.entries)))
        missing = [item for item in items if not included.named(item.removeprefix("-"))]
        if missing:
            message = f"extends: {name} has no entry {missing[0]!r}"
            raise RegistryError([line.problem(message)])
        entries += included.included(items)
    return (*entries, *map(file.entry, file.document.entries))


def _all_files() -> list[RegistryFile]:
    files = [_read(Path(file)) for file in registry_files()]
    for package in announced():
        if not isinstance(package, LeftOut):
            try:
                files.append(_read(package.path))
            except Exception:  # whatever the file causes; `composites list` says why
                continue
    return [*files, _read(builtin_registry_path())]


def _read(path: Path) -> RegistryFile:
    document = checked_document(path)
    if document.problems:
        raise RegistryError(document.problems)
    file = RegistryFile(document, rows_of_file(document))
    for problem in file.outdated:
        warnings.warn(str(problem), CompositesWarning, stacklevel=2)
    problems = [
        p for kernel in _of_platforms(file) for p in kernel_problems(kernel, kernel.composite)
    ]
    if problems:
        raise RegistryError(problems)
    return file


def _of_platforms(file: RegistryFile) -> tuple[Kernel, ...]:
    own = [kernel for entry in _entries(file) for kernel in entry.kernels]
    return tuple(kernel for kernel in (*own, *file.for_others) if kernel.platform is not None)
