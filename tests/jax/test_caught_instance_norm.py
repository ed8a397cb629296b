"""Instance norms of flax as `instance_norm`, which has channels in front: the same bits as
without."""

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
from lowering.frontends.jax.internals import knows_sums

NAME, FORWARD, BACKWARD = "instance_norm", "ptxla.instance_norm", "ptxla.instance_norm_backward"
IMAGE = jax.random.normal(jax.random.key(0), (2, 5, 3, 8))
BF16 = jnp.bfloat16

Norm = tuple[Callable[[Any, Any], Any], Any]
"""A function of an input and parameters, and the parameters."""


def _other(parameters: Any) -> Any:
    """Parameters that are not ones and zeros."""
    return jax.tree.map(lambda p: p + jnp.linspace(0, 1, p.size, dtype=p.dtype), parameters)


def _linen(x: Any, **options: Any) -> Norm:
    module = nn.InstanceNorm(**options)
    return (lambda x, p: module.apply(p, x)), _other(module.init(jax.random.key(1), x))


def _nnx(x: Any, **options: Any) -> Norm:
    graph, state = nnx.split(nnx.InstanceNorm(x.shape[-1], rngs=nnx.Rngs(0), **options))
    return (lambda x, p: nnx.merge(graph, p)(x)), _other(state)


MAKERS = [_linen, *([_nnx] if hasattr(nnx, "InstanceNorm") else [])]
"""flax.nnx has it from 0.12 on."""
NORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "f32": (IMAGE, {}),
    "one dimension": (IMAGE[:, 0], {"epsilon": 1e-3}),
    "without parameters": (IMAGE, {"use_bias": False, "use_scale": False}),
    "slow variance": (IMAGE, {"use_fast_variance": False}),
    "bf16": (IMAGE.astype(BF16), {"dtype": BF16, "param_dtype": BF16}),
}


def _with_and_without(program: Callable[..., Any], *arguments: Any) -> list[str]:
    """The composites of the program. Bits are those without."""
    compiled = jax.jit(program)
    before = bits(compiled(*arguments))
    with composites.jax.enabled(NAME):
        assert bits(compiled(*arguments)) == before
        return composite_names(compiled.lower(*arguments).as_text())


def _weighted(norm: Callable[[Any, Any], Any], x: Any, parameters: Any) -> Any:
    result = norm(x, parameters).astype(jnp.float32)
    return (result * jnp.cos(jnp.arange(result.size)).reshape(result.shape)).sum()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", NORMS)
def test_bits(make: Callable[..., Norm], name: str) -> None:
    x, options = NORMS[name]
    norm, parameters = make(x, **options)
    assert _with_and_without(norm, x, parameters) == [FORWARD]
    gradient = jax.value_and_grad(partial(_weighted, norm), (0, 1))
    backward = [BACKWARD] if knows_sums() else []
    assert _with_and_without(gradient, x, parameters) == [FORWARD, *backward]


@pytest.mark.parametrize("make", MAKERS)
def test_flax_means_the_entry(make: Callable[..., Norm]) -> None:
    norm, parameters = make(IMAGE)
    bias, scale = jax.tree.leaves(parameters)

    def entry(x: Any) -> Any:
        found = composites.jax.instance_norm(jnp.moveaxis(x, -1, 1), scale, bias, eps=1e-6)
        return jnp.moveaxis(found, 1, -1)

    np.testing.assert_allclose(norm(IMAGE, parameters), entry(IMAGE), rtol=2e-5, atol=2e-5)
    found = jax.grad(lambda x: _weighted(lambda x, _: entry(x), x, None))(IMAGE)
    expected = jax.grad(partial(_weighted, norm))(IMAGE, parameters)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


FALLBACKS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "channels alone": (IMAGE[:, 0, 0], {}, "channels are not the last one of at least three"),
    "axes": (IMAGE, {"feature_axes": (2, 3)}, "channels are not the last one of at least three"),
    "bias alone": (IMAGE, {"use_scale": False}, "bias is given, and weight is not"),
    "name of an axis": (IMAGE, {"axis_name": "batch"}, "the name of an axis"),
    "other type": (IMAGE, {"dtype": BF16}, "results are not those of the entry"),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_fallback(name: str) -> None:
    x, options, reason = FALLBACKS[name]
    parameters = nn.InstanceNorm(**{**options, "axis_name": None}).init(jax.random.key(1), x)
    program = lambda: nn.InstanceNorm(**options).apply(parameters, x)  # noqa: E731
    if "axis_name" in options:
        program = lambda: jax.vmap(  # noqa: E731
            lambda x: nn.InstanceNorm(**options).apply(parameters, x), axis_name="batch"
        )(x[None])
    before = bits(program())
    with composites.jax.enabled(NAME):
        assert bits(program()) == before
    found = composites.jax.stats().entries[FORWARD].fallbacks
    assert any(reason in fallback.reason for fallback in found)
