"""Kernels of this project in PyTorch's dispatcher, also while other threads call operators.

Calls read the dispatcher's table without a lock (torch 2.9). Removing a kernel that another thread
is about to call, or is running, ends the process. So kernels are only removed while no other thread
runs. Otherwise the operator gets one standing kernel, which calls the current kernel; Python's own
lock makes changing the latter safe. The standing kernel is removed with the next change that is
made while no other thread runs.
"""

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from composites import torch_internals
from composites.torch_internals import DispatchKeySet
from lowering.frontends.protocols import Dispatching, Kernel

OPERATOR_NAMESPACE = "composites"
"""Namespace of this project's own operators."""


def keys_from(dispatching: Dispatching, dispatch_key: str) -> DispatchKeySet:
    """The dispatch keys of a plain tensor of a frontend, from `dispatch_key` downwards."""
    # ADInplaceOrView is left out. It only has kernels for operators that write to an argument or
    # return a view, which no entry can catch. For other operators, it has a fallthrough, which must
    # not be called.
    order = (dispatching.autograd_key, dispatching.functionalization_key, dispatching.dispatch_key)
    return torch_internals.key_set(*order[order.index(dispatch_key) :])


@dataclass(slots=True)
class Stack:
    """The kernels of this project for an operator at a dispatch key."""

    operator: str
    """Qualified name."""
    dispatch_key: str
    with_keyset: bool
    """True if kernels take the dispatch keys as their first argument."""
    stock: Kernel
    """The kernel that runs when no kernel of this project is current."""
    overload: Any = None
    """The `torch.ops` overload of the operator; None for one of this project's own operators."""
    kernels: "list[OverridingKernel]" = field(default_factory=list)
    """Overriding kernels, of which the last is current."""
    standing: torch.library.Library | None = None
    """The library of the standing kernel."""
    outdated: list[torch.library.Library] = field(default_factory=list)
    """Libraries that could not be removed yet. Their kernels are not called any more."""

    def override(self, kernel: Kernel) -> "OverridingKernel":
        """Make a kernel current. If this fails, the kernel is removed completely."""
        override = OverridingKernel(self, kernel)
        try:
            self.kernels = [*self.kernels, override]
            if self.standing is None and _alone():
                override.library = self._registered(kernel)
            else:
                self._stand()
            return override
        except BaseException:
            self.remove(override)
            raise

    def remove(self, override: "OverridingKernel") -> None:
        """Remove a kernel. The kernel below it becomes current. After an error, call this again."""
        if override.library is not None and not _alone():
            self._stand()
        self.kernels = [kernel for kernel in self.kernels if kernel is not override]
        if override.library is not None:
            if override.library not in self.outdated:
                self.outdated.append(override.library)
            override.library = None
        self.tidy()

    def tidy(self) -> None:
        """Remove registrations that are no longer needed, if no other thread runs."""
        unused = self.standing is not None and not self.kernels
        if not (self.outdated or unused) or not _alone():
            return
        while self.outdated:
            torch_internals.remove_library(self.outdated[-1])
            self.outdated.pop()
        if self.standing is not None and unused:
            torch_internals.remove_library(self.standing)
            self.standing = None
        self._forget()

    def abandon(self) -> None:
        """Remove all kernels of an operator that was redefined, and that nothing calls any more."""
        self.kernels = []
        libraries = [*self.outdated, *([self.standing] if self.standing is not None else [])]
        self.outdated, self.standing = [], None
        for library in libraries:
            torch_internals.remove_library(library)

    def _stand(self) -> None:
        """Register the standing kernel."""
        if self.standing is not None:
            return

        def standing(*arguments: Any, **keywords: Any) -> Any:
            kernels = self.kernels
            called = kernels[-1].kernel if kernels else self.stock
            return called(*arguments, **keywords)

        torch_internals.keep_dynamo_out(standing)
        self.standing = self._registered(standing)

    def _registered(self, kernel: Kernel) -> torch.library.Library:
        """Register a kernel over an existing one. If this fails, nothing stays registered."""
        namespace, _, name = self.operator.partition("::")
        library = torch.library.Library(namespace, "IMPL")
        try:
            with warnings.catch_warnings():  # "Overriding a previously registered kernel"
                warnings.simplefilter("ignore")
                library.impl(
                    name,
                    kernel,
                    self.dispatch_key,
                    with_keyset=self.with_keyset,
                    allow_override=True,
                )
            self._forget()
            return library
        except BaseException:
            torch_internals.remove_library(library)
            raise

    def _forget(self) -> None:
        if self.overload is not None:
            torch_internals.forget_dispatch(self.overload)


@dataclass(slots=True, eq=False)
class OverridingKernel:
    """A kernel of this project that is current, or below the current kernel."""

    stack: Stack
    kernel: Callable[..., Any]
    library: torch.library.Library | None = None
    """The library of the kernel; None if the stack has a standing kernel."""

    def remove(self) -> None:
        self.stack.remove(self)


def register_at_key(
    dispatch_key: str, kernels: Mapping[str, Kernel]
) -> tuple[torch.library.Library, ...]:
    """Register kernels of aten operators, by name, for a dispatch key that no tensor has, for as
    long as the result is kept. Kernels take the dispatch keys as their first argument. Other
    operators fall through to the keys below."""
    rest = torch.library.Library("_", "IMPL")
    try:
        rest.fallback(torch.library.fallthrough_kernel, dispatch_key)
        return rest, register_in_namespace("aten", dispatch_key, kernels)
    except BaseException:  # so that they can be registered again
        torch_internals.remove_library(rest)
        raise


def register_in_namespace(
    namespace: str, dispatch_key: str, kernels: Mapping[str, Kernel]
) -> torch.library.Library:
    """Register kernels of the operators of a namespace, by name, for as long as the result is kept.
    Kernels take the dispatch keys as their first argument."""
    library = torch.library.Library(namespace, "IMPL")
    try:
        for name, kernel in kernels.items():
            library.impl(name, kernel, dispatch_key, with_keyset=True)
    except BaseException:
        torch_internals.remove_library(library)
        raise
    return library


_BYSTANDERS = ("rich.live", "tqdm._monitor")
"""Modules whose threads redraw a progress bar and call no operator."""


def _alone() -> bool:
    """Return whether no other thread can be calling operators.

    Threads that Python did not start, such as autograd's, are idle unless another thread waits for
    them.
    """
    current = threading.current_thread()
    return all(
        thread is current
        or isinstance(thread, threading._DummyThread)
        or type(thread).__module__ in _BYSTANDERS
        for thread in threading.enumerate()
    )
