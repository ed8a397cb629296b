"""Turning composites on and off: from a set of entries to kernels in PyTorch's dispatcher.

Every change takes the same steps: resolve all names, check for clashes, install the new hooks over
the old ones, and remove the old ones. If a name is wrong, nothing changes. One change is made at a
time, and an interrupt waits until it is complete. `lowering.requests` combines the requests of
several threads.
"""

import logging
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache

from composites.allowlist import named_entries, resolve
from composites.decompositions import Words, choose
from composites.errors import AllowlistError, CompositesWarning, DecompositionError, listed
from composites.registry import model
from composites.registry.alternatives import check_functions
from composites.registry.catalog import Catalog, load_catalog
from composites.registry.model import STOCK, Composite, for_target, without_target
from composites.settings import ALLOWLIST, DECOMPOSITION, warn_of_late_allowlist
from lowering.dispatch.autograd.compiled_calls import CompiledCalls
from lowering.dispatch.computations import Computations
from lowering.dispatch.statistics import Statistics
from lowering.frontends.chosen import import_package, is_installed, make_frontend
from lowering.frontends.protocols import Frontend, Kernel, Override
from lowering.installation import install
from lowering.installation.install import Installation, import_functions
from lowering.requests import Block, Names, Requests, RequestStack

log = logging.getLogger("composites")


@cache
def catalog() -> Catalog:
    """The registries of this process. They are loaded once.

    A package whose registry cannot be used causes a warning, since it may have had an entry that
    `gelu` or `all` means.

    Raises:
        RegistryError: a file that XLA_COMPOSITE_REGISTRY names is invalid.
    """
    loaded = load_catalog()
    for text in loaded.warnings():
        warnings.warn(text, CompositesWarning, stacklevel=2)
    return loaded


_ONE_SCOPE = threading.RLock()
"""Held by a thread inside a block in which nothing else is on, such as an export. Other threads
wait with such blocks of their own."""


class _ActiveEntries(RequestStack):
    """The active entries, and the hooks that are installed for them."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: tuple[Composite, ...] = ()
        # The decompositions of the entries that do not use the stock decomposition.
        self.words: Words = ()
        self.exporting = False  # graphs for an export hold references to computations
        self.installation = Installation()
        # Installations to remove. The list is empty unless a removal failed.
        self.outdated: list[Installation] = []

    def checked(self, requests: Requests) -> Requests:
        """Check that no two entries claim the same calls.

        Raises:
            AllowlistError: two entries claim the same calls.
        """
        if requests.names:
            loaded = catalog()
            check_clashes(_entries(requests.names, loaded), loaded)
        return requests

    def apply(self, requests: Requests) -> None:
        """Turn on the requested entries. If the hooks cannot be installed, nothing changes."""
        # The catalog is not loaded if nothing is on, so an unusable registry does no harm then.
        entries = _entries(requests.names, catalog()) if requests.names else ()
        words = _words(entries, requests.chosen, requests.target) if entries else ()
        exporting = requests.exporting
        if (entries, words, exporting) != (self.entries, self.words, self.exporting):
            new = Installation()
            try:
                if entries:
                    lowered = _computations(entries, words, exporting)
                    _install_from(catalog(), new, entries, lowered, statistics, words)
                (
                    self.outdated, self.installation, self.entries, self.words, self.exporting,
                    self.requests,
                ) = (
                    [*self.outdated, self.installation], new, entries, words, exporting, requests
                )  # fmt: skip
            except BaseException:  # also MemoryError: no hook may stay that `self` does not hold
                if self.installation is not new:
                    new.remove()
                raise
            names = [entry.identity for entry in entries]
            log.info("active: %s", listed(names, 12, "none"))
            if words:
                chosen = (f"{entry}={without_target(word)}" for entry, word in words)
                log.info("decompositions: %s", ", ".join(chosen))
        self.requests = requests
        while self.outdated:
            self.outdated[-1].remove()
            self.outdated.pop()
        if _backend.cache_info().currsize:
            _backend().frontend.dispatching.tidy()


_active = _ActiveEntries()

statistics = Statistics()
"""The outcomes of the calls that reached the hooks of this process."""


def active() -> tuple[str, ...]:
    """Names of the composites that are on in this process, as XLA_COMPOSITE_OP takes them.

    A version that the plain name does not mean is named too, as in `acme.gelu@1`.
    """
    if not _active.entries:
        warn_of_late_allowlist()
    return tuple(catalog().label(entry) for entry in _active.entries)


def has_chosen_decompositions() -> bool:
    """Return whether decompositions were chosen, even stock's."""
    return bool(_active.words or _active.requests.chosen or DECOMPOSITION.read())


