"""The environment variables that the project reads, each declared once with its syntax.

| variable | syntax | example |
|---|---|---|
| `XLA_COMPOSITE_OP` | comma-separated names, `namespace.*`, `all` or `-name` | `all,-softmax` |
| `XLA_COMPOSITE_REGISTRY` | registry files, separated as in PATH | `a.yaml:b.yaml` |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable: its name, its meaning, and an example value for help texts."""

    name: str
    meaning: str
    example: str

    def read(self, environment: Mapping[str, str] | None = None) -> str:
        """The variable's text without surrounding blanks; empty if it is not set."""
        return (os.environ if environment is None else environment).get(self.name, "").strip()


ALLOWLIST = Variable(
    "XLA_COMPOSITE_OP",
    "composites to turn on: comma-separated names, namespace.* or all; -name removes one",
    "gelu,softmax",
)
REGISTRIES = Variable(
    "XLA_COMPOSITE_REGISTRY",
    f"vendor registry files, separated by {os.pathsep!r}",
    f"acme.yaml{os.pathsep}other.yaml",
)
VARIABLES = (ALLOWLIST, REGISTRIES)


def registry_files() -> tuple[str, ...]:
    """The files that XLA_COMPOSITE_REGISTRY names, in its order."""
    return tuple(part.strip() for part in REGISTRIES.read().split(os.pathsep) if part.strip())
