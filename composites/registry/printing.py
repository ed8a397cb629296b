"""Print a registry as YAML. Reading the printed text gives the same registry."""

from __future__ import annotations

from typing import Any

import yaml

from composites.registry.model import (
    DERIVE,
    Attribute,
    Composite,
    Kernel,
    Registry,
    Tensor,
    When,
)


def registry_yaml(registry: Registry) -> str:
    """The whole registry as YAML, with every default written out."""
    document: dict[str, Any] = {
        "schema": 1,
        "namespace": registry.namespace,
        "composites": {registry.key(entry): entry_document(entry) for entry in registry.composites},
    }
    kernels: dict[str, Any] = {}
    for kernel in registry.kernels:
        name = kernel.composite
        if kernel.platform is None and kernel.version is not None:
            name = f"{name}@{kernel.version}"
        _add(kernel, kernels.setdefault(name, {}))
    if kernels:
        document["kernels"] = kernels
    return yaml.safe_dump(document, sort_keys=False, width=100)


def entry_document(entry: Composite) -> dict[str, Any]:
    """One entry as the mapping under its name."""
    document: dict[str, Any] = {}
    if entry.op is not None:
        document["op"] = entry.op
    if entry.functions:
        document["function"] = list(entry.functions)
    if entry.copies:
        document["copies"] = list(entry.copies)
    if entry.composite != entry.name:
        document["composite"] = entry.composite
    document |= {"version": entry.version, "operands": list(entry.operands)}
    if entry.attributes:
        document["attributes"] = {a.name: _attribute(a) for a in entry.attributes}
    if entry.when:
        document["when"] = _conditions(entry.when)
    document["decomposition"] = str(entry.decomposition)
    if entry.backward is not None:
        document["backward"] = entry.backward
    if entry.adapt is not None:
        document["adapt"] = entry.adapt
    if entry.saves is not None:
        targets, inner = dict(entry.saved), entry.intermediates
        listed = [name for name in entry.saves if name not in inner]
        document["saves"] = [{n: targets[n]} if n in targets else n for n in listed]
        if inner:
            document["intermediates"] = list(inner)
    if entry.results:
        document["results"] = list(entry.results)
    if entry.gradients:
        document["gradients"] = list(entry.gradients)
    if entry.group is not None:
        document["group"] = entry.group
    if entry.fuses is not None:
        document["fuses"] = entry.fuses
    if entry.rewrites:
        document["rewrites"] = dict(entry.rewrites)
    if entry.jax:
        document["jax"] = dict(entry.jax)
    if entry.example:
        document["example"] = {name: _plain(value) for name, value in entry.example}
    if entry.samples is not None:
        document["samples"] = entry.samples
    if entry.kernels:
        document["kernels"] = {}
        for kernel in entry.kernels:
            _add(kernel, document["kernels"])
    return document


def _add(kernel: Kernel, kernels: dict[str, Any]) -> None:
    """Write a kernel into the mapping that has those of its entry or composite."""
    if kernel.platform is None:
        kernels[kernel.name] = _to_choose(kernel)
    else:
        kernels.setdefault(kernel.platform, []).append(_for_platform(kernel))


def _for_platform(kernel: Kernel) -> dict[str, Any]:
    document: dict[str, Any] = {"target" if kernel.is_target else "function": kernel.name}
    for key in ("library", "version"):
        if getattr(kernel, key) is not None:
            document[key] = getattr(kernel, key)
    if kernel.operands:
        document["operands"] = list(kernel.operands)
    if kernel.when:
        document["when"] = _conditions(kernel.when)
    if kernel.ignores:
        document["ignores"] = list(kernel.ignores)
    if kernel.priority:
        document["priority"] = kernel.priority
    return document


def _to_choose(kernel: Kernel) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key in ("goals", "not_for", "only_for"):
        if getattr(kernel, key):
            document[key] = list(getattr(kernel, key))
    if kernel.when:
        document["when"] = _conditions(kernel.when)
    if kernel.forward is not None:
        document["decomposition"] = str(kernel.forward)
    if kernel.backward is not None or kernel.derives:
        document["backward"] = DERIVE if kernel.derives else str(kernel.backward)
    if kernel.gradients:
        document["gradients"] = list(kernel.gradients)
    if kernel.tolerance:
        document["tolerance"] = dict(kernel.tolerance)
    if kernel.samples is not None:
        document["samples"] = kernel.samples
    return document


def _conditions(when: When) -> dict[str, Any]:
    conditions: dict[str, Any] = {name: list(values) for name, values in when.values}
    if when.dtypes:
        conditions["dtypes"] = list(when.dtypes)
    if when.ranks:
        conditions["rank"] = list(when.ranks)
    if when.where:
        conditions["where"] = list(when.where)
    return conditions


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return str(value)
    return [*map(_plain, value)] if isinstance(value, tuple) else value


def _attribute(attribute: Attribute) -> dict[str, Any]:
    if attribute.argument is None:
        document: dict[str, Any] = {"value": _plain(attribute.value)}
    else:
        document = {"from": attribute.argument}
    if attribute.type is not None:
        document["type"] = attribute.type
    if attribute.normalize:
        document["normalize"] = "dim"
    if attribute.optional:
        document["optional"] = True
    return document
