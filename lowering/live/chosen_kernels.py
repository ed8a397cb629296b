"""The kernels that a user chooses for a model, and for one of its graphs."""

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from composites.errors import CompositesError, did_you_mean
from lowering import activation
from lowering.export.step import Kernels
from lowering.stablehlo import Module
from lowering.stablehlo.composites import without_version
from lowering.stablehlo.kernels import distinct


def check_names(kernels: Kernels) -> None:
    """Check that kernels are chosen for composites that a graph could have.

    Raises:
        CompositesError: no entry and no decorated function has a composite of a chosen name.
    """
    keys = _keys(kernels)
    if not keys:
        return
    entries = [*activation.catalog(), *(e.entry for e in activation.statistics.entries.values())]
    known = {name for entry in entries for name in (entry.composite_name, entry.backward_name)}
    for key in keys:
        if not _chooses(key, known):
            raise CompositesError(
                f"kernels: there is no composite {key!r}{did_you_mean(key, sorted(known))}; write"
                " the whole name, such as ptxla.gelu"
            )


def select_kernels(kernels: Kernels, module: Module) -> Kernels:
    """The kernels for composites of one graph; the rest are for other graphs of the model."""
    keys = _keys(kernels)
    if not keys:
        return kernels
    called = {call.name for call in distinct(module)}
    chosen = [key for key in keys if _chooses(key, called)]
    if isinstance(kernels, Mapping):
        return {key: kernels[key] for key in chosen}
    return chosen


def _keys(kernels: Kernels) -> list[str]:
    """The names that a choice consists of."""
    if isinstance(kernels, str) or not isinstance(kernels, Collection):
        return []
    return [key for key in kernels if isinstance(key, str)]


def _chooses(key: str, names: Collection[str]) -> bool:
    name = without_version(key, names)
    return any(fnmatchcase(composite, name) for composite in names)
