"""The kernels of all registry files, for programs without torch.

This module imports neither torch nor the functions of kernels. So signatures of operators are not
available, and operands that an entry does not list are read from the functions later.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

from composites.errors import CompositesWarning, RegistryError
from composites.registry.kernels import kernel_problems, unchecked_registry
from composites.registry.model import KERNEL_PLATFORMS, Composite, Kernel, Registry
from composites.registry.packages import LeftOut, announced, builtin_registry_path
from composites.registry.reading import read_document
from composites.registry.yaml_text import registry_text
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
    return tuple(kernel for registry in _all_registries() for kernel in registry.platform_kernels)


def kernel_platforms() -> tuple[str, ...]:
    """Return the platforms that jax names, and those that a registry lists kernels for.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    listed = (str(kernel.platform) for kernel in all_listed())
    return tuple(dict.fromkeys((*KERNEL_PLATFORMS, *listed)))


def listed_in(path: Path) -> tuple[Kernel, ...]:
    """Return the kernels for platforms of one file. Its entries are not checked.

    Raises:
        RegistryError: the file cannot be read, or its kernels are wrong.
    """
    return _read(path).platform_kernels


def fast_kernels() -> tuple[ListedKernel, ...]:
    """Return the kernels among which `decompositions="fast"` chooses, of all registries.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    registries = _all_registries()
    own = [(e, k) for registry in registries for e in registry.composites for k in e.kernels]
    added = [
        (entry, kernel)
        for registry in registries
        for kernel in registry.kernels
        for other in registries
        for entry in (other.composites if other is not registry else ())
        if entry.qualified == kernel.composite and kernel.version in (None, entry.version)
    ]
    # Kernels under a file's key `kernels` are tried before the entry's own kernels.
    return tuple(ListedKernel(*pair) for pair in (*added, *own) if FAST in pair[1].goals)


def listed_tolerances(path: Path | None = None) -> dict[tuple[str, int], dict[str, float]]:
    """Return the tolerances of composites, by name and version, and by element type. A derived
    backward has the tolerances of its entry. If several entries of a file produce a composite, the
    greatest tolerance counts; if several files do, the first file counts.

    Args:
        path: a file that comes before all registries; see `all_listed`.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    tolerances: dict[tuple[str, int], dict[str, float]] = {}
    for registry in (*([] if path is None else [_read(path)]), *_all_registries()):
        limits: dict[tuple[str, int], dict[str, float]] = {}
        for entry in registry.composites:
            for name in entry.produced:
                greatest = limits.setdefault((name, entry.version), {})
                for element_type, limit in entry.tolerance:
                    greatest[element_type] = max(limit, greatest.get(element_type, 0.0))
        tolerances = limits | tolerances
    return tolerances


def _all_registries() -> list[Registry]:
    registries = [_read(Path(file)) for file in registry_files()]
    for package in announced():
        if not isinstance(package, LeftOut):
            try:
                registries.append(_read(package.path))
            except Exception:  # any fault of the file; `composites list` reports it
                continue
    return [*registries, _read(builtin_registry_path())]


def _read(path: Path) -> Registry:
    """Read a registry whose kernels for platforms are checked.

    Raises:
        RegistryError: the file cannot be read, or its kernels are wrong.
    """
    registry = unchecked_registry(read_document(registry_text(path), str(path)))
    for problem in registry.outdated:
        warnings.warn(str(problem), CompositesWarning, stacklevel=2)
    kernels = registry.platform_kernels
    problems = [p for kernel in kernels for p in kernel_problems(kernel, kernel.composite)]
    if problems:
        raise RegistryError(problems)
    return registry
