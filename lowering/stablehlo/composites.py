"""The composites of a module: finding, comparing and selecting them by name, version or glob."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, TypeVar

from .attributes import to_python
from .bindings import attributes, dictionary_items, find_operations, string_value
from .errors import AttributeConversionError, CompositeVersionError, UnknownCompositeError
from .ir_types import IrAttribute, IrModule, IrOperation
from .module import Module
from .symbols import COMPOSITE, callees_first, functions, target

T = TypeVar("T")

NameAndVersion: TypeAlias = tuple[str, int]
"""The name and the version by which a compiler matches a composite."""

_REFERENCE = re.compile(r'@("(?:[^"\\]|\\.)*"|[\w$.-]+)')
_WITH_VERSION = re.compile(r"(.+)@(\d+)")


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
    named = attributes(composite)
    version = named.get("version")
    attached = named.get("composite_attributes")
    return Signature(
        name=string_value(named["name"]),
        version=0 if version is None else version.value,
        attributes=attached if attached is not None and len(attached) else None,
        operands=tuple(str(value.type) for value in composite.operands),
        results=tuple(str(value.type) for value in composite.results),
    )


def find_composites(module: IrModule) -> list[IrOperation]:
    """Every composite in the module, including those inside decompositions, in program order."""
    return find_operations(module.operation, COMPOSITE)


def composite_name(composite: IrOperation) -> str:
    """The name of one composite operation, such as `ptxla.gelu`."""
    return string_value(composite.attributes["name"])


def call_counts(module: IrModule, times: Mapping[str, int]) -> dict[tuple[Signature, str], int]:
    """The numbers of calls of composites, by signature and decomposition. `times` are the numbers
    of occurrences of each function's body."""
    by_name = functions(module)
    counts: dict[tuple[Signature, str], int] = {}
    for name in reversed(callees_first(module)):
        for operation in find_operations(by_name[name], COMPOSITE) if times[name] else ():
            key = signature(operation), target(operation)
            counts[key] = counts.get(key, 0) + times[name]
    return counts


def select(existing: Collection[str], patterns: str | Iterable[str]) -> set[str]:
    """The existing names that match any of the names or globs (`*`, `?`, `[..]`).

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


def by_version(
    calls: Iterable[Signature], by_key: Mapping[str, T], *, complete: bool = True
) -> dict[NameAndVersion, T]:
    """The value for each composite of `calls` that a key names.

    A key is a name such as `acme.gelu`, for all versions, or a name with a version, `acme.gelu@2`.
    The key with the version takes precedence.

    Raises:
        UnknownCompositeError: no call has the name.
        CompositeVersionError: a key names a version, and there are calls of other versions only;
            or, if `complete` is True, calls of a version that no key covers.
    """
    versions: dict[str, set[int]] = {}
    for call in calls:
        versions.setdefault(call.name, set()).add(call.version)
    values: dict[NameAndVersion, T] = {}
    exact: dict[NameAndVersion, T] = {}
    for key, value in by_key.items():
        name, version = _parsed(key, versions)
        if name not in versions:
            raise UnknownCompositeError(key, versions)
        if version is None:
            values |= {(name, called): value for called in versions[name]}
        elif version not in versions[name]:
            raise CompositeVersionError(name, version, versions[name])
        else:
            exact[name, version] = value
    values |= exact
    for name, version in exact:
        missing = {called for called in versions[name] if (name, called) not in values}
        if complete and missing:
            raise CompositeVersionError(name, version, missing)
    return values


def without_version(key: str, names: Collection[str]) -> str:
    """The name in a key of `by_version`."""
    return _parsed(key, names)[0]


def _parsed(key: str, names: Collection[str]) -> tuple[str, int | None]:
    matched = None if key in names else _WITH_VERSION.fullmatch(key)
    return (key, None) if matched is None else (matched[1], int(matched[2]))


def ignored_attributes(
    calls: Iterable[Signature], ignored: Mapping[str, Collection[str]]
) -> dict[NameAndVersion, frozenset[str]]:
    """The attributes that are listed as ignored, by name and version.

    Raises:
        UnknownCompositeError: no call has a name in `ignored`.
        AttributeConversionError: no call of that name has a listed attribute.
    """
    existing: dict[str, set[str]] = {}
    calls = list(calls)
    for call in calls:
        existing.setdefault(call.name, set()).update(dictionary_items(call.attributes))
    for key, names in ignored.items():
        name = without_version(key, existing)
        for attribute in sorted(set(names) - existing.get(name, set(names))):
            has = ", ".join(sorted(existing[name])) or "none"
            raise AttributeConversionError(
                f"{key}: no call has the attribute {attribute!r} that is listed as ignored; "
                f"they have: {has}"
            )
    by_composite = by_version(calls, ignored, complete=False)
    return {key: frozenset(names) for key, names in by_composite.items()}


def fingerprint(module: Module, composite: IrOperation) -> str:
    """`sha256:` and the hash of the decomposition of one composite of a module.

    The hash covers the functions that the decomposition refers to. It does not depend on names of
    functions, locations, or the rest of the module.
    """
    text = decomposition_text(module.ir, composite.attributes["decomposition"].value)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def decomposition_text(module: IrModule, name: str) -> str:
    """The text of a function and of functions that it refers to, numbered in order of first use."""
    by_name = functions(module)
    numbers = {name: 0}

    def renamed(match: re.Match[str]) -> str:
        target = match[1].strip('"')
        if target not in by_name:
            return match[0]
        return f"@{numbers.setdefault(target, len(numbers))}"

    texts: list[str] = []
    while len(texts) < len(numbers):
        function = by_name[list(numbers)[len(texts)]]
        text = function.get_asm(enable_debug_info=False, use_local_scope=True)
        texts.append(_REFERENCE.sub(renamed, str(text)))
    return "\n".join(texts)
