"""The tensors of a cache of keys and values, as buffers of the recorded model."""

import copy
from typing import Any

import torch

ATTRIBUTE = "cache"
"""The name of the model's submodule that holds the tensors."""


class CacheTensors(torch.nn.Module):
    """The tensors of a cache, under their names in the cache, such as `layers.0.keys`. The tensors
    have shapes and no values."""

    def __init__(self, cache: Any) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for layer in cache.layers:
            part = torch.nn.Module()
            # A layer that shares the keys and values of another one is never initialized.
            for name, value in vars(layer).items() if layer.is_initialized else ():
                if isinstance(value, torch.Tensor):
                    shape = torch.empty(value.shape, dtype=value.dtype, device="meta")
                    part.register_buffer(name, shape, persistent=False)
            self.layers.append(part)

    def put_in(self, cache: Any, device: torch.device) -> Any:
        """A copy of the cache with the tensors of this module, which are on `device`."""
        filled = copy.copy(cache)
        filled.layers = [copy.copy(layer) for layer in cache.layers]
        for layer, part in zip(filled.layers, self.layers, strict=True):
            vars(layer).update(part.named_buffers(), device=device)
        return filled


def cache_input(module: torch.nn.Module, buffer: str) -> str | None:
    """The name of the input for a tensor of the cache, such as `cache:layers.0.keys`; None for
    other buffers."""
    owner, _, name = buffer.partition(".")
    is_cache = owner == ATTRIBUTE and isinstance(getattr(module, owner, None), CacheTensors)
    return f"cache:{name}" if is_cache else None
