"""Compare the composites that sources of compilers mention with the entries of a registry.

A name counts if it is in quotes. Keys of attributes are recognized by how they are read or written:
`map["epsilon"]`, `get("epsilon")`, `{"epsilon": …}`, and `composite_attributes` of StableHLO. A key
is assigned to the nearest name before it, or else to the first name, so a row is a hint, not a
proof. An attribute of an entry counts as mentioned if its key occurs anywhere.
"""

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from composites.registry.model import Composite, Registry

SUFFIXES = frozenset((".c", ".cc", ".cpp", ".h", ".hpp", ".m", ".mlir", ".mm", ".py", ".rs", ".td"))
LARGEST = 2_000_000
"""The greatest size in bytes of a file that is read; larger files are data."""
NEAR = 3_000
"""The greatest number of characters between a name and its keys."""

_KEY = re.compile(r"""(?:\[|\b[Gg]et\w*(?:<[\w:]+>)?\(|[{,])\s*["']([a-z]\w*)["']\s*(?=[\]):,}])""")
_ATTRIBUTES = re.compile(r'composite "([\w.$]+)"[^{]*\{composite_attributes = \{([^{}]*)\}')
_WRITTEN_KEY = re.compile(r"(?:^|, )(\w+)(?= =)")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A composite, or an attribute of a composite, that sources mention and a registry lacks, or
    the other way round."""

    composite: str
    attribute: str | None
    is_missing: bool
    """True if the registry lacks the composite; otherwise no source mentions it."""
    place: str
    """The first location in the sources, or the location of the entry in its file."""


def source_files(folder: Path) -> list[Path]:
    """Return the source files of a folder."""
    files = (path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    return [path for path in files if path.stat().st_size <= LARGEST]


def compare_mentions(registries: Sequence[Registry], files: Iterable[Path]) -> list[Mismatch]:
    """Compare the composites of registries with those that source files mention."""
    either = "|".join(sorted({re.escape(registry.namespace) for registry in registries}))
    quoted = re.compile(rf"""["'`]((?:{either})\.[A-Za-z0-9_.$]*[A-Za-z0-9_$])["'`]""")
    entries = [entry for registry in registries for entry in registry.composites]
    mentioned: dict[str, str] = {}
    keys: dict[str, dict[str, str]] = {}
    anywhere: set[str] = set()
    for path in sorted(files):
        text = path.read_text(encoding="utf-8", errors="replace")
        names = [(match.start(), match[1]) for match in quoted.finditer(text)]
        for offset, name in names:
            mentioned.setdefault(name, _location(path, text, offset))
        for offset, key, owner in _keys(text):
            anywhere.add(key)
            if (owner := owner or _near(names, offset)) is not None:
                keys.setdefault(owner, {}).setdefault(key, _location(path, text, offset))
    return [*_missing(entries, mentioned, keys), *_unmentioned(entries, mentioned, anywhere)]


def _keys(text: str) -> Iterator[tuple[int, str, str | None]]:
    """Yield the positions and texts of keys, with the composite of a key if the text has it."""
    yield from ((match.start(), match[1], None) for match in _KEY.finditer(text))
    for match in _ATTRIBUTES.finditer(text):
        yield from ((match.start(), key, match[1]) for key in _WRITTEN_KEY.findall(match[2]))


def _near(names: Sequence[tuple[int, str]], offset: int) -> str | None:
    """Return the name that is near a key."""
    if not names:
        return None
    position, name = names[max(bisect_right(names, (offset, "")) - 1, 0)]
    return name if abs(position - offset) <= NEAR else None


def _location(path: Path, text: str, offset: int) -> str:
    return f"{path}:{text.count(chr(10), 0, offset) + 1}"


def _missing(
    entries: Iterable[Composite],
    mentioned: Mapping[str, str],
    keys: Mapping[str, Mapping[str, str]],
) -> Iterator[Mismatch]:
    registered: dict[str, set[str]] = {}
    for entry in entries:
        attributes = registered.setdefault(entry.composite_name, set())
        attributes.update(attribute.name for attribute in entry.attributes)
    for name, location in sorted(mentioned.items()):
        if name not in registered:
            yield Mismatch(name, None, True, location)
            continue
        for key, where in sorted(keys.get(name, {}).items()):
            if key not in registered[name]:
                yield Mismatch(name, key, True, where)


def _unmentioned(
    entries: Iterable[Composite], mentioned: Container[str], keys: Container[str]
) -> Iterator[Mismatch]:
    for entry in entries:
        name, location = entry.composite_name, str(entry.location)
        if name not in mentioned:
            yield Mismatch(name, None, False, location)
            continue
        for attribute in entry.attributes:
            if attribute.name not in keys:
                yield Mismatch(name, attribute.name, False, location)
