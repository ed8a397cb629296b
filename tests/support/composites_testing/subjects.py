"""Calls that are compared with stock torch_xla, and the composites that they become."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Subject: TypeAlias = Callable[[], Mapping[str, Any]]
"""Builds tensors (or plain values) on the XLA device, each under the name that a failure shows."""


@dataclass(frozen=True)
class Subjects:
    """Subjects of which the same is expected."""

    calls: Mapping[str, Subject]
    emits: Collection[str]
    """The composites that every subject has in its graph, no more and no less."""
    may: Collection[str] = ()
    """Composites that a subject may have besides."""
    raises: Collection[str] = ()
    """The subjects that raise, the same in both runs."""
    label: str = ""
    """The text before their names, where several tables are compared at once."""

    def unexpected(self, names: Collection[str]) -> bool:
        """Return whether a graph has other composites than those that are expected."""
        emitted = {f"ptxla.{composite}" for composite in self.emits}
        allowed = emitted | {f"ptxla.{composite}" for composite in self.may}
        return not emitted <= set(names) <= allowed
