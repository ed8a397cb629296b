"""A causal language model of transformers, to be recorded with a static cache.

a model, and a prompt and a length as `generate` takes them
    -> `GenerationCall`, checked
    -> `recordable`: for a while the model has the cache's tensors as buffers; a call takes the
       tokens alone, and returns the logits of the last one
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from composites.errors import ExportError
from lowering.export.cache_tensors import ATTRIBUTE, CacheTensors
from lowering.export.request import ExportRequest
from lowering.export.tracing import nothing_kept, trace_inference


@dataclass(frozen=True)
class GenerationCall:
    """A model that generates, and the arguments of its `generate`."""

    model: Any
    prompt: torch.Tensor
    max_length: int

    @classmethod
    def of(cls, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> GenerationCall:
        """The call with these arguments.

        Raises:
            ExportError: the model does not generate, or the arguments are others.
        """
        return cls(model, *_arguments(model, *args, **kwargs))

    @contextmanager
    def recordable(self, request: ExportRequest) -> Iterator[None]:
        """A context in which the model takes `input_ids` alone, has the cache's tensors as buffers,
        and returns the logits of the last position.

        Raises:
            ExportError: the model does not run with a static cache.
        """
        cache = self._cache(request)
        tensors = CacheTensors(cache)

        def with_cache(_: Any, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
            device = kwargs["input_ids"].device
            return args, {**kwargs, **self._options(tensors.put_in(cache, device))}

        def last_logits(_: Any, __: Any, output: Any) -> dict[str, torch.Tensor]:
            return {"logits": output.logits[:, -1:]}

        self.model.add_module(ATTRIBUTE, tensors)
        before = self.model.register_forward_pre_hook(with_cache, with_kwargs=True)
        after = self.model.register_forward_hook(last_logits)
        try:
            yield
        finally:
            before.remove()
            after.remove()
            delattr(self.model, ATTRIBUTE)

    def _cache(self, request: ExportRequest) -> Any:
        """A static cache whose tensors have their shapes, which a recording of the prompt shows."""
        from transformers.cache_utils import StaticCache, StaticLayer

        name = type(self.model).__name__
        try:
            cache = StaticCache(config=self.model.config, max_cache_len=self.max_length)
            if any(hasattr(layer, "recurrent_states") for layer in cache.layers):
                raise ExportError(
                    f"{name} has layers of linear attention, whose state decode=True cannot export"
                )
            # A sliding layer computes its positions in Python, and rolls its tensors once it is
            # full. In a layer of the whole length, masks alone say what is in the window.
            cache.layers = [
                StaticLayer(self.max_length) if getattr(layer, "is_sliding", False) else layer
                for layer in cache.layers
            ]
            call = {"input_ids": self.prompt, **self._options(cache)}
            with nothing_kept(request.frontend, self.model):
                trace_inference(request.frontend, self.model, (), call)
        except ExportError:
            raise
        except Exception as error:  # the model's own
            raise ExportError(
                f"decode=True needs the static cache of transformers, with which {name} does not"
                f" run: {type(error).__name__}: {error}"
            ) from error
        return cache

    def _options(self, cache: Any) -> dict[str, Any]:
        """The arguments of the model beside the tokens."""
        options = {"past_key_values": cache, "use_cache": True, "return_dict": True}
        if "logits_to_keep" in inspect.signature(self.model.forward).parameters:
            options["logits_to_keep"] = 1
        return options


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
