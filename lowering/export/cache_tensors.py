"""The tensors of a cache of a language model, as buffers of the recorded model."""

import copy
from collections.abc import Mapping
from typing import Any

import torch

ATTRIBUTE = "cache"
"""The name of the model's submodule that holds the tensors."""


class CacheTensors(torch.nn.Module):
    """The tensors of a cache, under their names in the cache, such as `layers.0.keys`, or
    `layers.1.conv_states.0` for a layer of linear attention. The tensors have shapes and no values.
    """

    def __init__(self, cache: Any) -> None:
        super().__init__()
        # A layer that shares the keys and values of another one is never initialized.
        self.layers = torch.nn.ModuleList(
            _buffers(vars(layer) if getattr(layer, "is_initialized", True) else {})
            for layer in cache.layers
        )

    def put_in(self, cache: Any, device: torch.device) -> Any:
        """A copy of the cache with the tensors of this module, which are on `device`."""
        filled = copy.copy(cache)
        filled.layers = [copy.copy(layer) for layer in cache.layers]
        for layer, part in zip(filled.layers, self.layers, strict=True):
            vars(layer).update(_replaced(vars(layer), part), device=device)
        return filled


def _buffers(attributes: Mapping[Any, Any]) -> torch.nn.Module:
    """A module with the tensors of a layer, and of its dictionaries, as buffers."""
    module = torch.nn.Module()
    for name, value in attributes.items():
        if isinstance(value, torch.Tensor):
            shape = torch.empty(value.shape, dtype=value.dtype, device="meta")
            module.register_buffer(str(name), shape, persistent=False)
        elif isinstance(value, dict):
            module.add_module(str(name), _buffers(value))
    return module


def _replaced(attributes: Mapping[Any, Any], module: torch.nn.Module) -> dict[Any, Any]:
    """The attributes of a layer with the buffers of `module` in place of their tensors."""
    parts: dict[str, Any] = dict(module.named_buffers(recurse=False))
    parts |= dict(module.named_children())
    replaced = {}
    for name, value in attributes.items():
        part = parts.get(str(name), value)
        is_module = isinstance(part, torch.nn.Module) and part is not value
        replaced[name] = _replaced(value, part) if is_module else part
    return replaced


def cache_input(module: torch.nn.Module, buffer: str) -> str | None:
    """The name of the input for a tensor of the cache, such as `cache:layers.0.keys`; None for
    other buffers."""
    owner, _, name = buffer.partition(".")
    is_cache = owner == ATTRIBUTE and isinstance(getattr(module, owner, None), CacheTensors)
    return f"cache:{name}" if is_cache else None
