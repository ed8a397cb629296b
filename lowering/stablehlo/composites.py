"""The composites of a module: finding, comparing and selecting them by name or glob."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from .attributes import to_python
from .bindings import (
    IrAttribute,
    IrModule,
    IrOperation,
    attributes,
    dictionary_items,
    find_operations,
    string_value,
)
from .errors import UnknownCompositeError
from .symbols import COMPOSITE


@dataclass(frozen=True)
class Signature:
    """The properties that make two composite calls interchangeable. Calls with equal signatures
    share code."""

    name: str
    version: int
    attributes: IrAttribute | None
    """The `composite_attributes` dictionary; None if the call has none."""
    operands: tuple[str, ...]
    results: tuple[str, ...]

    def python_attributes(self) -> dict[str, Any]:
        """The attributes as Python values, sorted by name."""
        items = dictionary_items(self.attributes)
        return {name: to_python(items[name]) for name in sorted(items)}

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.operands)}) -> ({', '.join(self.results)})"


def signature(composite: IrOperation) -> Signature:
    """The signature of one `stablehlo.composite` operation."""
    found = attributes(composite)
    version = found.get("version")
    attached = found.get("composite_attributes")
    return Signature(
        name=string_value(found["name"]),
        version=0 if version is None else version.value,
        attributes=attached if attached is not None and len(attached) else None,
        operands=tuple(str(value.type) for value in composite.operands),
        results=tuple(str(value.type) for value in composite.results),
    )


def composites_of(module: IrModule) -> list[IrOperation]:
    """Every composite in the module, including those inside decompositions, in program order."""
    return find_operations(module.operation, COMPOSITE)


def composite_name(composite: IrOperation) -> str:
    """The name of one composite operation, such as `ptxla.gelu`."""
    return string_value(composite.attributes["name"])


def select(existing: Collection[str], patterns: str | Iterable[str]) -> set[str]:
    """The existing names that match any of the given names or globs (`*`, `?`, `[..]`).

    Raises:
        UnknownCompositeError: one of the patterns matches nothing.
    """
    chosen: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        matched = {name for name in existing if fnmatchcase(name, pattern)}
        if not matched:
            raise UnknownCompositeError(pattern, existing)
        chosen |= matched
    return chosen


def require(existing: Collection[str], names: Iterable[str]) -> None:
    """Raise `UnknownCompositeError` for the first name that is not the name of a composite."""
    for name in names:
        if name not in existing:
            raise UnknownCompositeError(name, existing)
