"""A causal language model of transformers, prepared to be recorded with a static cache.

a model, and the arguments of `generate`
    -> `generation_call`: the checked prompt, maximal length and cache
    -> `with_cache`: a context in which the model has the cache's tensors as buffers, takes only
    tokens, and returns the logits of the last token
"""

import copy
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from composites import torch_internals
from composites.errors import ExportError
from lowering.export.cache_tensors import ATTRIBUTE, CacheTensors
from lowering.export.request import ExportRequest
from lowering.export.tracing import nothing_kept, trace


def generation_call(
    model: Any,
    input_ids: Any = None,
    *further: Any,
    max_length: Any = None,
    cache: Any = None,
    **options: Any,
) -> tuple[torch.Tensor, int, Any]:
    """The prompt, the maximal length and the cache of a call of a model's `generate`.

    Raises:
        ExportError: the model does not generate, or the arguments do not fit.
    """
    if torch_internals.is_compiled(model):
        raise ExportError("decode=True exports the model that torch.compile was called with")
    can_generate = hasattr(model, "can_generate") and model.can_generate()
    if not can_generate or model.config.is_encoder_decoder:
        raise ExportError(
            "decode=True exports causal language models of transformers, which have generate() and"
            f" no encoder; {type(model).__name__} is not one"
        )
    chosen = options.pop("past_key_values", None) if cache is None else cache
    is_prompt = isinstance(input_ids, torch.Tensor) and input_ids.dim() == 2
    if further or options or not is_prompt:
        raise ExportError(
            "with decode=True, the arguments are those of generate: tokens of shape (batch, length)"
            " and max_length, as in export(model, (tokens,), {'max_length': 64}, decode=True), and"
            " cache for a KVCache"
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
    if "local" in (getattr(config, "attention_layers", None) or ()):
        raise ExportError(
            f"{type(model).__name__} has layers of local attention, whose window decode=True cannot"
            " export: they count it from the end of a static cache"
        )
    if chosen is not None:
        from composites.operators.transformers_caches import KVCache

        is_ours = isinstance(chosen, KVCache) and chosen.max_length == max_length
        if not is_ours or chosen.is_initialized:
            raise ExportError(
                "with decode=True, cache is a composites.KVCache whose max_cache_len is max_length,"
                f" {max_length}, and which no model has used"
            )
    return input_ids, max_length, chosen


@contextmanager
def with_cache(
    request: ExportRequest, prompt: torch.Tensor, max_length: int, chosen: Any, *, placed: bool
) -> Iterator[None]:
    """A context in which the model of a request takes only `input_ids`, has the tensors of a cache
    as buffers, and returns the logits of the last position.

    Args:
        placed: True to pass positions and a mask of ones, as `generate` does, to a model that would
            read the number of tokens in the cache to make them.

    Raises:
        ExportError: the model does not run with a static cache.
    """
    model: Any = request.module
    cache = _cache(request, prompt, max_length, chosen)
    tensors = CacheTensors(cache)
    if not any(True for _ in tensors.buffers()):
        name = type(model).__name__
        raise ExportError(f"decode=True exports models with a cache, and {name} does not use it")

    def add_cache(_: Any, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        tokens = kwargs["input_ids"]
        filled = tensors.put_in(cache, tokens.device)
        places = _places(filled, tokens, max_length) if placed else {}
        return args, {**kwargs, **_options(model, filled, places)}

    def last_logits(_: Any, __: Any, output: Any) -> dict[str, torch.Tensor]:
        return {"logits": output.logits[:, -1:]}

    model.add_module(ATTRIBUTE, tensors)
    before = model.register_forward_pre_hook(add_cache, with_kwargs=True)
    after = model.register_forward_hook(last_logits)
    try:
        yield
    finally:
        before.remove()
        after.remove()
        delattr(model, ATTRIBUTE)


def _cache(request: ExportRequest, prompt: torch.Tensor, max_length: int, chosen: Any) -> Any:
    """A static cache whose tensors have shapes, which a recording of the prompt determines: a copy
    of the chosen cache, or a cache that fits the model's attention."""
    from composites.operators.transformers_attention import NAME, asks_for_masks
    from composites.operators.transformers_caches import KVCache, LengthsCache

    model: Any = request.module
    name = type(model).__name__
    try:
        cache = copy.copy(chosen)
        if chosen is None:
            config = model.config.get_text_config(decoder=True)
            has_rings = config._attn_implementation == NAME and not asks_for_masks(config)
            kind = KVCache if has_rings else LengthsCache
            cache = kind(config=model.config, max_cache_len=max_length)
        cache.layers = [_without_window(layer, max_length) for layer in cache.layers]
        with nothing_kept(request.frontend, model):
            call = {"input_ids": prompt, **_options(model, cache, {})}
            trace(request.frontend, model, (), call)
    except ExportError:
        raise
    except Exception as error:  # of the model's own code
        raise ExportError(
            f"decode=True needs the static cache of transformers, with which {name} does not run:"
            f" {type(error).__name__}: {error}"
        ) from error
    return cache


def _without_window(layer: Any, max_length: int) -> Any:
    """A copy of a layer of a static cache, of the full length if it has a sliding window.

    A sliding layer computes its positions in Python, and rolls its tensors once it is full. In a
    layer of the full length, only masks determine the window.
    """
    from transformers import cache_utils

    from composites.operators.transformers_caches import CacheLayer

    if not getattr(layer, "is_sliding", False) or isinstance(layer, CacheLayer):
        return copy.deepcopy(layer)
    if isinstance(layer, cache_utils.LinearAttentionLayer):  # has both kinds of attention
        states = layer.number_of_states
        return cache_utils.LinearAttentionAndStaticFullAttentionLayer(max_length, states)
    return cache_utils.StaticLayer(max_length)


def _places(cache: Any, tokens: torch.Tensor, max_length: int) -> dict[str, torch.Tensor]:
    """The positions of tokens, and a mask without padding."""
    positions = torch.arange(tokens.shape[1], device=tokens.device) + cache.get_seq_length()
    mask = tokens.new_ones(tokens.shape[0], max_length)
    return {"position_ids": positions.expand(tokens.shape), "attention_mask": mask}


def _options(model: Any, cache: Any, places: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a model besides the tokens."""
    from composites.operators.transformers_caches import KVCache

    parameters = inspect.signature(model.forward).parameters
    names = (KVCache.argument, "past_key_values", "cache_params")  # the last: Mamba in 5.23
    argument = next((name for name in names if name in parameters), KVCache.argument)
    optional = {**places, "logits_to_keep": 1}
    options = {name: value for name, value in optional.items() if name in parameters}
    return {argument: cache, "use_cache": True, "return_dict": True, **options}
