"""Kernels that may replace composites."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from .composites import Signature, by_version, find_composites, ignored_attributes, signature
from .ir_types import IrModule

Kernel: TypeAlias = Callable[..., Any] | str
"""A JAX function, as `bind` takes it, or a target of XLA's typed FFI, as `to_custom_call` does."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel that may take a call."""

    kernel: Kernel
    ignored: Collection[str] = ()
    """Attributes of the call that the kernel ignores."""
    refusal: str | None = None
    """The reason why the kernel does not take the call, if it can be told without calling it."""
    listed_as: str | None = None
    """The kernel's name, if a registry lists it. Such a kernel may return values for a backward
    after the results, which calls without gradients do not have."""
    priority: int = 0
    """The priority of the kernel in the registry."""
    is_alternative: bool = False
    """True for another decomposition, False for a kernel. A decomposition is lowered with 64-bit
    types even if the call has none, as an export lowers it."""

    @property
    def name(self) -> str:
        """The kernel's name for messages."""
        if self.listed_as is not None:
            return self.listed_as
        return self.kernel if isinstance(self.kernel, str) else callable_name(self.kernel)


def named_candidates(
    module: IrModule,
    kernels: Mapping[str, Kernel],
    ignored: Mapping[str, Collection[str]] | None,
) -> dict[Signature, Candidate]:
    """The kernel for each call of a composite that a key of `kernels` names, with the attributes
    that are listed as ignored. Raises the errors of `by_version` and `ignored_attributes`."""
    calls = list(dict.fromkeys(map(signature, find_composites(module))))
    named, left_out = by_version(calls, kernels), ignored_attributes(calls, ignored or {})
    return {
        call: Candidate(named[key], left_out.get(key, ()))
        for call in calls
        if (key := (call.name, call.version)) in named
    }


def callable_name(fn: Callable[..., Any]) -> str:
    """The name of a function for messages."""
    if isinstance(fn, partial):
        return callable_name(fn.func)
    return getattr(fn, "__name__", None) or type(fn).__name__
