"""Attention of one token over a cache that the same program writes to.

    %k = composite "ptxla.update_kv_cache" %keys, %position, %key
    %v = composite "ptxla.update_kv_cache" %values, %position, %value
    composite "ptxla.scaled_dot_product_attention" %query, %k, %v, %mask

Attention with sinks is replaced too.

A cache is PyTorch's memory, which XLA copies before it writes a row, while PyTorch receives only
the row (`lowering.live.writes`). Copies of all caches take several times as long as the attention.
A function that reads the unchanged caches and the new row replaces the attention.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from lowering.stablehlo.attributes import to_python
from lowering.stablehlo.bindings import made_by
from lowering.stablehlo.composites import composite_name, signature
from lowering.stablehlo.in_place import rewrites
from lowering.stablehlo.insertion import erase_unread, replace_by
from lowering.stablehlo.ir_types import IrOperation, IrValue
from lowering.stablehlo.passes.expansion import computed
from lowering.stablehlo.symbols import COMPOSITE

_UPDATE, _SINKS = "ptxla.update_kv_cache", "ptxla.attention_with_sinks"
_ATTENTION = {("ptxla.scaled_dot_product_attention", 1): "scale", (_SINKS, 1): "scaling"}
"""The attributes that scale the scores."""
_REPETITION = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")
_GROUPS = (0, 1, 3, 4)
"""The dimensions of a cache in a cache that is repeated for heads, `[N, G, repeats, L, E]`."""


@rewrites(COMPOSITE)
def read_caches_as_they_are(attention: IrOperation) -> None:
    """Replace attention of one token over caches of keys and values that get a row at the same
    position. Other calls stay, and so do those with dropout or several results."""
    call = signature(attention)
    scaling = _ATTENTION.get((call.name, call.version))
    if scaling is None or len(attention.results) > 1:
        return
    query, *caches = attention.operands[:3]
    updates = [update for update in map(_update, caches) if update is not None]
    if len(updates) < 2:
        return
    options = call.python_attributes()
    (keys, position, key), (values, same, value) = (update.operands for update in updates)
    _, heads, rows, size = query.type.shape
    is_one_token = [rows] == key.type.shape[2:3] == value.type.shape[2:3] == [1]
    is_plain = not options.get("is_causal") and not options.get("dropout_p") and position == same
    groups = keys.type.shape[1]
    has_groups = groups == values.type.shape[1] and heads and groups and heads % groups == 0
    if not (is_one_token and is_plain and has_groups and size):
        return
    rest = attention.operands[3:]
    function = partial(
        _attended,
        scale=options[scaling] if scaling in options else size**-0.5,
        has_sinks=call.name == _SINKS,
        shape=attention.results[0].type.shape,
    )
    replace_by(
        attention,
        *computed(attention, function, query, keys, values, position, key, value, *rest),
    )
    erase_unread(caches, (*_REPETITION, COMPOSITE))


def _update(cache: IrValue) -> IrOperation | None:
    """The composite that writes to a cache, which may be repeated for groups of heads."""
    repeated = made_by(cache, "stablehlo.reshape")
    if repeated is not None:
        broadcast = made_by(repeated.operands[0], "stablehlo.broadcast_in_dim")
        dimensions = "broadcast_dimensions"
        if broadcast is None or tuple(to_python(broadcast.attributes[dimensions])) != _GROUPS:
            return None
        batch, groups, repeats, *row = broadcast.results[0].type.shape
        if cache.type.shape != [batch, groups * repeats, *row]:
            return None
        cache = broadcast.operands[0]
    update = made_by(cache, COMPOSITE)
    return update if update is not None and composite_name(update) == _UPDATE else None


def _attended(
    query: Any,
    keys: Any,
    values: Any,
    position: Any,
    key: Any,
    value: Any,
    *rest: Any,
    scale: float,
    has_sinks: bool,
    shape: Sequence[int],
) -> Any:
    """Attention with scores and weights in f32, or in f64 for operands of f64.

    Args:
        query: `[N, H, 1, E]`.
        keys, values: `[N, G, L, E]` and `[N, G, L, Ev]`, where G divides H.
        position: a number, the row of the caches to which `key` and `value` belong.
        key, value: `[N, G, 1, E]` and `[N, G, 1, Ev]`.
        rest: sinks, `[H]`, if the call has sinks; then an optional mask, of booleans or of numbers
            that are added to the scores.
        shape: the shape of the result.
    """
    import jax.numpy as jnp
    from jax import lax

    batch, heads, _, size = query.shape
    groups, length = keys.shape[1:3]
    grouped = (query * scale).reshape(batch, groups, heads // groups, size)
    dtype = jnp.promote_types(query.dtype, jnp.float32)
    product = partial(jnp.einsum, preferred_element_type=dtype)
    position = position.reshape(())
    is_written = jnp.arange(length) == position
    own = product("bghd,bgld->bghl", grouped, key)
    scores = jnp.where(is_written, own, product("bghd,bgld->bghl", grouped, keys))
    for mask in rest[has_sinks:]:
        whole = jnp.broadcast_to(mask, (batch, heads, 1, length)).reshape(scores.shape)
        is_bool = mask.dtype == jnp.bool_
        scores = jnp.where(whole, scores, -jnp.inf) if is_bool else scores + whole
    greatest = scores.max(-1, keepdims=True)
    sinks = [sink.reshape(groups, -1, 1).astype(dtype) for sink in rest[:has_sinks]]
    for sink in sinks:
        greatest = jnp.maximum(greatest, sink)
    greatest = jnp.where(greatest == -jnp.inf, 0, greatest)
    shifted = jnp.exp(scores - greatest)
    sums = shifted.sum(-1, keepdims=True) + sum(jnp.exp(sink - greatest) for sink in sinks)
    weights = shifted / jnp.where(sums == 0, 1, sums)
    row_weight = jnp.where(is_written, weights, 0).sum(-1, keepdims=True)
    other_weights = jnp.where(is_written, 0, weights)
    attended = partial(product, "bghl,bgld->bghd", other_weights)
    overwritten = lax.dynamic_index_in_dim(values, position, axis=2)
    result = lax.cond(
        jnp.isfinite(overwritten).all(),  # 0 times infinity or NaN is NaN
        lambda: attended(values),
        lambda: attended(jnp.where(is_written[:, None], 0, values)),
    )
    result += row_weight * value
    return result.astype(values.dtype).reshape(shape)
