"""What is known of the arguments of a recorded call, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from composites.element_types import NAME_OF_PYTORCH
from composites.registry.model import Tensor


@dataclass(frozen=True, slots=True)
class Plain:
    """A number, a word, a dtype, None, or a list of these."""

    value: Any


@dataclass(frozen=True, slots=True)
class Other:
    """Anything else, such as a module or a tuple of tensors."""

    type: str
    tensors: bool = False
    """Whether it is a list or tuple with tensors in it."""


Described = Tensor | Plain | Other

_PLAIN = (bool, int, float, str, type(None), torch.dtype)


def describe(value: Any) -> Described:
    """What is known of an argument."""
    if isinstance(value, torch.Tensor):
        name = NAME_OF_PYTORCH.get(str(value.dtype).removeprefix("torch."))
        return Other(str(value.dtype)) if name is None else Tensor(name, tuple(value.shape))
    if isinstance(value, _PLAIN):
        return Plain(value)
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, _PLAIN) for item in value):
            return Plain(list(value))
        within = any(isinstance(item, torch.Tensor) for item in value)
        return Other(type(value).__name__, tensors=within)
    return Other(type(value).__name__)


def written(value: Described) -> Any:
    """A value as `example` of an entry has it; it is Plain or a tensor."""
    if isinstance(value, Plain) and isinstance(value.value, torch.dtype):
        return NAME_OF_PYTORCH[str(value.value).removeprefix("torch.")]
    return value.value if isinstance(value, Plain) else str(value)