def enable(*names: str, decompositions: str | None = None) -> None:
    """Turn composites on, in addition to those that are already on.

    The change acts on the whole process. Inside an `enabled` block of the same thread, it lasts
    until the end of the block. Without torch_xla, composites are part of exports and of
    `torch.compile(…, backend="composites")`.

    Args:
        names: items as in XLA_COMPOSITE_OP: `gelu`, `acme.gelu`, `acme.*`, `all`, `-softmax`.
        decompositions: the decompositions to use, as in XLA_COMPOSITE_DECOMPOSITION: `fast`,
            `small`, `stock`, or `topk=fast`. By default the decompositions that were chosen before,
            or else the decompositions of the variable.

    Raises:
        AllowlistError: a name is unknown or ambiguous. Nothing is changed in this case.
        DecompositionError: a decomposition is unknown, or cannot be used. Nothing is changed.
        RegistryError: a registry file is invalid.
    """
    added, words = _prepared(_resolved(names), decompositions)
    _active.enable(added, words)


def _resolved(names: Sequence[str]) -> tuple[Composite, ...]:
    """The entries that items turn on. Reports explain entries that an item names by itself."""
    entries = resolve(names, catalog())
    for entry in named_entries(names, catalog()):
        statistics.for_entry(entry).named = True
    return entries


def disable(*names: str) -> None:
    """Turn composites off, each with its backward, and restore the stock kernels.

    Without names, all composites are turned off. Inside an `enabled` block of the same thread, this
    lasts until the end of the block. Requests of an `enabled` block of another thread last until
    that block ends.

    Raises:
        AllowlistError: a name, in `names` or in XLA_COMPOSITE_OP, is unknown or ambiguous. Nothing
            is changed in this case.
    """
    if ALLOWLIST.read() and is_installed():
        import_package()  # a later import would turn the variable's entries on again
    _active.disable(_names(resolve(names, catalog(), every_version=True)) if names else None)


@contextmanager
def enabled(*names: str, decompositions: str | None = None) -> Iterator[None]:
    """Turn composites on for a `with` block. The previous state is restored afterwards.

    Blocks of several threads are counted: a composite is on, for the whole process, while any block
    or `enable` requests it. If they choose different `decompositions`, the block that was entered
    last decides.
    """
    added, words = _prepared(_resolved(names), decompositions)
    with _active.inside(Block(names=added, words=words)):
        yield


@contextmanager
def all_off() -> Iterator[None]:
    """Have no composites on for a `with` block. The previous state is restored afterwards."""
    with _ONE_SCOPE, _active.inside(Block(only=True, exporting=_active.exporting)):
        yield


@contextmanager
def for_export(
    names: Sequence[str] | None, decompositions: str | None = None, target: str | None = None
) -> Iterator[None]:
    """Have only these composites on for a `with` block that exports, perhaps for a target.

    None means the active composites with their decompositions, or all if none is active. Graphs for
    an export hold references to computations, so they do not share computations with graphs that
    run. Exports of several threads run one after the other.
    """
    chosen = None if names is None else resolve(names, catalog())
    import_package()
    with _ONE_SCOPE:
        before = {entry.identity: STOCK for entry in _active.entries}
        before |= {identity: without_target(word) for identity, word in _active.words}
        entries = (_active.entries or resolve(("all",), catalog())) if chosen is None else chosen
        requested, words = _prepared(entries, decompositions, before)
        block = Block(names=requested, only=True, exporting=True, target=target, words=words)
        with _active.inside(block):
            yield


def _prepared(
    entries: Sequence[Composite],
    decompositions: str | None,
    before: Mapping[str, str] | None = None,
) -> tuple[Names, Mapping[str, str]]:
    """The names of entries that are about to be turned on, and the decompositions that are chosen
    for them, after all imports that this needs.

    Args:
        before: the decompositions that are chosen where `decompositions` is None.
    """
    import_package()
    import_functions(entries)
    words = {} if before is None else dict(before)
    if decompositions is not None:
        chosen = dict(choose(decompositions, catalog()))
        words = {entry.identity: chosen.get(entry.identity, STOCK) for entry in entries}
    for entry, alternatives in chosen_alternatives(entries, _words(entries, words)):
        for alternative in alternatives:
            check_functions(alternative, entry)
    return _names(entries), words


