"""An exception in place of the abort of the process when the value of a placeholder is read.

The guard is a kernel for a dispatch key that no tensor has. Kernels for it run in a thread that
includes the key, and in the threads of autograd that run a backward for that one, so other threads
may read values meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from composites import torch_internals
from composites.torch_internals import DispatchKeySet
from lowering.frontends.protocols import Kernel

# The operators through which a value leaves the device; torch_xla aborts the process when it is a
# placeholder's. `_to_cpu` is how an operator without XLA kernel falls back to the CPU.
_READERS = (
    "_to_cpu",
    "_to_copy",
    "_local_scalar_dense",
    "_copy_from",
    "_copy_from_and_resize",
    "equal",
)

_GUARD_NAME = "TESTING_ONLY_GenericMode"
GUARD = torch_internals.parse_key(_GUARD_NAME)
"""A dispatch key that no tensor has and nothing in PyTorch uses."""


class ValueReadError(RuntimeError):
    """Something traced with placeholders asked for the value of one."""


@contextmanager
def values_unreadable() -> Iterator[None]:
    """A context in which reading the value of an XLA tensor raises ValueReadError."""
    _guard_readers()
    with torch_internals.including_key(GUARD):
        yield


@contextmanager
def values_readable() -> Iterator[None]:
    """A context in which this thread reads values of tensors that have data, even in a trace."""
    with torch_internals.excluding_key(GUARD):
        yield


def is_guarded() -> bool:
    """Whether this thread works for a trace."""
    return torch_internals.includes_key(GUARD)


@cache
def _guard_readers() -> tuple[torch.library.Library, ...]:
    """Give the guard its kernels, for good."""
    others = torch.library.Library("_", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, _GUARD_NAME)
    readers = torch.library.Library("aten", "IMPL")
    for name in _READERS:
        readers.impl(name, _refusing(name), _GUARD_NAME, with_keyset=True)
    return others, readers


def _refusing(name: str) -> Kernel:
    overload = getattr(torch.ops.aten, name).default

    def kernel(keys: DispatchKeySet, *arguments: Any, **keywords: Any) -> Any:
        # PyTorch hands over the tensor that it made of a Python number as the number itself.
        arguments = tuple(_as_tensor(a) if n == 0 else a for n, a in enumerate(arguments))
        read = arguments[0] if name == "_to_cpu" else arguments[:2]
        on_xla = any(isinstance(t, torch.Tensor) and t.is_xla for t in read)  # type: ignore[attr-defined]
        if not on_xla or _stays_on_xla(name, arguments, keywords):
            return overload.redispatch(keys.remove(GUARD), *arguments, **keywords)
        by = "an operator without XLA kernel, on the CPU," if name == "_to_cpu" else f"aten::{name}"
        raise ValueReadError(
            f"{by} reads the value of a tensor, and there is none while it is traced"
        )

    return kernel


def _as_tensor(value: Any) -> Any:
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    return torch.tensor(value) if isinstance(value, int) else value


def _stays_on_xla(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether a copy goes to an XLA tensor again; casts of dtype are copies too."""
    if name == "_to_copy":
        device = keywords.get("device")
        return device is None or torch.device(device).type == "xla"
    return name.startswith("_copy_from") and arguments[1].device.type == "xla"
