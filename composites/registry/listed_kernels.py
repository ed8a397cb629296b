"""The kernels of all registry files, for programs without torch.

This module imports neither torch nor the functions of kernels. So signatures of operators are not
available, and operands that an entry does not list are read from the functions later.
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
    """A decomposition to choose, and its entry as it is written in its file. Operands that the
    entry does not list are the arguments of the decomposition that are not attributes."""

    entry: Composite
    kernel: Kernel

    @property
    def name(self) -> str:
        """The name by which XLA_COMPOSITE_DECOMPOSITION chooses the kernel."""
        return f"{self.entry.qualified}={self.kernel.name}"

    @property
    def saves(self) -> tuple[str, ...] | None:
        """The operands and results that a derived backward takes; None for all operands."""
        further = dict(self.entry.saved)
        saves = self.entry.saves
        return None if saves is None else tuple(name for name in saves if name not in further)


def all_listed() -> tuple[Kernel, ...]:
    """Return the kernels for platforms of all registries: of files that the user names, of
    installed packages, and of this project. Packages whose file cannot be read are left out.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    return tuple(kernel for file in _all_files() for kernel in _platform_kernels(file))


def listed_in(path: Path) -> tuple[Kernel, ...]:
    """Return the kernels for platforms of one file. Its entries are not checked.

    Raises:
        RegistryError: the file cannot be read, or its kernels are wrong.
    """
    return _platform_kernels(_read(path))


def fast_kernels() -> tuple[ListedKernel, ...]:
    """Return the kernels among which `decompositions="fast"` chooses, of all registries.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    files = _all_files()
    by_file = [_entries(file) for file in files]
    own = [(entry, kernel) for entries in by_file for entry in entries for kernel in entry.kernels]
    added = [
        (entry, kernel)
        for file, own_entries in zip(files, by_file, strict=True)
        for kernel in file.file_kernels
        for entries in by_file
        for entry in (entries if entries is not own_entries else ())
        if entry.qualified == kernel.composite and kernel.version in (None, entry.version)
    ]
    # Kernels under a file's key `kernels` are tried before the entry's own kernels.
    return tuple(ListedKernel(*pair) for pair in (*added, *own) if FAST in pair[1].goals)


def listed_tolerances(path: Path | None = None) -> dict[tuple[str, int], dict[str, float]]:
    """Return the tolerances of composites, by name and version, and by element type. A derived
    backward has the tolerances of its entry. If several entries of a file produce a composite, the
    greatest tolerance counts; if several files do, the first file counts.

    Args:
        path: a file that comes before the files of all registries; see `all_listed`.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    tolerances: dict[tuple[str, int], dict[str, float]] = {}
    for file in (*([] if path is None else [_read(path)]), *_all_files()):
        limits: dict[tuple[str, int], dict[str, float]] = {}
        for entry in _entries(file):
            for name in (entry.composite_name, *([entry.backward_name] if entry.derives else ())):
                greatest = limits.setdefault((name, entry.version), {})
                for element_type, limit in entry.tolerance:
                    greatest[element_type] = max(limit, greatest.get(element_type, 0.0))
        tolerances = limits | tolerances
    return tolerances


def _entries(file: RegistryFile) -> tuple[Composite, ...]:
    """Return the entries of a file, after the entries that it includes from other files.

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
            except Exception:  # any fault of the file; `composites list` reports it
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
        p for kernel in _platform_kernels(file) for p in kernel_problems(kernel, kernel.composite)
    ]
    if problems:
        raise RegistryError(problems)
    return file


def _platform_kernels(file: RegistryFile) -> tuple[Kernel, ...]:
    own = [kernel for entry in _entries(file) for kernel in entry.kernels]
    return tuple(kernel for kernel in (*own, *file.file_kernels) if kernel.platform is not None)
