"""Raise an exception if the value of a placeholder is read, for which torch_xla would abort the
process.

The guard consists of kernels for a dispatch key that no tensor has. These kernels run in a thread
that includes the key, and in the autograd threads that run a backward for that thread. Other
threads can read values meanwhile.
"""

import gc
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import torch_xla

from composites import torch_internals
from composites.registry.operators import overload
from composites.torch_internals import DispatchKeySet
from lowering.frontends.errors import NoKernelError, ValueReadError
from lowering.frontends.protocols import Kernel
from lowering.frontends.registration import register_at_key

_XLAC = torch_xla._XLAC

# The operators that read a value from the device. For a placeholder, torch_xla aborts the process.
# An operator without an XLA kernel falls back to the CPU through `_to_cpu`.
_READERS = (
    "_to_cpu", "_to_copy", "_local_scalar_dense", "_copy_from", "_copy_from_and_resize", "equal",
)  # fmt: skip

_GUARD_NAME = "TESTING_ONLY_GenericMode"
GUARD = torch_internals.parse_key(_GUARD_NAME)
"""A dispatch key that no tensor has and that PyTorch does not use."""


@contextmanager
def values_unreadable() -> Iterator[None]:
    """A context in which reading the value of an XLA tensor raises ValueReadError."""
    _guard_readers()
    if not is_guarded():
        _FALLBACKS.update(_fallbacks())
    with _COLLECTION.paused(), torch_internals.including_key(GUARD):
        yield


class _Collection:
    """Python's collection of cycles, which waits while values are unreadable.

    torch_xla casts the seed of its generator under the lock that each XLA tensor takes when it is
    freed (torch_xla 2.9, `GetRngSeed`), and the guard's kernel for casts is Python: a collection in
    it that frees an XLA tensor would wait for its own thread forever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pauses = 0
        self._was_enabled = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context without collections, in all threads: they share Python's collector."""
        with self._lock:
            if not self._pauses:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._pauses += 1
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                if not self._pauses and self._was_enabled:
                    gc.enable()


_COLLECTION = _Collection()


@contextmanager
def values_readable() -> Iterator[None]:
    """A context in which this thread can read the values of tensors with data, even during
    tracing."""
    with torch_internals.excluding_key(GUARD):
        yield


def is_guarded() -> bool:
    """Return whether this thread works for a trace."""
    return torch_internals.includes_key(GUARD)


_FALLBACKS: dict[str, int] = {}
"""The number of times that each operator had been computed on the CPU at the last reading."""


def _fallbacks() -> dict[str, int]:
    """The number of times that torch_xla computed each operator on the CPU, by its own counters."""
    return {
        name: _XLAC._xla_counter_value(name)
        for name in _XLAC._xla_counter_names()
        if name.startswith("aten::") and name != "aten::_local_scalar_dense"
    }


def _fallback_error(operands: Sequence[torch.Tensor]) -> ValueReadError:
    """The error for the operator that torch_xla has just counted, and is about to compute on the
    CPU."""
    now = _fallbacks()
    names = [name for name, count in now.items() if count > _FALLBACKS.get(name, 0)]
    _FALLBACKS.update(now)
    sized = [name for name in names if torch.Tag.dynamic_output_shape in overload(name).tags]
    if sized:
        return ValueReadError(
            f"the result of {' or '.join(sized)} has a size that depends on values"
        )
    # Entries do not claim calls with tensors of two devices, which they might claim otherwise.
    tensors = [t for t in operands if isinstance(t, torch.Tensor) and t.dim()]
    devices = sorted({str(t.device) for t in tensors if not t.is_xla})  # type: ignore[attr-defined]
    mixed = f", which has a tensor on {' and '.join(devices)} too," if devices else ""
    return NoKernelError(
        f"torch_xla has no lowering for this call of {' or '.join(names) or 'an operator'}{mixed}"
        " and would compute it on the CPU, but a traced tensor has no value"
    )


@cache
def _guard_readers() -> object:
    """Register the guard's kernels. They stay for the life of the process."""
    return register_at_key(_GUARD_NAME, {name: _refusing(name) for name in _READERS})


def _refusing(name: str) -> Kernel:
    overload = getattr(torch.ops.aten, name).default

    def kernel(keys: DispatchKeySet, *arguments: Any, **keywords: Any) -> Any:
        # PyTorch passes a tensor that it made from a Python number as the number itself.
        if name == "_to_copy" and isinstance(arguments[0], complex):
            return complex_number(*arguments, **keywords)
        arguments = tuple(_as_tensor(a) if n == 0 else a for n, a in enumerate(arguments))
        read = arguments[0] if name == "_to_cpu" else arguments[:2]
        on_xla = any(isinstance(t, torch.Tensor) and t.is_xla for t in read)  # type: ignore[attr-defined]
        if not on_xla or _stays_on_xla(name, arguments, keywords):
            return overload.redispatch(keys.remove(GUARD), *arguments, **keywords)
        if name == "_to_cpu":
            raise _fallback_error(read)
        raise ValueReadError(
            f"aten::{name} reads the value of a tensor, but a traced tensor has no value"
        )

    return kernel


def complex_number(value: complex, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    """A Python number as a tensor without dimensions on the XLA device.

    A graph of torch_xla has constants of real numbers only, and drops the imaginary part of a
    complex constant.
    """
    parts = (
        torch.full((), part, dtype=torch.float64, device="xla") for part in (value.real, value.imag)
    )
    return torch.complex(*parts).to(torch.complex64 if dtype is None else dtype)


def _as_tensor(value: Any) -> Any:
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    return torch.tensor(value) if isinstance(value, int) else value


def _stays_on_xla(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Return whether a copy goes to an XLA tensor. Casts of dtype are copies too."""
    if name == "_to_copy":
        device = keywords.get("device")
        return device is None or torch.device(device).type == "xla"
    return name.startswith("_copy_from") and arguments[1].device.type == "xla"
