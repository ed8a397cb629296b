"""Check the kernels that a file lists for composites of other registries.

Only `composites check` does this. Users of the file may lack these registries, or have other
versions of them.
"""

from collections.abc import Callable, Iterable, Iterator

from composites.contracts.model import Contract
from composites.errors import Problem, did_you_mean
from composites.registry.contracts import backward_contract, forward_contract
from composites.registry.kernels import kernel_problems
from composites.registry.model import Composite, Kernel, Registry

_Made = dict[str, list[tuple[Composite, Callable[[Composite], Contract]]]]
"""Entries, and the functions that make their contracts, by composite. Making a contract imports
functions."""


def check_kernels_for_others(
    registry: Registry, registries: Iterable[Registry]
) -> Iterator[Problem | str]:
    """Yield the problems of the kernels that a registry lists for composites of other registries,
    and warnings as strings."""
    made: _Made = {}
    namespaces = [other.namespace for other in registries]
    for entry in (entry for other in registries for entry in other.composites):
        made.setdefault(entry.composite_name, []).append((entry, forward_contract))
        if entry.derives:
            made.setdefault(entry.backward_name, []).append((entry, backward_contract))
    for kernel in registry.kernels:
        is_loaded = any(kernel.composite.startswith(f"{namespace}.") for namespace in namespaces)
        if kernel.platform is not None and is_loaded:
            yield from _check(kernel, made)


def _check(kernel: Kernel, made: _Made) -> Iterator[Problem | str]:
    message, pairs = f"{kernel.location}: kernels: no entry makes", made.get(kernel.composite, [])
    meant = [pair for pair in pairs if kernel.version in (None, pair[0].version)]
    if not pairs:
        yield f"{message} {kernel.composite}{did_you_mean(kernel.composite, list(made))}"
    elif not meant:
        has = ", ".join(map(str, sorted({entry.version for entry, _ in pairs})))
        yield f"{message} version {kernel.version} of {kernel.composite} (it has {has})"
    else:
        attributes = {a.name: None for entry, make in meant for a in make(entry).attributes}
        yield from kernel_problems(kernel, kernel.composite, list(attributes))
