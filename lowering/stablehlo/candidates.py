"""Kernels that may take the place of composites."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

Kernel: TypeAlias = Callable[..., Any] | str
"""A JAX function, as `bind` takes it, or a target of XLA's typed FFI, as `to_custom_call` does."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel that may take a call."""

    kernel: Kernel
    ignored: Collection[str] = ()
    """Attributes of the call that it ignores."""
    refusal: str | None = None
    """The reason why it does not take the call, if known before it is called."""
    listed_as: str | None = None
    """Its name where a registry lists it. Values for a backward may then follow the results, which
    calls without gradients lack."""
    priority: int = 0
    """The priority of the kernel in the registry."""
    is_alternative: bool = False
    """True if this is another decomposition, and not a kernel. It is then lowered with 64-bit
    types, also where the call has none, as where an export lowers it."""

    @property
    def name(self) -> str:
        """Its name for messages."""
        if self.listed_as is not None:
            return self.listed_as
        return self.kernel if isinstance(self.kernel, str) else callable_name(self.kernel)


def callable_name(fn: Callable[..., Any]) -> str:
    """The name of a function for messages."""
    if isinstance(fn, partial):
        return callable_name(fn.func)
    return getattr(fn, "__name__", None) or type(fn).__name__
