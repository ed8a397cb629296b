"""All entries of a process as functions, by name."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from composites.errors import AllowlistError
from composites.registry.catalog import Catalog, load_catalog
from lowering.jax_entries.definition import Definition, definitions
from lowering.jax_entries.functions import EntryFunction


class Entries:
    """The entries of a catalog as functions."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._definitions = {d.entry.identity: d for d in definitions(catalog)}
        self._functions: dict[str, EntryFunction] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries without a namespace, and qualified names of vendors' entries."""
        names: dict[str, None] = {}
        for definition in self._definitions.values():
            names[definition.entry.name] = None
            if not definition.registry.builtin:
                names[definition.entry.qualified] = None
        return tuple(sorted(names))

    @property
    def definitions(self) -> tuple[Definition, ...]:
        return tuple(self._definitions.values())

    def find(self, name: str) -> EntryFunction:
        """The entry with a name, with or without its namespace.

        Raises:
            AllowlistError: there is no such entry, it is an older version, or several vendors have
                one.
        """
        exact = [e for e in self._catalog.find(name) if name in (e.name, e.qualified, e.identity)]
        if not exact:
            raise AllowlistError(
                f"{name!r} is a composite or a group, not an entry; write one of"
                f" {', '.join(e.name for e in self._catalog.find(name))}"
            )
        definition = self._definitions.get(exact[0].identity)
        if definition is None:
            raise AllowlistError(f"{name!r} is an older version; JAX programs have the highest one")
        return self.function(definition)

    def function(self, definition: Definition) -> EntryFunction:
        """The function of a definition."""
        identity = definition.entry.identity
        if identity not in self._functions:
            self._functions[identity] = EntryFunction(definition, self.invoke)
        return self._functions[identity]

    def invoke(self, definition: Definition, named: Mapping[str, Any]) -> Any:
        """Call an entry with the arguments of its operator or function, by name."""
        return self.function(definition).call_operator(named)


@cache
def entries() -> Entries:
    """The entries of this process: built in, from XLA_COMPOSITE_REGISTRY and from installed
    packages."""
    return Entries(load_catalog())
