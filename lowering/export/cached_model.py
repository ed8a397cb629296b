"""A causal language model of transformers with its static cache as buffers, to be recorded.

a model, and a prompt and a length as `generate` takes them
    -> `CachedModel`, whose cache has the shapes of a run on the device `meta`
    -> `recordable`: for a while the model has the cache's tensors as buffers; a call takes the
       tokens alone, and returns the logits of the last one
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from composites.errors import ExportError
from composites.tensor_subclasses import with_inner_tensors

_ATTRIBUTE = "cache"


class CacheTensors(torch.nn.Module):
    """The tensors of a cache, under the names that they have in it, such as `layers.0.keys`."""

    def __init__(self, cache: Any) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for layer in cache.layers:
            part = torch.nn.Module()
            # A layer that shares the keys and values of another one is never initialized.
            for name, value in vars(layer).items() if layer.is_initialized else ():
                if isinstance(value, torch.Tensor):
                    part.register_buffer(name, value, persistent=False)
            self.layers.append(part)

    def put_in(self, cache: Any, device: torch.device) -> Any:
        """A copy of the cache that has these tensors, which are on the device."""
        filled = copy.copy(cache)
        filled.layers = [copy.copy(layer) for layer in cache.layers]
        for layer, part in zip(filled.layers, self.layers, strict=True):
            vars(layer).update(part.named_buffers(), device=device)
        return filled


def cache_input(module: torch.nn.Module, buffer: str) -> str | None:
    """The name of the input for a tensor of the cache, such as `cache:layers.0.keys`; None for
    other buffers."""
    owner, _, name = buffer.partition(".")
    is_cache = owner == _ATTRIBUTE and isinstance(getattr(module, owner, None), CacheTensors)
    return f"cache:{name}" if is_cache else None


@dataclass(frozen=True)
class CachedModel:
    """A model that generates, with a cache that holds no tokens yet."""

    model: Any
    prompt: torch.Tensor
    max_length: int
    cache: Any
    """A `StaticCache` with tensors on the device `meta`."""

    @classmethod
    def of(cls, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CachedModel:
        """The model for a call of `generate`.

        Args:
            args: the prompt's tokens, unless they are among `kwargs` as `input_ids`.
            kwargs: also `max_length`, the number of tokens that the cache holds.

        Raises:
            ExportError: the model has no static cache, or the arguments are others.
        """
        prompt, max_length = _arguments(model, *args, **kwargs)
        return cls(model, prompt, max_length, _cache(model, prompt, max_length))

    @contextmanager
    def recordable(self) -> Iterator[None]:
        """A context in which the model takes `input_ids` alone, has the cache's tensors as buffers,
        and returns the logits of the last position."""
        tensors = CacheTensors(self.cache)

        def with_cache(_: Any, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
            cache = tensors.put_in(self.cache, kwargs["input_ids"].device)
            return args, {**kwargs, **_options(self.model, cache)}

        def last_logits(_: Any, __: Any, output: Any) -> dict[str, torch.Tensor]:
            return {"logits": output.logits[:, -1:]}

        self.model.add_module(_ATTRIBUTE, tensors)
        before = self.model.register_forward_pre_hook(with_cache, with_kwargs=True)
        after = self.model.register_forward_hook(last_logits)
        try:
            yield
        finally:
            before.remove()
            after.remove()
            delattr(self.model, _ATTRIBUTE)


def _arguments(
    model: Any, input_ids: Any = None, *others: Any, max_length: Any = None, **options: Any
) -> tuple[torch.Tensor, int]:
    """The prompt and the maximal length of a call of `generate`."""
    can_generate = hasattr(model, "can_generate") and model.can_generate()
    if not can_generate or model.config.is_encoder_decoder:
        raise ExportError(
            "decode=True exports causal language models of transformers, which have generate() and"
            f" no encoder; {type(model).__name__} is none"
        )
    is_prompt = isinstance(input_ids, torch.Tensor) and input_ids.dim() == 2
    if others or options or not is_prompt:
        raise ExportError(
            "with decode=True, the arguments are those of generate: tokens of shape (batch, length)"
            " and max_length, as in export(model, (tokens,), {'max_length': 64}, decode=True)"
        )
    config = model.config.get_text_config(decoder=True)
    length, most = input_ids.shape[1], getattr(config, "max_position_embeddings", None)
    if not isinstance(max_length, int) or not 0 < length < max_length <= (most or max_length):
        raise ExportError(
            "with decode=True, kwargs has max_length, the number of tokens that the cache holds: an"
            f" integer above the prompt's length, which is {length}"
            + (f", and at most the model's max_position_embeddings, {most}" if most else "")
            + f"; it is {max_length!r}"
        )
    return input_ids, max_length


def _cache(model: Any, prompt: torch.Tensor, max_length: int) -> Any:
    """An empty cache whose tensors have their shapes."""
    from transformers.cache_utils import StaticCache, StaticLayer

    def on_meta(_: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to("meta")

    named = [*model.named_parameters(), *model.named_buffers()]
    weights = {name: with_inner_tensors(name, tensor, on_meta) for name, tensor in named}
    try:
        cache = StaticCache(config=model.config, max_cache_len=max_length)
        # A sliding layer computes its positions in Python, and rolls its tensors once it is full.
        # In a layer of the whole length, masks alone say what is in the window.
        cache.layers = [
            StaticLayer(max_length) if getattr(layer, "is_sliding", False) else layer
            for layer in cache.layers
        ]
        with torch.no_grad():
            call = {"input_ids": prompt.to("meta"), **_options(model, cache)}
            torch.func.functional_call(model, weights, (), call)
    except Exception as error:  # the model's own
        raise ExportError(
            f"decode=True needs the static cache of transformers, with which"
            f" {type(model).__name__} does not run: {type(error).__name__}: {error}"
        ) from error
    if any(hasattr(layer, "recurrent_states") for layer in cache.layers):
        raise ExportError(
            f"{type(model).__name__} has layers of linear attention, whose state decode=True does"
            " not export"
        )
    return cache


def _options(model: Any, cache: Any) -> dict[str, Any]:
    """The arguments of a model's call beside the tokens."""
    options = {"past_key_values": cache, "use_cache": True, "return_dict": True}
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        options["logits_to_keep"] = 1
    return options
