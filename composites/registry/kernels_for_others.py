"""Kernels that files list for composites of other registries, checked against their entries.

Only `composites check` does this. A user of the file may lack the registries that it is for, or
have other versions of them.
"""

from collections.abc import Callable, Iterable, Iterator

from composites.contracts.model import Contract
from composites.errors import Problem, did_you_mean
from composites.registry.contracts import backward_contract, forward_contract
from composites.registry.kernels import kernel_problems
from composites.registry.model import Composite, Kernel, Registry

_Made = dict[str, list[tuple[Composite, Callable[[Composite], Contract]]]]
"""Entries and the functions that make contracts of them, by the names of composites. Making one
imports functions."""


def check_kernels_for_others(
    registry: Registry, registries: Iterable[Registry]
) -> Iterator[Problem | str]:
    """Problems of the kernels that a registry lists for composites of these registries, and
    warnings, as strings."""
    made: _Made = {}
    namespaces = [other.namespace for other in registries]
    for entry in (entry for other in registries for entry in other.composites):
        made.setdefault(entry.composite_name, []).append((entry, forward_contract))
        if entry.derives:
            made.setdefault(entry.backward_name, []).append((entry, backward_contract))
    for kernel in registry.kernels:
        is_known = any(kernel.composite.startswith(f"{namespace}.") for namespace in namespaces)
        if kernel.platform is not None and is_known:
            yield from _check(kernel, made)


def _check(kernel: Kernel, made: _Made) -> Iterator[Problem | str]:
    place, pairs = f"{kernel.location}: kernels: no entry makes", made.get(kernel.composite, [])
    meant = [pair for pair in pairs if kernel.version in (None, pair[0].version)]
    if not pairs:
        yield f"{place} {kernel.composite}{did_you_mean(kernel.composite, list(made))}"
    elif not meant:
        has = ", ".join(map(str, sorted({entry.version for entry, _ in pairs})))
        yield f"{place} version {kernel.version} of {kernel.composite} (it has {has})"
    else:
        attributes = {a.name: None for entry, make in meant for a in make(entry).attributes}
        yield from kernel_problems(kernel, kernel.composite, list(attributes))
