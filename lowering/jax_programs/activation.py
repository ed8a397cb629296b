"""Turning composites in JAX programs on and off.

This applies to the whole process, as in PyTorch programs. `lowering.requests` combines the requests
of several threads. Entries are turned on separately for JAX programs and PyTorch programs.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import jax

from composites.allowlist import named_entries, resolve
from composites.errors import AllowlistError, UnusableFunctionError
from composites.functions import find_function
from composites.registry.model import BUILTIN_NAMESPACE, Composite
from lowering.activation import catalog
from lowering.import_hook import after_import
from lowering.jax_entries.entries import Entries, entries
from lowering.jax_entries.statistics import statistics
from lowering.jax_entries.surroundings import change_what_is_on
from lowering.jax_programs.catching import Catcher, Claim
from lowering.jax_programs.replacing import ReplacedFunction, ReplacedLocal, find_replaceable
from lowering.requests import Block, Names, Requests, RequestStack
from lowering.stats.collect import collected
from lowering.stats.data import Stats

log = logging.getLogger("composites")


@dataclass(slots=True, eq=False)
class _Installation:
    """The functions that are replaced for a set of entries."""

    replaced: list[ReplacedFunction | ReplacedLocal] = field(default_factory=list)
    waiting: list[Callable[[], object]] = field(default_factory=list)
    """Functions that stop waiting for modules that are not imported yet."""
    removed: bool = False

    def install(self, chosen: Sequence[Composite], entries: Entries) -> None:
        """Replace the functions that the entries catch, now or when their modules are imported."""
        by_target: dict[str, list[Claim]] = {}
        definitions = {d.entry.identity: d for d in entries.definitions}
        for entry in chosen:
            counted = statistics.for_entry(entry)
            for target, adapter in entry.jax:
                claim = Claim(definitions[entry.identity], find_function(adapter), counted)
                by_target.setdefault(target, []).append(claim)
        for target, claims in by_target.items():
            replace = partial(self._replace, target, claims, entries)
            self.waiting.append(after_import(target.partition(":")[0], replace))

    def _replace(self, target: str, claims: Sequence[Claim], entries: Entries) -> None:
        if self.removed:
            return
        try:
            replaceable = find_replaceable(target)
            catcher = Catcher(target, tuple(claims), entries, replaceable.is_compiled)
            self.replaced.append(replaceable.replace(catcher))
        except UnusableFunctionError as error:
            _miss(target, [claim.entry for claim in claims], error)

    def remove(self) -> None:
        """Restore all functions."""
        self.removed = True
        for stop in self.waiting:
            stop()
        while self.replaced:
            self.replaced[-1].restore()
            self.replaced.pop()


def _miss(target: str, claiming: Sequence[Composite], error: UnusableFunctionError) -> None:
    """Warn about a function of built-in entries that cannot be caught in this release.

    Raises:
        AllowlistError: an entry of a vendor names the function.
    """
    for entry in claiming:
        if entry.namespace != BUILTIN_NAMESPACE:
            raise AllowlistError(
                f"{entry.qualified} ({entry.location}): jax: {error}; correct it, or turn the entry"
                f" off with -{entry.name}"
            ) from error
    for entry in claiming:
        log.warning(
            "%s does not catch %s in this release of %s: %s; turn the entry off with -%s to"
            " silence this warning",
            *(entry.qualified, target, target.partition(":")[0].partition(".")[0], error),
            entry.name,
        )


class _ActiveJaxEntries(RequestStack):
    """The entries that are on, and the functions that are replaced for them."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: tuple[Composite, ...] = ()
        self.installation = _Installation()

    def apply(self, requests: Requests) -> None:
        """Turn on the requested entries. If functions cannot be caught, nothing changes."""
        chosen = tuple(d.entry for d in entries().definitions if d.entry.identity in requests.names)
        if chosen != self.entries:
            self.installation.remove()
            try:
                self._install(chosen)
            except BaseException:
                self.installation.remove()
                self._install(self.entries)
                raise
            self.entries = chosen
            # Functions that were traced before contain other composites, or none.
            jax.clear_caches()
            names = ", ".join(entry.identity for entry in chosen) or "none"
            log.info("active in JAX programs: %s", names)
        self.requests = requests

    def _install(self, chosen: Sequence[Composite]) -> None:
        self.installation = _Installation()
        change_what_is_on(tuple(entry.identity for entry in chosen))
        self.installation.install(chosen, entries())


_active = _ActiveJaxEntries()


def stats() -> Stats:
    """The outcomes of the calls of JAX functions that entries catch in this process.

    A call is counted when it is traced. `jax.jit` does not trace a function again for equal types.
    """
    return collected(statistics, active())


def active() -> tuple[str, ...]:
    """Names of the entries whose calls in JAX programs become composites."""
    return tuple(catalog().label(entry) for entry in _active.entries)


def enable(*names: str) -> None:
    """Make calls of JAX functions composites, in addition to those that already are.

    This applies to the whole process. Inside an `enabled` block of the same thread, it lasts until
    the end of the block. Functions that were traced before are traced again.

    Args:
        names: items as in XLA_COMPOSITE_OP: `gelu`, `acme.gelu`, `acme.*`, `all`, `-softmax`.
            Entries without the key `jax` catch nothing in JAX programs.

    Raises:
        AllowlistError: a name is unknown or ambiguous, no entry has the key `jax`, or a function
            that an entry names cannot be caught. Nothing is changed in this case.
        RegistryError: a registry file is invalid.
    """
    _active.enable(_resolved(names))


def disable(*names: str) -> None:
    """Restore JAX functions; without names, all of them.

    Inside an `enabled` block of the same thread, this lasts until the end of the block.

    Raises:
        AllowlistError: a name is unknown or ambiguous. Nothing is changed in this case.
    """
    resolved = resolve(names, catalog(), every_version=True) if names else ()
    _active.disable(frozenset(entry.identity for entry in resolved) if names else None)


@contextmanager
def enabled(*names: str) -> Iterator[None]:
    """Make calls of JAX functions composites for a `with` block; see `enable`. The entries that
    were on before are restored afterwards."""
    with _active.inside(Block(names=_resolved(names))):
        yield


def _resolved(names: Sequence[str]) -> Names:
    resolved = resolve(names, catalog())
    for entry in named_entries(names, catalog()):
        statistics.for_entry(entry).named = True
    if resolved and not any(entry.jax for entry in resolved):
        able = ", ".join(entry.name for entry in catalog() if entry.jax)
        raise AllowlistError(
            f"{', '.join(names)}: no JAX function becomes this composite; choose from {able}, or"
            f" call composites.jax.{resolved[0].name} yourself"
        )
    return frozenset(entry.identity for entry in resolved if entry.jax)
