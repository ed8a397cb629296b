"""Values that a JAX function names: the forward returns them, and the backward takes them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import composites
import composites.jax

X = jnp.linspace(-2.0, 2.0, 24).reshape(4, 6)
WEIGHT = jnp.cos(jnp.arange(30.0)).reshape(6, 5)
decorator: Any = composites.jax.composite


def plain(x: jax.Array, weight: jax.Array) -> jax.Array:
    gate = composites.intermediate(x @ weight, "gate")
    return jnp.where(composites.intermediate(gate > 0, "is_kept"), jnp.tanh(gate), 0)


named = decorator("t.named", intermediates=("gate", "is_kept"))(plain)


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.grad(lambda x, weight: (function(x, weight) ** 2).sum(), argnums=(0, 1))


same = partial(jax.tree.map, np.testing.assert_array_equal)
close = partial(jax.tree.map, partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-6))


def test_the_backward_takes_the_value() -> None:
    text = jax.jit(gradients(named)).lower(X, WEIGHT).as_text()
    forward, backward = (line for line in text.splitlines() if "stablehlo.composite" in line)
    assert forward.endswith("-> (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xi1>)")
    taken = "tensor<4x6xf32>, tensor<6x5xf32>, tensor<4x5xf32>, tensor<4x5xi1>"
    assert f"(tensor<4x5xf32>, {taken}) ->" in backward
    assert text.count("stablehlo.dot_general") == 3  # one of the forward, and two of the backward
    same(jax.jit(gradients(named))(X, WEIGHT), jax.jit(gradients(plain))(X, WEIGHT))


def test_transformations() -> None:
    many = jnp.stack([X, 2 * X])
    ones = (jnp.ones_like(X), jnp.ones_like(WEIGHT))
    transformed: list[tuple[Callable[..., Any], Any]] = [
        (lambda f: jax.vmap(gradients(f), (0, None)), many),
        (lambda f: gradients(jax.vmap(f, (0, None))), many),
        (lambda f: gradients(jax.checkpoint(f)), X),
        (lambda f: lambda x, weight: jax.jvp(f, (x, weight), ones), X),
    ]
    for transform, x in transformed:
        close(*(jax.jit(transform(function))(x, WEIGHT) for function in (named, plain)))


@pytest.mark.slow
def test_second_derivatives() -> None:
    def plain(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sin(composites.intermediate(jnp.sin(x), "named") * w)

    mine = decorator("t.second", intermediates=("named",))(plain)
    x, w = X[0], X[1]
    transforms: list[Callable[..., Any]] = [
        *(lambda f, n=n: jax.hessian(lambda *arrays: f(*arrays).sum(), n) for n in range(2)),
        *(
            lambda f, a=a, b=b: jax.jacfwd(jax.grad(lambda *arrays: f(*arrays).sum(), a), b)
            for a in range(2)
            for b in range(2)
        ),
    ]
    for transform in transforms:
        actual, expected = (jax.jit(transform(function))(x, w) for function in (mine, plain))
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_saves_leaves_out_what_only_the_value_needs() -> None:
    def shifted(x: jax.Array, bias: jax.Array) -> jax.Array:
        return jnp.tanh(composites.intermediate(x + bias, "sum"))

    mine = decorator("t.shifted", saves=(), intermediates=("sum",))(shifted)
    bias = jnp.arange(6.0)
    same(jax.jit(gradients(mine))(X, bias), jax.jit(gradients(shifted))(X, bias))


def test_mistakes() -> None:
    missing = decorator("t.missing", intermediates=("gates",))(plain)
    with pytest.raises(
        composites.LoweringError,
        match=r"'gates' of \S*plain: it names no such value \(it names gate, is_kept\)",
    ):
        jax.grad(lambda x: missing(x, WEIGHT).sum())(X)
    np.testing.assert_allclose(missing(X, WEIGHT), plain(X, WEIGHT), rtol=1e-6)
    with pytest.raises(composites.RegistryError, match="'weight' has another meaning"):
        decorator("t.taken", intermediates=("weight",))(plain)
