"""The allowlist: from XLA_COMPOSITE_OP, or the names given to enable(), to a set of entries.

| item | meaning |
|---|---|
| `gelu` | the entry, its backward, and every other entry that produces the composite `gelu` |
| `matmul_out_dtype` | every entry of that group |
| `acme.gelu` | the entry of that vendor, and its backward |
| `acme.*` | every entry of that namespace |
| `all` | every entry that no vendor entry shadows |
| `-softmax`, `-acme.*` | removes the same entries, wherever the item appears in the list |
"""

from __future__ import annotations

from collections.abc import Iterable

from composites.errors import AllowlistError
from composites.registry.catalog import Catalog
from composites.registry.model import Composite


def split_allowlist(text: str) -> tuple[str, ...]:
    """Split `text` at commas. Items are stripped and empty ones are dropped."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def resolve(items: Iterable[str], catalog: Catalog) -> tuple[Composite, ...]:
    """The entries that the items turn on, in the order of the catalog.

    Raises:
        AllowlistError: a name is unknown or ambiguous, or the list only removes entries.
    """
    items = tuple(items)
    added: set[str] = set()
    removed: set[str] = set()
    for item in items:
        target, name = (removed, item[1:].strip()) if item.startswith("-") else (added, item)
        target.update(entry.qualified for entry in _entries(name, catalog))
    if removed and not added:
        given, meant = ",".join(items), ",".join(("all", *items))
        raise AllowlistError(f"{given!r} only removes entries and turns none on; write {meant!r}")
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
