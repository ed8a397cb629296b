"""Turning composites on and off: from a set of entries to kernels in PyTorch's dispatcher.

Every change takes the same steps: resolve all names, check for clashes, remove the old hooks, and
install the new ones. If a name is wrong, nothing changes.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache

from composites.allowlist import resolve
from composites.errors import AllowlistError, CompositesWarning
from composites.registry.catalog import Catalog, load_catalog
from composites.registry.model import Composite
from composites.registry.operators import find_operator
from composites.settings import ALLOWLIST
from lowering.dispatch import wide_products
from lowering.dispatch.computations import Computations
from lowering.dispatch.dynamo.calls import CompiledCalls
from lowering.frontends.chosen import import_package, is_installed, make_frontend
from lowering.frontends.protocols import Frontend, Kernel, Override
from lowering.installation import install
from lowering.installation.install import Installation

log = logging.getLogger("composites")


@cache
def catalog() -> Catalog:
    """The registries of this process. They are loaded once.

    A package whose registry cannot be used is warned of, since it may have had an entry that
    `gelu` or `all` means.

    Raises:
        RegistryError: a file that XLA_COMPOSITE_REGISTRY names is invalid.
    """
    loaded = load_catalog()
    for text in loaded.warnings():
        warnings.warn(text, CompositesWarning, stacklevel=2)
    return loaded


class _Active:
    """The active entries, and the hooks that are installed for them."""

    def __init__(self) -> None:
        self.entries: tuple[Composite, ...] = ()
        self.installation: Installation | None = None
        self.exporting = False  # graphs for an export hold references to computations

    def change(self, entries: tuple[Composite, ...], exporting: bool | None = None) -> None:
        exporting = self.exporting if exporting is None else exporting
        if (entries, exporting) == (self.entries, self.exporting):
            return
        check_clashes(entries, catalog())
        before = self.entries, self.exporting
        try:
            self._replace(entries, exporting)
        except BaseException:
            self._replace(*before)
            raise
        log.info("active: %s", ", ".join(entry.identity for entry in entries) or "none")

    def _replace(self, entries: tuple[Composite, ...], exporting: bool) -> None:
        if self.installation is not None:
            self.installation.remove()
        self.entries, self.exporting, self.installation = (), exporting, None
        if entries:
            self.installation = _install(entries, exporting)
            self.entries = entries


_active = _Active()


def active() -> tuple[str, ...]:
    """Names of the active composites, as XLA_COMPOSITE_OP takes them.

    A version that the plain name does not mean is named too, as in `acme.gelu@1`.
    """
    return tuple(catalog().label(entry) for entry in _active.entries)


def enable(*names: str) -> None:
    """Turn composites on, in addition to those that are already on.

    Args:
        names: items as in XLA_COMPOSITE_OP: `gelu`, `acme.gelu`, `acme.*`, `all`, `-softmax`.

    Raises:
        AllowlistError: a name is unknown or ambiguous. Nothing is changed in this case.
        RegistryError: a registry file is invalid.
    """
    added = resolve(names, catalog())
    import_package()
    _active.change(_ordered((*_active.entries, *added)))


def disable(*names: str) -> None:
    """Turn composites off, each with its backward, and restore the stock kernels.

    Without names, all composites are turned off.

    Raises:
        AllowlistError: a name, given here or in XLA_COMPOSITE_OP, is unknown or ambiguous. In this
            case nothing is changed.
    """
    if ALLOWLIST.read() and is_installed():
        import_package()  # a later import would turn on again what the variable names
    removed = resolve(names, catalog(), every_version=True) if names else _active.entries
    _active.change(tuple(entry for entry in _active.entries if entry not in removed))


@contextmanager
def enabled(*names: str) -> Iterator[None]:
    """Turn composites on for a `with` block. The previous state is restored afterwards."""
    added = resolve(names, catalog())
    import_package()
    before = _active.entries
    _active.change(_ordered((*before, *added)))
    try:
        yield
    finally:
        _active.change(before)


@contextmanager
def exactly(*names: str) -> Iterator[None]:
    """Have only these composites on for a `with` block. The previous state is restored
    afterwards."""
    entries = resolve(names, catalog())
    import_package()
    with _only(entries, _active.exporting):
        yield


@contextmanager
def all_off() -> Iterator[None]:
    """Have no composites on for a `with` block. The previous state is restored afterwards."""
    with _only((), _active.exporting):
        yield


@contextmanager
def for_export(names: Sequence[str] | None) -> Iterator[None]:
    """Have only these composites on for a `with` block that exports.

    None means the active composites, or all if none is active. Graphs for an export hold references
    to computations, so they do not share computations with graphs that run.
    """
    chosen = None if names is None else resolve(names, catalog())
    import_package()
    entries = _active.entries or resolve(("all",), catalog()) if chosen is None else chosen
    with _only(entries, exporting=True):
        yield


@contextmanager
def _only(entries: tuple[Composite, ...], exporting: bool) -> Iterator[None]:
    before = _active.entries, _active.exporting
    _active.change(entries, exporting)
    try:
        yield
    finally:
        _active.change(*before)


def _ordered(entries: Sequence[Composite]) -> tuple[Composite, ...]:
    wanted = {entry.identity for entry in entries}
    return tuple(entry for entry in catalog() if entry.identity in wanted)


def check_clashes(entries: Sequence[Composite], catalog: Catalog) -> None:
    """Check that no two versions of an entry, and no two vendor entries, claim the same calls.

    Raises:
        AllowlistError: two do.
    """
    _check_versions(entries)
    builtin = {
        id(r) for registry in catalog.registries if registry.builtin for r in registry.composites
    }
    claimed: dict[str, Composite] = {}
    for entry in entries:
        if entry.when or id(entry) in builtin or entry.op is None:
            continue
        other = claimed.setdefault(entry.op, entry)
        if other is not entry:
            raise AllowlistError(
                f"{other.qualified} ({other.location}) and {entry.qualified} ({entry.location})"
                f" both claim every call of {entry.op}; turn one off, or give one a `when`"
            )


def _check_versions(entries: Sequence[Composite]) -> None:
    """Versions of one entry may be on together if their conditions differ. The first one in the
    file then claims the calls that both take."""
    versions: dict[str, list[Composite]] = {}
    for entry in entries:
        for other in versions.setdefault(entry.qualified, []):
            if other.when == entry.when:
                raise AllowlistError(
                    f"{other.identity} ({other.location}) and {entry.identity} ({entry.location})"
                    f" are versions of one entry with the same conditions; turn one off, as with"
                    f" -{other.identity}, or give them different conditions in `when`"
                )
        versions[entry.qualified].append(entry)


@dataclass(frozen=True, slots=True)
class Backend:
    """The frontend of this process, and the kernels of this project's own operators, which stay."""

    frontend: Frontend
    compiled_calls: CompiledCalls
    kernels: tuple[Override, ...]


