"""Settings of JAX that are on around a call alone: what is made of the call later has them too."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import composites.jax
from lowering.stablehlo.run import enable_x64

X = jnp.linspace(-2.0, 2.0, 6).reshape(2, 3)
QUERY = jax.random.normal(jax.random.key(0), (1, 5, 2, 4))
TANGENT = jnp.cos(X)


def plain_waves(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * jnp.arange(3.0)


def plain_products(x: jax.Array) -> jax.Array:
    return jnp.sin(x @ x.T)


waves = composites.jax.composite("acme.waves")(plain_waves)
products = composites.jax.composite("acme.products")(plain_products)


def attention(x: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(x, 2 * x, x + 1)


def in_f64(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        with enable_x64():
            return (function(x.astype(jnp.float64)) ** 2).sum().astype(jnp.float32)

    return loss


TRANSFORMS = (
    lambda f: jax.jit(jax.grad(f)),
    lambda f: jax.grad(jax.jit(f)),
    jax.grad,
    lambda f: jax.jit(lambda x: jax.jvp(f, (x,), (TANGENT,))),
    lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, 2 * x])),
)


@pytest.mark.parametrize(
    ("function", "plain", "entry"),
    [
        pytest.param(waves, plain_waves, None, id="waves"),
        pytest.param(jax.nn.silu, jax.nn.silu, "silu", id="silu", marks=pytest.mark.slow),
    ],
)
def test_types_of_64_bits(
    function: Callable[[Any], Any], plain: Callable[[Any], Any], entry: str | None
) -> None:
    for transform in TRANSFORMS:

        def outcome(called: Callable[[Any], Any], transform: Callable[..., Any] = transform) -> Any:
            try:
                return transform(in_f64(called))(X)
            except ValueError as error:  # JAX 0.7.1 has a verifier's error for its own functions
                return type(error)

        expected = outcome(plain)
        with composites.jax.enabled(entry) if entry else nullcontext():
            actual = outcome(function)
        if expected is ValueError:
            assert actual is ValueError
            continue
        for ours, theirs in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
            assert ours.dtype == theirs.dtype == jnp.float32
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def precisions(function: Callable[[Any], Any], x: Any) -> set[str]:
    """The precisions of the products of a gradient."""

    def loss(x: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            result = function(x)
        return (result**2).sum()

    lines = jax.jit(jax.grad(loss)).lower(x).as_text().splitlines()
    return {
        line.partition("precision = ")[2].partition("]")[0]
        for line in lines
        if "dot_general" in line
    }


def test_the_precision_of_products_in_a_gradient() -> None:
    assert precisions(products, X) == {"[HIGHEST, HIGHEST"}
    assert precisions(attention, QUERY) == {"[HIGHEST, HIGHEST"}
    with composites.jax.enabled("dot_product_attention"):
        assert precisions(attention, QUERY) == {"[HIGHEST, HIGHEST"}
