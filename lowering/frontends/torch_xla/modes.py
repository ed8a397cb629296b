"""torch_xla's process-wide switches, and autocast, while something is traced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
import torch_xla

from lowering.frontends.torch_xla.tensors import DEVICE_TYPE
from lowering.frontends.torch_xla.value_guard import is_guarded

_XLAC = torch_xla._XLAC

_EXCLUSIVE = threading.Lock()
"""Held by the outermost trace of the process, for what it and the threads of autograd do for it."""


@dataclass(slots=True)
class _Switches:
    """torch_xla's process-wide switches as they were before the outermost trace."""

    constants: bool = False


_OUTSIDE = _Switches()


@contextmanager
def tracing_mode(*, constants: bool = True) -> Iterator[None]:
    """Trace whatever the user's mode is.

    torch_xla's eager mode would run each operator on placeholders, which aborts the process.
    torch_xla also makes Python numbers other than 0 and 1 parameters of the graph. With
    `constants`, they are constants, otherwise what they are in the user's graphs.
    """
    outermost = not is_guarded()
    with _EXCLUSIVE if outermost else nullcontext():
        before = (_XLAC._get_xla_all_numbers_special_scalars(), _XLAC._get_use_eager_mode())
        if outermost:
            _OUTSIDE.constants = before[0]
        _XLAC._set_xla_all_numbers_special_scalars(constants or _OUTSIDE.constants)
        _XLAC._set_use_eager_mode(False)
        try:
            yield
        finally:
            _XLAC._set_xla_all_numbers_special_scalars(before[0])
            _XLAC._set_use_eager_mode(before[1])


def autocast_dtype() -> torch.dtype | None:
    """The dtype of the autocast that is on for XLA; None where it is off."""
    return torch.get_autocast_dtype(DEVICE_TYPE) if torch.is_autocast_enabled(DEVICE_TYPE) else None


@contextmanager
def autocast(dtype: torch.dtype | None) -> Iterator[None]:
    """A context in which autocast has a dtype; None for off."""
    before = (torch.is_autocast_enabled(DEVICE_TYPE), torch.get_autocast_dtype(DEVICE_TYPE))
    torch.set_autocast_enabled(DEVICE_TYPE, dtype is not None)
    torch.set_autocast_dtype(DEVICE_TYPE, dtype or before[1])
    try:
        yield
    finally:
        torch.set_autocast_enabled(DEVICE_TYPE, before[0])
        torch.set_autocast_dtype(DEVICE_TYPE, before[1])
