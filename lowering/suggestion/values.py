"""Descriptions of the arguments of recorded calls. They hold no tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from composites.element_types import NAME_OF_PYTORCH
from composites.registry.model import Tensor

NUMBERS_AND_WORDS = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Other:
    """A value that a registry file cannot have, such as a module or a tuple of tensors."""

    type: str


def describe(value: Any) -> Any:
    """Describe an argument: a tensor by its type, as `Tensor`; a number, a word, a list of these, a
    dtype, or None by itself; and anything else as `Other`."""
    if isinstance(value, torch.Tensor):
        name = NAME_OF_PYTORCH.get(str(value.dtype).removeprefix("torch."))
        return Other(str(value.dtype)) if name is None else Tensor(name, tuple(value.shape))
    if value is None or type(value) in (*NUMBERS_AND_WORDS, torch.dtype):
        return value
    is_list = isinstance(value, list | tuple) and len(value) > 0
    if is_list and all(type(item) in NUMBERS_AND_WORDS for item in value):
        return list(value)
    return Other(type(value).__name__)


def written(value: Any) -> Any:
    """A description, other than `Other`, as `example` of an entry has it."""
    if isinstance(value, torch.dtype):
        return NAME_OF_PYTORCH[str(value).removeprefix("torch.")]
    return str(value) if isinstance(value, Tensor) else value
