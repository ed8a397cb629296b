"""How many functions of transformers each entry with `copies` catches.

    python -m benchmarks.copies [--all]

Every modeling module of the installed transformers is imported, and searched as it is when the
entries are on. Modules that need packages that are not installed are counted. `--all` lists the
copies.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from composites.registry.catalog import load_catalog
from lowering.copies.search import Search, is_in

PACKAGE = "transformers"


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in a package."""

    version: str
    modules: int
    not_imported: tuple[str, ...]
    copies: tuple[tuple[str, str], ...]
    """Pairs of an entry's name and a function."""


def modeling_modules() -> Iterator[str]:
    """The names of the modules that define models."""
    models = importlib.import_module(f"{PACKAGE}.models")
    for folder in pkgutil.iter_modules(models.__path__):
        package = importlib.import_module(f"{models.__name__}.{folder.name}")
        for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
            if module.name.startswith("modeling_"):
                yield f"{package.__name__}.{module.name}"


def find() -> Found:
    """Import the modules, and search all that are then imported."""
    names = tuple(modeling_modules())
    missing: list[str] = []
    for name in names:
        try:
            with warnings.catch_warnings(action="ignore"):
                importlib.import_module(name)
        except Exception as error:  # a package that is not installed, or a version that is too old
            missing.append(f"{name}: {error}".partition("\n")[0])
    search = Search.of(load_catalog())
    modules = [module for name, module in list(sys.modules.items()) if is_in(name, (PACKAGE,))]
    copies = tuple(
        (entry.name, copy.target)
        for module in modules
        for copy in search.in_module(module)
        for entry in copy.entries
    )
    version = importlib.import_module(PACKAGE).__version__
    return Found(version, len(names), tuple(missing), copies)


def report(found: Found, *, every: bool) -> Iterator[str]:
    """The lines to print."""
    imported = found.modules - len(found.not_imported)
    yield f"transformers {found.version}: {imported} of {found.modules} modeling modules imported"
    yield from (f"not imported: {line}" for line in found.not_imported)
    for name, count in Counter(name for name, _ in found.copies).most_common():
        yield f"{name}: {count} functions"
        if every:
            yield from sorted(f"  {target}" for entry, target in found.copies if entry == name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="list the copies")
    options = parser.parse_args()
    print("\n".join(report(find(), every=options.all)))


if __name__ == "__main__":
    main()