def backend() -> Backend:
    """The frontend of this process, which keeps the stock kernels.

    Raises:
        MissingPackageError: torch_xla is not installed.
    """
    import_package()
    return _backend()


@cache
def _backend() -> Backend:
    frontend = make_frontend()
    compiled_calls = CompiledCalls()
    compiled_calls.implement(frontend.dispatching.dispatch_key)
    return Backend(frontend, compiled_calls, wide_products.implement(frontend))


@lru_cache(maxsize=4)
def _computations(entries: tuple[Composite, ...], exporting: bool) -> Computations:
    """The computations that were lowered while these entries were on. Decompositions can contain
    other composites, so they depend on the whole set."""
    return Computations()


def _install(entries: tuple[Composite, ...], exporting: bool) -> Installation:
    return install_from(catalog(), entries, _computations(entries, exporting))


def composite_function(entry: Composite, catalog: Catalog) -> Kernel:
    """The composite of an entry with `adapt`, as a function with its decomposition's signature."""
    made = backend()
    return install.composite_function(entry, catalog, made.frontend, made.compiled_calls)


def install_from(
    catalog: Catalog, entries: Sequence[Composite], computations: Computations | None = None
) -> Installation:
    """Install the hooks of entries of a catalog, which need not be that of this process.

    Raises:
        AllowlistError: an entry cannot be turned on.
    """
    caught = {e.op for e in entries if e.op is not None}
    caught |= {name for e in entries for name, _ in e.rewrites if "::" in name}
    operators = {name: find_operator(name) for name in caught}
    made = backend()
    return install.install(
        entries,
        operators,
        catalog,
        made.frontend,
        made.compiled_calls,
        Computations() if computations is None else computations,
    )
