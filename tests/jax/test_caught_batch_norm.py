"""Batch norms of flax in inference as `batch_norm_inference`: the same bits as without."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing.jax_calls import bits, composite_names
from flax import nnx

import composites.jax

NAME, FORWARD = "batch_norm_inference", "ptxla.batch_norm_inference"
IMAGE = jax.random.normal(jax.random.key(0), (2, 5, 3, 8))

Norm = tuple[Callable[[Any, Any], Any], Any]
"""A function of an input and variables, and the variables."""


def _other(variables: Any) -> Any:
    """Variables that are not ones and zeros."""
    return jax.tree.map(lambda v: v + jnp.linspace(0, 1, v.size, dtype=v.dtype), variables)


def _linen(x: Any, **options: Any) -> Norm:
    module = nn.BatchNorm(**{"use_running_average": True, **options})
    return (lambda x, v: module.apply(v, x)), _other(module.init(jax.random.key(1), x))


def _nnx(x: Any, **options: Any) -> Norm:
    options = {"use_running_average": True, **options}
    graph, state = nnx.split(nnx.BatchNorm(x.shape[-1], rngs=nnx.Rngs(0), **options))
    return (lambda x, v: nnx.merge(graph, v)(x)), _other(state)


BF16 = jnp.bfloat16
NORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "f32": (IMAGE, {}),
    "two dimensions": (IMAGE[:, 0, 0], {"epsilon": 1e-3}),
    "bf16": (IMAGE.astype(BF16), {"dtype": BF16}),
    "bf16 parameters": (IMAGE.astype(BF16), {"dtype": BF16, "param_dtype": BF16}),
}


def _with_and_without(program: Callable[..., Any], *arguments: Any) -> str:
    """The program while the entry is on. Bits are those without."""
    compiled = jax.jit(program)
    before = bits(compiled(*arguments))
    with composites.jax.enabled(NAME):
        assert bits(compiled(*arguments)) == before
        return compiled.lower(*arguments).as_text()


def _weighted(norm: Callable[[Any, Any], Any], x: Any, variables: Any) -> Any:
    result = jnp.sin(norm(x, variables).astype(jnp.float32))
    return (result * jnp.cos(jnp.arange(result.size)).reshape(result.shape)).sum()


@pytest.mark.parametrize(
    ("make", "name"), [*((_linen, name) for name in NORMS), (_nnx, "f32"), (_nnx, "two dimensions")]
)
def test_bits(make: Callable[..., Norm], name: str) -> None:
    x, options = NORMS[name]
    norm, variables = make(x, **options)
    assert composite_names(_with_and_without(norm, x, variables)) == [FORWARD]
    gradient = jax.value_and_grad(partial(_weighted, norm))
    assert composite_names(_with_and_without(gradient, x, variables)) == [FORWARD]


@pytest.mark.parametrize("make", [_linen, _nnx], ids=["linen", "nnx"])
def test_operands_mean_those_of_the_entry(make: Callable[..., Norm]) -> None:
    norm, variables = make(IMAGE)
    text = _with_and_without(norm, IMAGE, variables)
    assert "eps = 9.99999974E-6 : f32" in text
    assert f"(tensor<2x8x5x3xf32>{', tensor<8xf32>' * 4}) -> (tensor<2x8x5x3xf32>, " in text
    by_name = {
        jax.tree_util.keystr(path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(variables)
    }
    scale, bias, mean, var = (
        next(leaf for path, leaf in by_name.items() if f"'{name}'" in path)
        for name in ("scale", "bias", "mean", "var")
    )
    front = jnp.moveaxis(IMAGE, -1, 1)
    found = composites.jax.batch_norm_inference(front, scale, bias, mean, var, False, 0.01, 1e-5)
    expected = jnp.moveaxis(norm(IMAGE, variables), -1, 1)
    np.testing.assert_allclose(found[0], expected, rtol=2e-5, atol=2e-5)


FALLBACKS: dict[str, tuple[dict[str, Any], str]] = {
    "training": ({"use_running_average": False}, "it uses the statistics of the batch"),
    "axis": ({"axis": 1}, "channels are not the last one"),
    "name of an axis": ({"axis_name": "batch"}, "the name of an axis"),
    "without bias": ({"use_bias": False}, "bias is not"),
    "other type": ({"dtype": BF16}, "results are not those of the entry"),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_fallback(name: str) -> None:
    options, reason = FALLBACKS[name]
    module = nn.BatchNorm(**{"use_running_average": True, **options})
    variables = module.init(jax.random.key(1), IMAGE)
    program = partial(module.apply, variables, IMAGE, mutable=["batch_stats"])
    before = bits(program())
    with composites.jax.enabled(NAME):
        assert bits(program()) == before
    found = composites.jax.stats().entries[FORWARD].fallbacks
    assert any(reason in fallback.reason for fallback in found)


def test_an_argument_that_is_given_twice_is_an_error_as_in_flax() -> None:
    module = nn.BatchNorm(use_running_average=False)
    variables = nn.BatchNorm(use_running_average=True).init(jax.random.key(1), IMAGE)
    with composites.jax.enabled(NAME), pytest.raises(ValueError, match="use_running_average"):
        module.apply(variables, IMAGE, use_running_average=True)


def test_a_number_of_numpy_says_that_averages_are_used() -> None:
    variables = nn.BatchNorm(use_running_average=True).init(jax.random.key(1), IMAGE)

    def call(x: jax.Array) -> Any:
        return nn.BatchNorm().apply(variables, x, use_running_average=np.bool_(True))

    before = np.asarray(jax.jit(call)(IMAGE))
    with composites.jax.enabled(NAME):
        assert f'"{FORWARD}"' in jax.jit(call).lower(IMAGE).as_text()
        assert (np.asarray(jax.jit(call)(IMAGE)) == before).all()


def test_rounded_averages_are_left_alone() -> None:
    norm, variables = _nnx(IMAGE.astype(BF16), dtype=BF16)
    assert not composite_names(_with_and_without(norm, IMAGE.astype(BF16), variables))
    found = composites.jax.stats().entries[FORWARD].fallbacks
    assert any("rounds the moving averages" in fallback.reason for fallback in found)
