"""Print a registry as YAML. Reading the printed text gives the same registry."""

from __future__ import annotations

from typing import Any

import yaml

from composites.registry.model import Attribute, Composite, Registry, Tensor


def registry_yaml(registry: Registry) -> str:
    """The whole registry as YAML, with every default written out."""
    document = {
        "schema": 1,
        "namespace": registry.namespace,
        "composites": {registry.key(entry): entry_document(entry) for entry in registry.composites},
    }
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
    conditions: dict[str, Any] = {name: list(values) for name, values in entry.when.values}
    if entry.when.dtypes:
        conditions["dtypes"] = list(entry.when.dtypes)
    if entry.when.ranks:
        conditions["rank"] = list(entry.when.ranks)
    if entry.when.where:
        conditions["where"] = list(entry.when.where)
    if conditions:
        document["when"] = conditions
    document["decomposition"] = str(entry.decomposition)
    if entry.backward is not None:
        document["backward"] = entry.backward
    if entry.adapt is not None:
        document["adapt"] = entry.adapt
    if entry.saves is not None:
        targets = dict(entry.saved)
        document["saves"] = [{n: targets[n]} if n in targets else n for n in entry.saves]
    if entry.results:
        document["results"] = list(entry.results)
    if entry.gradients:
        document["gradients"] = list(entry.gradients)
    if entry.group is not None:
        document["group"] = entry.group
    if entry.rewrites:
        document["rewrites"] = dict(entry.rewrites)
    if entry.example:
        document["example"] = {name: _plain(value) for name, value in entry.example}
    if entry.samples is not None:
        document["samples"] = entry.samples
    return document


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
