"""The composites of a graph, and whether a consumer can tell them apart."""

from collections.abc import Collection

from lowering.stablehlo import Module
from lowering.stablehlo.composites import composites_of, signature
from lowering.stablehlo.fingerprint import fingerprint


def ambiguous(module: Module, names: Collection[str]) -> tuple[str, ...]:
    """Composites that are written alike, with the same attributes and types, and mean different
    things. A consumer's kernel cannot be right for both."""
    meanings: dict[str, set[str]] = {}
    for composite in composites_of(module.ir):
        made = signature(composite)
        if made.name in names:
            written = f"{made} {made.attributes or '{}'}, version {made.version}"
            meanings.setdefault(written, set()).add(fingerprint(module, composite))
    return tuple(written for written, different in meanings.items() if len(different) > 1)
