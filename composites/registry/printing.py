"""Conditions and decompositions to choose as a registry file has them, for `composites show`."""

from __future__ import annotations

from typing import Any

from composites.registry.model import DERIVE, Kernel, When
from composites.registry.samples import samples_of


def conditions_document(when: When) -> dict[str, Any]:
    """The mapping under `when`."""
    conditions: dict[str, Any] = {name: list(values) for name, values in when.values}
    if when.dtypes:
        conditions["dtypes"] = list(when.dtypes)
    if when.ranks:
        conditions["rank"] = list(when.ranks)
    if when.where:
        conditions["where"] = list(when.where)
    return conditions


def kernel_document(kernel: Kernel) -> dict[str, Any]:
    """The mapping under the name of a decomposition to choose."""
    document: dict[str, Any] = {}
    for key in ("goals", "not_for", "only_for"):
        if getattr(kernel, key):
            document[key] = list(getattr(kernel, key))
    if kernel.when:
        document["when"] = conditions_document(kernel.when)
    if kernel.forward is not None:
        document["decomposition"] = str(kernel.forward)
    if kernel.backward is not None or kernel.derives:
        document["backward"] = DERIVE if kernel.derives else str(kernel.backward)
    if kernel.gradients:
        document["gradients"] = list(kernel.gradients)
    if kernel.tolerance:
        document["tolerance"] = dict(kernel.tolerance)
    samples = samples_of(kernel)
    if samples is not None:
        document["samples"] = samples
    return document
