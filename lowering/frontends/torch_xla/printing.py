"""Printing tensors while a program is recorded: their shape, because they have no values.

The user's module may print, and AOTAutograd makes text of all that it traced, for a log.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from composites import torch_internals
from lowering.frontends.torch_xla.value_guard import is_guarded


def values_left_out() -> AbstractContextManager[None]:
    """A context in which traced tensors print like tensors of the device `meta`."""
    return torch_internals.printing(_text)


def _text(tensor: Any) -> str | None:
    if not (isinstance(tensor, torch.Tensor) and tensor.is_xla and is_guarded()):  # type: ignore[attr-defined]
        return None
    shape = tuple(tensor.shape)
    return f"tensor(..., device='{tensor.device}', size={shape}, dtype={tensor.dtype})"
