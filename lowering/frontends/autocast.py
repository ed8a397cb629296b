"""Autocast on one type of device, during tracing."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def autocast_dtype(device_type: str) -> torch.dtype | None:
    """The dtype of the active autocast for devices of a type; None if autocast is off."""
    return torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else None


@contextmanager
def autocast(device_type: str, dtype: torch.dtype | None) -> Iterator[None]:
    """A context in which autocast uses a dtype; None turns it off.

    Autocast's cache is off. It would keep the casts of leaves, such as placeholders, until the
    user's outermost `torch.autocast` ends, or forever without one, as in a backward. A torch_xla
    sync would then compute with the placeholders, which have no data, and end the process.
    """
    before = (torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type))
    keeps_casts = torch.is_autocast_cache_enabled()
    try:
        torch.set_autocast_cache_enabled(False)
        torch.set_autocast_enabled(device_type, dtype is not None)
        torch.set_autocast_dtype(device_type, dtype or before[1])
        yield
    finally:
        torch.set_autocast_enabled(device_type, before[0])
        torch.set_autocast_dtype(device_type, before[1])
        torch.set_autocast_cache_enabled(keeps_casts)