def chosen_alternatives(
    entries: Sequence[Composite], words: Words
) -> Iterator[tuple[Composite, tuple[model.Kernel, ...]]]:
    """Entries with the alternatives that words choose for them."""
    by_entry = dict(words)
    for entry in entries:
        alternatives = entry.taken(by_entry.get(entry.identity, STOCK))
        if alternatives:
            yield entry, alternatives


def _words(
    entries: Sequence[Composite], requested: Mapping[str, str], target: str | None = None
) -> Words:
    """The decompositions of the entries that do not use the stock decomposition.

    Requests of the program override XLA_COMPOSITE_DECOMPOSITION.

    Args:
        target: the consumer of the recorded programs; None if it is unknown.
    """
    text = DECOMPOSITION.read()
    words = {**(_environment_words(text) if text else {}), **requested}
    pairs = ((entry.identity, words.get(entry.identity, STOCK)) for entry in entries)
    return tuple(
        (identity, word if target is None else for_target(word, target))
        for identity, word in pairs
        if word != STOCK
    )


@cache
def _environment_words(text: str) -> Mapping[str, str]:
    try:
        return dict(choose(text, catalog()))
    except DecompositionError as error:
        raise DecompositionError(f"{DECOMPOSITION.name}={text}: {error}") from None


def _names(entries: Sequence[Composite]) -> Names:
    return frozenset(entry.identity for entry in entries)


def _entries(names: Names, catalog: Catalog) -> tuple[Composite, ...]:
    return tuple(entry for entry in catalog if entry.identity in names)


def check_clashes(entries: Sequence[Composite], catalog: Catalog) -> None:
    """Check that no two versions of an entry, and no two vendor entries, claim the same calls.

    Raises:
        AllowlistError: two entries claim the same calls.
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
    """Check that versions of one entry that are on together have different conditions. The first
    version in the file claims the calls that both take."""
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
    """The frontend of this process. It keeps the stock kernels.

    Raises:
        MissingPackageError: torch_xla is not installed.
    """
    import_package()  # before the lock: a thread with the import's lock may wait for this lock
    with _active.locked():
        return _backend()


@cache
def _backend() -> Backend:
    frontend = make_frontend()
    compiled_calls = CompiledCalls()
    kernels = compiled_calls.implement(frontend.dispatching)
    if frontend.dynamic_sizes is not None:
        frontend.dynamic_sizes(_off_where_sizes_vary)
    return Backend(frontend, compiled_calls, (*kernels, *frontend.own_operators()))


def _off_where_sizes_vary() -> None:
    """Turn all composites off, so that calls with a size that varies take the stock lowering."""
    if active():
        disable()
        warnings.warn(
            "a dimension of a tensor is marked as dynamic. Composites of a traced graph have"
            " fixed sizes, so all composites are off now, and calls take the stock lowering."
            " composites.enable turns them on again; composites.export(dynamic_shapes=…,"
            " frontend='fx') exports composites whose sizes vary",
            CompositesWarning,
            stacklevel=3,
        )


@lru_cache(maxsize=4)
def _computations(entries: tuple[Composite, ...], words: Words, exporting: bool) -> Computations:
    """The computations that were lowered while these entries were on, with these decompositions.
    Decompositions can contain other composites, so they depend on the whole set."""
    return Computations(dict)


def composite_function(entry: Composite, catalog: Catalog) -> Kernel:
    """The composite of an entry with `adapt`, as a function with its decomposition's signature."""
    parts = backend()
    registries = install.registries_by_identity(catalog)
    return install.Installer(registries, parts.frontend, parts.compiled_calls).as_function(entry)


@contextmanager
def installed(
    catalog: Catalog,
    entries: Sequence[Composite],
    counted: Statistics | None = None,
    words: Words = (),
) -> Iterator[None]:
    """Install the hooks of entries of a catalog for a `with` block, before the hooks of the active
    entries. The catalog may differ from the catalog of this process.

    Args:
        counted: the statistics that count the calls of the entries.
        words: the decompositions of the entries.

    Raises:
        AllowlistError: an entry cannot be turned on.
    """
    installation = Installation()
    try:
        counted = Statistics() if counted is None else counted
        _install_from(catalog, installation, entries, Computations(dict), counted, words)
        yield
    finally:
        installation.remove()


def _install_from(
    catalog: Catalog,
    installation: Installation,
    entries: Sequence[Composite],
    computations: Computations,
    counted: Statistics,
    words: Words,
) -> None:
    current = backend()
    install.Installer(
        install.registries_by_identity(catalog),
        current.frontend,
        current.compiled_calls,
        entries,
        computations,
        counted,
        {entry.identity: kernels for entry, kernels in chosen_alternatives(entries, words)},
        installation.overrides,
    ).install()
