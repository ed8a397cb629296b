"""The kernels of all registry files, as a program without torch can take them.

Nothing here imports torch or the functions that kernels name. Signatures of operators are not
available, so operands that an entry does not list follow from the functions later.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from composites.errors import RegistryError
from composites.registry.builtin import builtin_registry_path
from composites.registry.kernels import (
    KernelsOfFile,
    checked_document,
    kernel_problems,
    rows_of_file,
)
from composites.registry.model import DERIVE, Kernel, split_version
from composites.registry.packages import LeftOut, announced
from composites.registry.pairs import version_of
from composites.settings import registry_files

FAST = "fast"


@dataclass(frozen=True, slots=True)
class ListedKernel:
    """A decomposition to choose, and the parts of its entry that describe its calls."""

    entry: str
    """The name of the entry, with its namespace."""
    composite: str
    """The composite's name in StableHLO."""
    version: int
    operands: tuple[str, ...] | None
    """The operands. None: those arguments of the decomposition that no attribute holds."""
    arguments: tuple[tuple[str, str], ...]
    """Pairs of an argument and the attribute that holds it."""
    results: tuple[int, ...]
    """Numbers of the function's results that the composite returns; empty for all."""
    derives: bool
    """True if the entry has a derived backward, a composite of its own."""
    saves: tuple[str, ...] | None
    """Operands and results that this takes; None for all operands."""
    saved: tuple[str, ...]
    """Further results that it takes."""
    kernel: Kernel

    @property
    def name(self) -> str:
        """The name by which XLA_COMPOSITE_DECOMPOSITION chooses the kernel."""
        return f"{self.entry}={self.kernel.name}"


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
    added = [listed for file in files for listed in _added(file, files)]
    own = [
        listed
        for file in files
        for name in file.document.entries
        for listed in _listed(file, name, file.entry_kernels(name))
    ]
    # A kernel of a file is tried before those of the entry.
    return (*added, *own)


def _all_files() -> list[KernelsOfFile]:
    files = [_read(Path(file)) for file in registry_files()]
    for package in announced():
        if not isinstance(package, LeftOut):
            try:
                files.append(_read(package.path))
            except Exception:  # whatever the file causes; `composites list` says why
                continue
    return [*files, _read(builtin_registry_path())]


def _read(path: Path) -> KernelsOfFile:
    document = checked_document(path)
    if document.problems:
        raise RegistryError(document.problems)
    file = KernelsOfFile(document, rows_of_file(document))
    problems = [
        p for kernel in _of_platforms(file) for p in kernel_problems(kernel, kernel.composite)
    ]
    if problems:
        raise RegistryError(problems)
    return file


def _of_platforms(file: KernelsOfFile) -> tuple[Kernel, ...]:
    own = [kernel for name in file.document.entries for kernel in file.entry_kernels(name)]
    return tuple(kernel for kernel in (*own, *file.for_others) if kernel.platform is not None)


def _listed(file: KernelsOfFile, name: str, kernels: Sequence[Kernel]) -> Iterator[ListedKernel]:
    """The kernels of an entry that are fast decompositions to choose."""
    plain = split_version(name)[0]
    entry, namespace = file.document.entries[name], file.document.namespace
    saves = entry.saves
    for kernel in kernels:
        if FAST in kernel.goals:
            yield ListedKernel(
                entry=f"{namespace}.{plain}",
                composite=f"{namespace}.{entry.composite or plain}",
                version=version_of(name, entry),
                operands=None if entry.operands is None else tuple(entry.operands),
                arguments=tuple(
                    (attribute.from_, key)
                    for key, attribute in entry.attributes.items()
                    if attribute.from_ is not None
                ),
                results=tuple(entry.results),
                derives=entry.backward == DERIVE,
                saves=None if saves is None else tuple(n for n in saves if isinstance(n, str)),
                saved=(
                    *(key for item in saves or () if isinstance(item, dict) for key in item),
                    *entry.intermediates,
                ),
                kernel=kernel,
            )


def _added(file: KernelsOfFile, files: Sequence[KernelsOfFile]) -> Iterator[ListedKernel]:
    """The kernels that a file adds to entries of others."""
    for kernel in file.for_others:
        for other in files:
            namespace, entries = other.document.namespace, other.document.entries
            for name, entry in entries.items() if other is not file else ():
                is_named = f"{namespace}.{split_version(name)[0]}" == kernel.composite
                if is_named and kernel.version in (None, version_of(name, entry)):
                    yield from _listed(other, name, [kernel])
