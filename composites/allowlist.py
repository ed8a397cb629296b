"""XLA_COMPOSITE_OP, and the names given to enable(): text to a set of entries.

| item | turns on |
|---|---|
| `gelu` | the entry and its backward, and every other entry that makes the composite `gelu` |
| `matmul_out_dtype` | every entry of a group |
| `acme.gelu` | that vendor's entry and its backward |
| `acme.*` | every entry of a namespace |
| `all` | every entry that no vendor shadows |
| `-softmax`, `-acme.*` | takes the same away, wherever it stands in the list |
"""

from __future__ import annotations

from collections.abc import Iterable

from composites.errors import AllowlistError
from composites.registry.catalog import Catalog
from composites.registry.model import Composite


def split_allowlist(text: str) -> tuple[str, ...]:
    """The comma-separated items of `text`, blanks around them dropped."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def resolve(items: Iterable[str], catalog: Catalog) -> tuple[Composite, ...]:
    """The entries that the items turn on, in the order of the catalog.

    Raises:
        AllowlistError: for an unknown or ambiguous name, or a list that only takes away.
    """
    items = tuple(items)
    added: set[str] = set()
    removed: set[str] = set()
    for item in items:
        target, name = (removed, item[1:].strip()) if item.startswith("-") else (added, item)
        target.update(entry.qualified for entry in _entries(name, catalog))
    if removed and not added:
        given, meant = ",".join(items), ",".join(("all", *items))
        raise AllowlistError(f"{given!r} takes away and turns nothing on; write {meant!r}")
    return tuple(entry for entry in catalog if entry.qualified in added - removed)


def _entries(name: str, catalog: Catalog) -> Iterable[Composite]:
    if name == "all":
        return [entry for entry in catalog if not catalog.shadowed(entry)]
    if name.endswith(".*"):
        return catalog.namespace(name.removesuffix(".*"))
    return [
        related
        for entry in catalog.find(name)
        for related in (entry, catalog.backward_of(entry))
        if related is not None
    ]
