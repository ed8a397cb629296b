"""The allowlist: from XLA_COMPOSITE_OP, or the arguments of enable(), to a set of entries.

| item | meaning |
|---|---|
| `gelu` | the entry, its backward, and every other entry that produces the composite `gelu` |
| `matmul_out_dtype` | every entry of that group |
| `acme.gelu` | the entry of that vendor, and its backward |
| `acme.gelu@1` | that version of the entry, instead of the highest one |
| `acme.*` | every entry of that namespace |
| `all` | every entry that no vendor entry shadows |
| `-softmax`, `-acme.*` | removes the same entries in all versions, wherever the item appears |

Removing an entry also removes the entries that fuse its calls, unless an item names them.

An item without a version means the highest version of each entry.
"""

from collections.abc import Iterable, Set

from composites.errors import AllowlistError
from composites.registry.catalog import Catalog
from composites.registry.model import Composite, split_version


def split_allowlist(text: str) -> tuple[str, ...]:
    """Split `text` at commas. Items are stripped, and empty items are dropped."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def resolve(
    items: Iterable[str], catalog: Catalog, *, every_version: bool = False
) -> tuple[Composite, ...]:
    """Return the entries that the items turn on, in the order of the catalog.

    Args:
        every_version: an item without a version means all versions of an entry, as when entries are
            turned off.

    Raises:
        AllowlistError: a name is unknown or ambiguous, or the list only removes entries.
    """
    items = tuple(items)
    wrong = [item for item in items if not isinstance(item, str) or "," in item]
    if wrong:
        raise AllowlistError(
            f"{wrong[0]!r} is not one name; give names one by one, as in enable('gelu', 'softmax')"
        )
    added: set[str] = set()
    exact: dict[str, set[str]] = {}
    removed: set[str] = set()
    for item in items:
        if item.startswith("-"):
            entries = _entries(item[1:].strip(), catalog, every_version=True)
            removed.update(entry.identity for entry in entries)
            continue
        entries = _entries(item, catalog, every_version=every_version)
        if split_version(item)[1] is None:
            added.update(entry.identity for entry in entries)
        else:
            for entry in entries:
                exact.setdefault(entry.qualified, set()).add(entry.identity)
    if removed and not added and not exact:
        written, meant = ",".join(items), ",".join(("all", *items))
        raise AllowlistError(f"{written!r} only removes entries and turns none on; write {meant!r}")
    removed |= _fusing(removed, catalog).difference(
        entry.identity for entry in named_entries(items, catalog)
    )
    return tuple(
        entry
        for entry in catalog
        if entry.identity in exact.get(entry.qualified, added) and entry.identity not in removed
    )


def _fusing(removed: Set[str], catalog: Catalog) -> set[str]:
    """Return the identities of the entries that fuse calls of the removed entries."""
    names = {entry.qualified for entry in catalog if entry.identity in removed}
    return {
        entry.identity
        for entry in catalog
        if entry.fuses is not None and f"{entry.namespace}.{entry.fuses}" in names
    }


def named_entries(items: Iterable[str], catalog: Catalog) -> tuple[Composite, ...]:
    """Return the entries that items name explicitly, and their backward entries.

    Entries that only `all` turns on are left out, and so are entries that only produce the
    composite of that name. `acme.*` names all entries of a vendor.
    """
    named: list[Composite] = []
    for item in items:
        if item == "all" or item.startswith("-"):
            continue
        if item.endswith(".*"):
            vendors = [registry for registry in catalog.registries if not registry.builtin]
            identities = {entry.identity for registry in vendors for entry in registry.composites}
            entries = catalog.namespace(item.removesuffix(".*"))
            named += [entry for entry in entries if entry.identity in identities]
            continue
        for entry in catalog.find(item):
            if split_version(item)[0] in (entry.name, entry.qualified):
                backward = catalog.backward_of(entry)
                named += [entry] if backward is None else [entry, backward]
    return tuple(named)


def _entries(name: str, catalog: Catalog, *, every_version: bool) -> Iterable[Composite]:
    if name != "all" and not name.endswith(".*"):
        find = catalog.versions if every_version else catalog.find
        return [
            related
            for entry in find(name)
            for related in (entry, catalog.backward_of(entry))
            if related is not None
        ]
    if name == "all":
        entries = tuple(entry for entry in catalog if not catalog.shadowed(entry))
    else:
        entries = catalog.namespace(name.removesuffix(".*"))
    return entries if every_version else catalog.highest(entries)
