"""Embeddings of flax as `embedding`: the same bits as without."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from composites_testing.jax_calls import bits, composite_names
from flax import nnx

import composites.jax
from lowering.frontends.jax.internals import knows_sums

NAME, FORWARD, BACKWARD = "embedding", "ptxla.embedding", "ptxla.embedding_dense_backward"
INDICES = jnp.array([[1, 2, 9], [0, 3, 3]])
BF16 = jnp.bfloat16

Embedding = tuple[Callable[[Any, Any], Any], Any]
"""A function of variables and indices, and the variables."""


def _linen(rows: int = 10, **options: Any) -> Embedding:
    module = nn.Embed(rows, 4, **options)
    return module.apply, module.init(jax.random.key(1), INDICES)


def _nnx(rows: int = 10, **options: Any) -> Embedding:
    graph, state = nnx.split(nnx.Embed(rows, 4, rngs=nnx.Rngs(0), **options))
    return (lambda v, indices: nnx.merge(graph, v)(indices)), state


MAKERS = pytest.mark.parametrize("make", [_linen, _nnx], ids=["linen", "nnx"])


def _weighted(embed: Callable[[Any, Any], Any], variables: Any, indices: Any) -> Any:
    result = jnp.sin(embed(variables, indices).astype(jnp.float32))
    return (result * jnp.cos(jnp.arange(result.size)).reshape(result.shape)).sum()


def _with_and_without(program: Callable[..., Any], *arguments: Any) -> list[str]:
    """The composites of the program. Bits are those without."""
    compiled = jax.jit(program)
    before = bits(compiled(*arguments))
    with composites.jax.enabled(NAME):
        assert bits(compiled(*arguments)) == before
        return composite_names(compiled.lower(*arguments).as_text())


@MAKERS
@pytest.mark.parametrize(
    "options", [{}, {"dtype": BF16}, {"param_dtype": BF16, "dtype": BF16}], ids=str
)
def test_bits(make: Callable[..., Embedding], options: dict[str, Any]) -> None:
    embed, variables = make(**options)
    assert _with_and_without(embed, variables, INDICES) == [FORWARD]
    gradient = jax.value_and_grad(partial(_weighted, embed))
    expected = [FORWARD, BACKWARD] if knows_sums() else [FORWARD]
    assert _with_and_without(gradient, variables, INDICES) == expected


def test_weights_that_the_logits_have_too() -> None:
    embed = nn.Embed(10, 4)
    variables = embed.init(jax.random.key(1), INDICES)

    def loss(variables: Any, indices: Any) -> Any:
        hidden = jnp.sin(embed.apply(variables, indices)) + embed.apply(variables, indices + 1)
        logits = embed.apply(variables, hidden, method="attend")
        return optax.softmax_cross_entropy_with_integer_labels(logits, indices).sum()

    names = _with_and_without(jax.value_and_grad(loss), variables, INDICES)
    assert names.count(FORWARD) == 2


def test_linear_transpose() -> None:
    """It is linear in the weights, and the transpose is the program's own."""
    embed, variables = _linen()
    grad = jnp.arange(24.0).reshape(2, 3, 4)

    def transposed(variables: Any) -> Any:
        return jax.linear_transpose(lambda v: embed(v, INDICES), variables)(grad)

    assert _with_and_without(transposed, variables) == []


@MAKERS
def test_indices_out_of_range_have_the_rows_of_flax(make: Callable[..., Embedding]) -> None:
    embed, variables = make()
    for index in (-1, 10):
        indices = jnp.array([index, 2])
        assert _with_and_without(embed, variables, indices) == [FORWARD]
        assert _with_and_without(jax.grad(partial(_weighted, embed)), variables, indices)


@MAKERS
def test_one_index_and_more_dimensions(make: Callable[..., Embedding]) -> None:
    embed, variables = make()
    for indices in (jnp.array(3, jnp.int32), INDICES[:, None], INDICES[:0]):
        assert _with_and_without(embed, variables, indices) == [FORWARD]


@MAKERS
def test_bytes_are_left_alone(make: Callable[..., Embedding]) -> None:
    embed, variables = make()
    assert not _with_and_without(embed, variables, INDICES.astype(jnp.uint8))
    found = composites.jax.stats().entries[FORWARD].fallbacks
    assert any("of i32 or i64" in fallback.reason for fallback in found)


@MAKERS
def test_one_row_is_left_alone(make: Callable[..., Embedding]) -> None:
    embed, variables = make(rows=1)
    assert not _with_and_without(embed, variables, jnp.zeros_like(INDICES))
    found = composites.jax.stats().entries[FORWARD].fallbacks
    assert any("there is one row" in fallback.reason for fallback in found)


def test_indices_of_another_type_are_an_error_as_in_flax() -> None:
    embed, variables = _linen()
    with composites.jax.enabled(NAME), pytest.raises(ValueError, match="integer"):
        embed(variables, jnp.ones((2,)))


def test_operands_mean_those_of_the_entry() -> None:
    embed, variables = _linen()
    weight = variables["params"]["embedding"]
    expected = composites.jax.embedding(weight, INDICES)
    assert (np.asarray(embed(variables, INDICES)) == np.asarray(expected)).all()
