"""The registries that programs read here, and what XLA_COMPOSITE_OP means with them.

`main` runs in a process of its own, because it imports torch and modules of vendors, and writes one
line of JSON. Whatever is wrong becomes data.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from composites.errors import AllowlistError, DecompositionError, RegistryError
from composites.settings import ALLOWLIST, DECOMPOSITION, registry_files
from lowering.cli.doctor.findings import ReadRegistry

if TYPE_CHECKING:
    from composites.registry.catalog import Catalog


@dataclass(frozen=True, slots=True)
class ReadRegistries:
    """What `main` found."""

    registries: Sequence[ReadRegistry]
    left_out: Sequence[tuple[str, str]]
    """Packages whose registry cannot be used, and why."""
    remarks: Sequence[str]
    """What `composites list` warns of beside these packages."""
    unusable: Sequence[tuple[str, str]]
    """Files of XLA_COMPOSITE_REGISTRY that cannot be used, and why."""
    named: Sequence[str]
    """The entries that XLA_COMPOSITE_OP turns on."""
    wrong_names: Sequence[str]
    """What is wrong with XLA_COMPOSITE_OP."""
    wrong_decomposition: str | None
    """What is wrong with XLA_COMPOSITE_DECOMPOSITION."""


def main(file: str) -> None:
    """Read all registries and write what was found to a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the doctor looks at the variables itself
        found = read()
    Path(file).write_text(json.dumps(asdict(found)) + "\n", encoding="utf-8")


def from_json(line: str) -> ReadRegistries:
    """What `main` wrote."""
    found = json.loads(line)
    return ReadRegistries(
        **found | {"registries": tuple(ReadRegistry(**r) for r in found["registries"])}
    )


def read() -> ReadRegistries:
    """Read all registries of this process, leaving out files that cannot be used."""
    catalog, unusable = _catalog()
    named, wrong_names = _allowlist(catalog)
    left_out = [(registry.package, registry.reason) for registry in catalog.left_out]
    known = {str(registry) for registry in catalog.left_out}
    return ReadRegistries(
        registries=tuple(
            ReadRegistry(r.source, r.namespace, len(r.composites), r.package, r.builtin)
            for r in catalog.registries
        ),
        left_out=left_out,
        remarks=[text for text in catalog.warnings() if text not in known],
        unusable=unusable,
        named=named,
        wrong_names=wrong_names,
        wrong_decomposition=_decomposition(catalog),
    )


def _catalog() -> tuple[Catalog, Sequence[tuple[str, str]]]:
    """All registries, without the files that cannot be used, and why these cannot."""
    from composites.registry.catalog import load_catalog

    try:
        return load_catalog(), ()
    except (Exception, SystemExit) as error:
        whole = _reasons("", error)
    unusable = [reason for file in registry_files() for reason in _unusable(file)]
    wrong = {file for file, _ in unusable}
    try:
        return load_catalog([f for f in registry_files() if f not in wrong]), unusable
    except RegistryError as error:  # files that are good by themselves can clash
        return load_catalog(()), [*unusable, *_reasons("", error)] if wrong else whole


def _unusable(file: str) -> Sequence[tuple[str, str]]:
    from composites.registry.validation import load_registry

    try:
        load_registry(file)
    except (Exception, SystemExit) as error:  # also of a vendor's module that an entry names
        return _reasons(file, error)
    return ()


def _reasons(file: str, error: BaseException) -> list[tuple[str, str]]:
    if isinstance(error, RegistryError):
        return [(problem.file, str(problem)) for problem in error.problems]
    named = f"{file}: " if file else ""
    return [(file, f"{named}{type(error).__name__}: {error}")]


def _decomposition(catalog: Catalog) -> str | None:
    """What is wrong with XLA_COMPOSITE_DECOMPOSITION."""
    from composites.decompositions import choose

    try:
        choose(DECOMPOSITION.read(), catalog)
    except DecompositionError as error:
        return str(error)
    return None


def _allowlist(catalog: Catalog) -> tuple[Sequence[str], Sequence[str]]:
    """The entries that XLA_COMPOSITE_OP turns on, and what is wrong with it."""
    from composites.allowlist import resolve, split_allowlist
    from lowering.activation import check_clashes

    items = split_allowlist(ALLOWLIST.read())
    wrong: list[str] = []
    for item in items:
        try:
            resolve([item.removeprefix("-").strip()], catalog)
        except AllowlistError as error:
            wrong.append(str(error))
    if wrong:
        return (), wrong
    try:
        entries = resolve(items, catalog)
        check_clashes(entries, catalog)
    except AllowlistError as error:
        return (), [str(error)]
    return [entry.qualified for entry in entries], ()
