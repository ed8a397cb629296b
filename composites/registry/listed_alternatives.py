"""The faster alternatives of all registry files, as a program without torch can take them.

Nothing here imports torch or the functions that alternatives name. An operator's signature is not
at hand, so operands that an entry does not list are found from the functions later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from composites.errors import RegistryError
from composites.registry.builtin import builtin_registry_path
from composites.registry.document import CompositeDocument
from composites.registry.kernels import (
    additions,
    alternatives_of_entry,
    checked_document,
    rows_of_file,
)
from composites.registry.model import DERIVE, Addition, Alternative, split_version
from composites.registry.packages import LeftOut, announced
from composites.registry.reading import CheckedDocument
from composites.settings import registry_files

FAST = "fast"


@dataclass(frozen=True, slots=True)
class ListedAlternative:
    """An alternative whose goal is to be fast, and what of its entry says how to call it."""

    entry: str
    """With its namespace."""
    composite: str
    """The composite's name in StableHLO."""
    version: int
    operands: tuple[str, ...] | None
    """None: those arguments of the decomposition that no attribute holds."""
    arguments: tuple[tuple[str, str], ...]
    """Pairs of an argument and the attribute that holds it."""
    results: tuple[int, ...]
    """Numbers of the function's results that the composite returns; empty for all."""
    derives: bool
    """Whether the entry has a derived backward, a composite of its own."""
    saves: tuple[str, ...] | None
    """Operands and results that this takes; None for all operands."""
    saved: tuple[str, ...]
    """Further results that it takes."""
    alternative: Alternative

    @property
    def name(self) -> str:
        """As XLA_COMPOSITE_DECOMPOSITION chooses it."""
        return f"{self.entry}={self.alternative.name}"


@dataclass(frozen=True, slots=True)
class _File:
    document: CheckedDocument
    own: tuple[ListedAlternative, ...]
    additions: tuple[Addition, ...]


def fast_alternatives() -> tuple[ListedAlternative, ...]:
    """The alternatives that `decompositions="fast"` chooses from, of all registries: of files that
    the user has named, of installed packages, and of the project. Packages whose file cannot be
    read are left out.

    Raises:
        RegistryError: with the problems of a file that the user has named.
    """
    files = [_read(Path(file)) for file in registry_files()]
    for package in announced():
        if not isinstance(package, LeftOut):
            try:
                files.append(_read(package.path))
            except RegistryError:  # `composites list` says why
                continue
    files.append(_read(builtin_registry_path()))
    added = [found for file in files for found in _added(file, files)]
    # An alternative of a file is asked before those of the entry.
    return (*added, *(found for file in files for found in file.own))


def _read(path: Path) -> _File:
    document = checked_document(path)
    if document.problems:
        raise RegistryError(document.problems)
    rows = rows_of_file(document, str(path))
    own = [
        listed
        for name, entry in document.entries.items()
        for listed in _of_entry(
            entry,
            document.namespace,
            name,
            alternatives_of_entry(document, name, rows, str(path)),
        )
    ]
    return _File(document, tuple(own), additions(document, rows))


def _of_entry(
    entry: CompositeDocument, namespace: str, name: str, alternatives: Sequence[Alternative]
) -> Iterator[ListedAlternative]:
    plain, version = split_version(name)
    saves = entry.saves
    for alternative in alternatives:
        if FAST in alternative.goals:
            yield ListedAlternative(
                entry=f"{namespace}.{plain}",
                composite=f"{namespace}.{entry.composite or plain}",
                version=entry.version if version is None else version,
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
                alternative=alternative,
            )


def _added(file: _File, files: Sequence[_File]) -> Iterator[ListedAlternative]:
    """What a file adds to entries of others."""
    for addition in file.additions:
        wanted, version = split_version(addition.entry)
        for other in files:
            namespace = other.document.namespace
            for name, entry in other.document.entries.items() if other is not file else ():
                plain, own = split_version(name)
                found = entry.version if own is None else own
                if f"{namespace}.{plain}" == wanted and version in (None, found):
                    yield from _of_entry(entry, namespace, name, addition.alternatives)
