"""Kernels of this project in PyTorch's dispatcher, also while other threads call operators.

Calls read the dispatcher's table without a lock (torch 2.9). Removing a kernel that another thread
is about to call, or is in, ends the process. So kernels are only removed by a thread that is alone.
Otherwise the operator gets one kernel that stays, and calls whichever kernel is current; Python's
own lock makes changing that safe. It is removed with the next change that a thread makes alone.
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
    """The dispatch keys of a plain tensor of a frontend, from this key downwards."""
    # ADInplaceOrView is left out. It only has kernels for operators that write to an argument or
    # return a view, which no entry can catch. For the others it has a fallthrough, which must not
    # be called.
    order = (dispatching.autograd_key, dispatching.functionalization_key, dispatching.dispatch_key)
    return torch_internals.key_set(*order[order.index(dispatch_key) :])


@dataclass(slots=True)
class Place:
    """An operator at a dispatch key, and the kernels of this project for it."""

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
    """The last one is current."""
    standing: torch.library.Library | None = None
    """Holds the kernel that stays."""
    outdated: list[torch.library.Library] = field(default_factory=list)
    """Libraries that could not be removed yet. Their kernels are not called any more."""

    def override(self, kernel: Kernel) -> "OverridingKernel":
        """Make a kernel the current one. If this fails, nothing of it stays."""
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
        """Remove a kernel. The kernel below it becomes current. After an error, call it again."""
        if override.library is not None and not _alone():
            self._stand()
        self.kernels = [other for other in self.kernels if other is not override]
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
        """Remove everything, because the operator was defined again. Nothing calls the old one."""
        self.kernels = []
        libraries = [*self.outdated, *([self.standing] if self.standing is not None else [])]
        self.outdated, self.standing = [], None
        for library in libraries:
            torch_internals.remove_library(library)

    def _stand(self) -> None:
        """Register the kernel that stays."""
        if self.standing is not None:
            return

        def standing(*arguments: Any, **keywords: Any) -> Any:
            kernels = self.kernels
            called = kernels[-1].kernel if kernels else self.stock
            return called(*arguments, **keywords)

        torch_internals.keep_dynamo_out(standing)
        self.standing = self._registered(standing)

    def _registered(self, kernel: Kernel) -> torch.library.Library:
        """Register a kernel over any that is there. If this fails, nothing stays registered."""
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
    """A kernel of this project that is current, or below the current one."""

    place: Place
    kernel: Callable[..., Any]
    library: torch.library.Library | None = None
    """The library of the kernel; None if the place has a kernel that stays."""

    def remove(self) -> None:
        self.place.remove(self)


def register_at_key(
    dispatch_key: str, kernels: Mapping[str, Kernel]
) -> tuple[torch.library.Library, ...]:
    """Register kernels of operators of aten, by name, for a dispatch key that no tensor has, for as
    long as the result is kept. They take the dispatch keys as their first argument. Other operators
    fall through to the keys below."""
    others, operators = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    try:
        others.fallback(torch.library.fallthrough_kernel, dispatch_key)
        for name, kernel in kernels.items():
            operators.impl(name, kernel, dispatch_key, with_keyset=True)
    except BaseException:  # so that they can be registered again
        torch_internals.remove_library(operators)
        torch_internals.remove_library(others)
        raise
    return others, operators


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
