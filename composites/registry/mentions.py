"""Composites that sources of compilers mention, compared with the entries of a registry.

A name counts where it is written in quotes. The keys of attributes are found by how they are read
or written: `map["epsilon"]`, `get("epsilon")`, `{"epsilon": …}`, and `composite_attributes` of
StableHLO. A key belongs to the name before it in its file, or else to the first one behind it, so
that a row is a hint for a reader, and no proof.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from composites.registry.model import Composite, Registry

SUFFIXES = frozenset((".c", ".cc", ".cpp", ".h", ".hpp", ".m", ".mlir", ".mm", ".py", ".rs", ".td"))
LARGEST = 2_000_000
"""Bytes of a file that is read; larger ones are data."""

_KEY = re.compile(r"""(?:\[|\b[Gg]et\w*(?:<[\w:]+>)?\(|[{,])\s*["']([a-z]\w*)["']\s*(?=[\]):,}])""")
_ATTRIBUTES = re.compile(r"composite_attributes = \{([^{}]*)\}")
_WRITTEN_KEY = re.compile(r"(?:^|, )(\w+)(?= =)")


Keys = Mapping[str, Mapping[str, str]]
"""Keys of attributes by name, and the first place of each."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A composite, or an attribute of it, that sources mention and a registry lacks, or the other
    way round."""

    composite: str
    attribute: str | None
    is_missing: bool
    """Whether the registry lacks it; otherwise no source mentions it."""
    place: str
    """The first place in the sources, or the entry's place in its file."""


def compare_mentions(registries: Sequence[Registry], folders: Iterable[Path]) -> list[Difference]:
    """Compare the composites of registries with those that the files of folders mention."""
    namespaces = sorted({registry.namespace for registry in registries})
    entries = [entry for registry in registries for entry in registry.composites]
    mentioned: dict[str, str] = {}
    keys: dict[str, dict[str, str]] = {}
    for path in sorted(file for folder in folders for file in folder.rglob("*")):
        if path.suffix in SUFFIXES and path.is_file() and path.stat().st_size <= LARGEST:
            text = path.read_text(encoding="utf-8", errors="replace")
            for name, key, offset in _mentions(text, namespaces):
                place = f"{path}:{text.count(chr(10), 0, offset) + 1}"
                mentioned.setdefault(name, place)
                if key is not None:
                    keys.setdefault(name, {}).setdefault(key, place)
    return [*_missing(entries, mentioned, keys), *_unmentioned(entries, mentioned, keys)]


def _mentions(text: str, namespaces: Iterable[str]) -> Iterator[tuple[str, str | None, int]]:
    """Names, and keys with the name that they belong to, and where each is."""
    either = "|".join(map(re.escape, namespaces))
    quoted = re.compile(rf"""["'`]((?:{either})\.[A-Za-z0-9_.$]*[A-Za-z0-9_$])["'`]""")
    names = [(found.start(), found[1]) for found in quoted.finditer(text)]
    if not names:
        return
    yield from ((name, None, offset) for offset, name in names)
    keys = [(found.start(), found[1]) for found in _KEY.finditer(text)]
    for attributes in _ATTRIBUTES.finditer(text):
        keys += [(attributes.start(), key) for key in _WRITTEN_KEY.findall(attributes[1])]
    starts = [offset for offset, _ in names]
    for offset, key in keys:
        yield names[max(bisect_right(starts, offset) - 1, 0)][1], key, offset


def _missing(
    entries: Iterable[Composite], mentioned: Mapping[str, str], keys: Keys
) -> Iterator[Difference]:
    known: dict[str, set[str]] = {}
    for entry in entries:
        attributes = known.setdefault(entry.composite_name, set())
        attributes.update(attribute.name for attribute in entry.attributes)
    for name, place in sorted(mentioned.items()):
        if name not in known:
            yield Difference(name, None, True, place)
            continue
        for key, where in sorted(keys.get(name, {}).items()):
            if key not in known[name]:
                yield Difference(name, key, True, where)


def _unmentioned(
    entries: Iterable[Composite], mentioned: Mapping[str, str], keys: Keys
) -> Iterator[Difference]:
    for entry in entries:
        name, place = entry.composite_name, str(entry.location)
        if name not in mentioned:
            yield Difference(name, None, False, place)
            continue
        for attribute in entry.attributes:
            if attribute.name not in keys.get(name, {}):
                yield Difference(name, attribute.name, False, place)
