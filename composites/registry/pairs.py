"""Pairs of forward and backward entries of one file, and the keys that follow from the pairs and
need not be written."""

from collections.abc import Iterator, Mapping, Sequence

from composites.registry.document import FORWARD, CompositeDocument
from composites.registry.model import DERIVE, derived_backward, split_version

Entries = Mapping[str, CompositeDocument]
Versions = Mapping[str, Mapping[int, str]]
"""The keys of entries, by name and by version."""


def version_of(key: str, entry: CompositeDocument) -> int:
    """Return the version of an entry, from its name or its key `version`."""
    version = split_version(key)[1]
    return entry.version if version is None else version


def versions_of(entries: Entries) -> Versions:
    """Group entries by name and version. If two entries have the same, the first counts."""
    versions: dict[str, dict[int, str]] = {}
    for key, entry in entries.items():
        named = versions.setdefault(split_version(key)[0], {})
        named.setdefault(version_of(key, entry), key)
    return versions


def backward_of(key: str, entry: CompositeDocument, versions: Versions) -> str | None:
    """Return the entry that `backward` names: the version after `@`, the forward's version, or the
    highest version. None if there is no such entry, or if the backward is derived."""
    if entry.backward in (None, DERIVE):
        return None
    name, version = split_version(entry.backward or "")
    named = versions.get(name, {})
    if version is None and named:
        own = version_of(key, entry)
        version = own if own in named else max(named)
    return None if version is None else named.get(version)


def default_backward(key: str, versions: Versions) -> str | None:
    """Return the backward of an entry without the key `backward`: `gelu_backward` for `gelu`, if
    the file has this entry."""
    name = derived_backward(split_version(key)[0])
    return name if name in versions else None


def with_default_backwards(entries: Entries) -> dict[str, CompositeDocument]:
    """Give entries without the key `backward` their default backward."""
    versions = versions_of(entries)
    return {
        key: entry
        if "backward" in entry.model_fields_set
        else entry.model_copy(update={"backward": default_backward(key, versions)})
        for key, entry in entries.items()
    }


def forwards_of(backward: str, entries: Entries, versions: Versions) -> list[str]:
    """Return the entries whose backward is `backward`."""
    return [k for k, entry in entries.items() if backward_of(k, entry, versions) == backward]


def with_attributes_of_forwards(
    entries: Entries, like_forward: Sequence[str]
) -> tuple[dict[str, CompositeDocument], dict[str, str]]:
    """Give entries the attributes of their forwards.

    Args:
        like_forward: the entries that have `attributes: forward`.

    Returns:
        All entries, and a mistake for each entry that cannot take the attributes.
    """
    versions = versions_of(entries)
    changed, mistakes = dict(entries), {}
    for key in like_forward:
        forwards = forwards_of(key, entries, versions)
        mistake = next(_mistakes(forwards, entries, like_forward), None)
        if mistake is None:
            attributes = entries[forwards[0]].attributes
            changed[key] = entries[key].model_copy(update={"attributes": attributes})
        else:
            mistakes[key] = f"attributes: {FORWARD}: {mistake}; list the attributes"
    return changed, mistakes


def _mistakes(
    forwards: Sequence[str], entries: Entries, like_forward: Sequence[str]
) -> Iterator[str]:
    if not forwards:
        yield "no entry has this one as its backward"
    for key in forwards:
        if key in like_forward:
            yield f"its forward {key!r} has `attributes: {FORWARD}` too"
        elif list(entries[key].attributes.items()) != list(entries[forwards[0]].attributes.items()):
            yield f"its forwards {forwards[0]!r} and {key!r} have different attributes"
