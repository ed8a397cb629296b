"""Kernels that files list for composites of other registries, checked against their entries.

Only `composites check` does this. A user of the file may lack the registries that it is for, or
have other versions of them.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from composites.contracts.model import Contract
from composites.errors import Problem, did_you_mean
from composites.registry.contracts import backward_contract, forward_contract
from composites.registry.kernels import kernel_problems
from composites.registry.model import Kernel, Registry

_Made = dict[str, dict[int, list[Callable[[], Contract]]]]
"""The contracts of composites, by name and version. Making one imports functions."""


def check_kernels_for_others(
    registry: Registry, registries: Iterable[Registry]
) -> Iterator[Problem | str]:
    """Problems of the kernels that a registry lists for composites of these registries, and
    warnings, as strings."""
    made: _Made = {}
    namespaces = [other.namespace for other in registries]
    for entry in (entry for other in registries for entry in other.composites):
        forward = made.setdefault(entry.composite_name, {}).setdefault(entry.version, [])
        forward.append(partial(forward_contract, entry))
        if entry.derives:
            backward = made.setdefault(entry.backward_name, {}).setdefault(entry.version, [])
            backward.append(partial(backward_contract, entry))
    for kernel in registry.kernels:
        is_known = any(kernel.composite.startswith(f"{namespace}.") for namespace in namespaces)
        if kernel.platform is not None and is_known:
            yield from _check(kernel, made)


def _check(kernel: Kernel, made: _Made) -> Iterator[Problem | str]:
    place, versions = kernel.location, made.get(kernel.composite)
    if versions is None:
        yield f"{place}: kernels: no entry makes {kernel.composite}" + did_you_mean(
            kernel.composite, list(made)
        )
    elif kernel.version is not None and kernel.version not in versions:
        has = ", ".join(map(str, sorted(versions)))
        yield (
            f"{place}: kernels: no entry makes version {kernel.version} of {kernel.composite} (it"
            f" has {has})"
        )
    else:
        meant = versions.values() if kernel.version is None else (versions[kernel.version],)
        attributes = {
            a.name: None for makers in meant for make in makers for a in make().attributes
        }
        yield from kernel_problems(kernel, kernel.composite, list(attributes))
