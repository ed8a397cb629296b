"""Composites under JAX's transformations: the numbers are those of JAX's own functions, and the
composites are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing.jax_calls import composite_names
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import composites.jax

X = jnp.linspace(-2.0, 2.0, 24).reshape(4, 6)
WEIGHT = jnp.arange(18.0).reshape(6, 3)
MANY = jnp.stack([X, 2 * X, X - 1])


def compare(function: Callable[..., Any], plain: Callable[..., Any], *arrays: Any) -> Counter[str]:
    """The composites of a program, whose numbers are compared with those of another one."""
    lowered = jax.jit(function).lower(*arrays)
    ours, theirs = jax.tree.leaves(lowered.compile()(*arrays)), jax.tree.leaves(plain(*arrays))
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        wide = np.asarray(one, np.float64), np.asarray(other, np.float64)
        tolerance = 2e-2 if one.dtype == jnp.bfloat16 else 1e-5
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)
    return Counter(composite_names(lowered.as_text()))


def squares(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: (function(x) ** 2).sum()


def functions_of(function: Callable[..., Any], *arrays: Any) -> int:
    text = jax.jit(function).lower(*arrays).as_text()
    return int(text.count("func.func private"))


def test_jit_and_outside(subject: Any) -> None:
    assert compare(subject.run, subject.plain, X) == {subject.name: 1}
    np.testing.assert_allclose(subject.run(X), subject.plain(X), rtol=1e-5, atol=1e-6)


def test_grad(subject: Any) -> None:
    found = compare(jax.grad(squares(subject.run)), jax.grad(squares(subject.plain)), X)
    assert found == {subject.name: 1, subject.backward: 1}


def test_grad_outside_of_jit(subject: Any) -> None:
    ours, theirs = jax.grad(squares(subject.run))(X), jax.grad(squares(subject.plain))(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_without_jit(subject: Any) -> None:
    with jax.disable_jit():
        ours, gradient = jax.value_and_grad(squares(subject.run))(X)
        theirs, expected = jax.value_and_grad(squares(subject.plain))(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


def test_grad_of_grad(subject: Any) -> None:
    def second(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return jax.grad(lambda x: (jax.grad(squares(function))(x) ** 2).sum())

    ours, theirs = second(subject.run)(X), second(subject.plain)(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_forward_mode(subject: Any) -> None:
    def pushed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: jax.jvp(function, (x,), (jnp.cos(x),))

    assert compare(pushed(subject.run), pushed(subject.plain), X) == {subject.name: 1}


def test_linear_transpose(subject: Any) -> None:
    """A gradient is linear in that of the result, and its transpose pushes tangents forward."""
    pull = jax.vjp(subject.run, X)[1]
    ours = jax.linear_transpose(lambda grad: pull(grad)[0], X)(jnp.cos(X))[0]
    theirs = jax.jvp(subject.plain, (X,), (jnp.cos(X),))[1]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def product(x: Any) -> Any:
    return composites.jax.mm(x, WEIGHT, jnp.float32)


def test_linear_transpose_of_an_entry() -> None:
    assert (jax.linear_transpose(product, X)(X @ WEIGHT)[0] == X @ WEIGHT @ WEIGHT.T).all()
    weight = jax.linear_transpose(lambda w: composites.jax.mm(X, w, jnp.float32), WEIGHT)(X[:, :3])
    assert (weight[0] == X.T @ X[:, :3]).all()


def test_the_gradient_of_a_composite_of_tangents() -> None:
    @jax.custom_jvp
    def sine(x: Any) -> Any:
        return jnp.sin(x) @ WEIGHT

    sine.defjvp(lambda x, tangent: (sine(*x), product(jnp.cos(x[0]) * tangent[0])))
    ours = jax.jit(jax.grad(lambda x: sine(x).sum()))(X)
    theirs = jax.grad(lambda x: (jnp.sin(x) @ WEIGHT).sum())(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transform", [jax.jacfwd, jax.jacrev, jax.hessian])
def test_jacobians(subject: Any, transform: Callable[..., Any]) -> None:
    ours = transform(lambda x: squares(subject.run)(x))(X)
    theirs = transform(lambda x: squares(subject.plain)(x))(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_vmap(subject: Any) -> None:
    assert compare(jax.vmap(subject.run), jax.vmap(subject.plain), MANY) == {subject.name: 1}


def test_vmap_over_other_dimensions(subject: Any) -> None:
    moved = jnp.moveaxis(MANY, 0, 1)
    ours = jax.vmap(subject.run, in_axes=1, out_axes=2)
    theirs = jax.vmap(subject.plain, in_axes=1, out_axes=2)
    assert compare(ours, theirs, moved) == {subject.name: 1}


def test_vmap_of_grad(subject: Any) -> None:
    ours = jax.vmap(jax.grad(squares(subject.run)))
    theirs = jax.vmap(jax.grad(squares(subject.plain)))
    assert compare(ours, theirs, MANY) == {subject.name: 1, subject.backward: 1}


def test_grad_of_vmap(subject: Any) -> None:
    ours = jax.grad(squares(jax.vmap(subject.run)))
    theirs = jax.grad(squares(jax.vmap(subject.plain)))
    assert compare(ours, theirs, MANY) == {subject.name: 1, subject.backward: 1}


def test_the_attribute_moves_with_the_dimension() -> None:
    text = jax.jit(jax.vmap(lambda x: composites.jax.softmax(x, 0, False))).lower(MANY).as_text()
    assert "{dim = 1 : i64}" in text


def test_no_composite_says_what_it_does_not_compute() -> None:
    """One weight for each call is no layer norm: the composite has one for all."""

    def norm(x: Any, weight: Any) -> Any:
        return composites.jax.layer_norm(x, [6], weight, None, 1e-5)[0]

    weights = jnp.arange(18.0).reshape(3, 6)
    assert (
        compare(jax.vmap(norm), lambda x, w: jnp.stack(list(map(norm, x, w))), MANY, weights) == {}
    )


def test_scan(subject: Any) -> None:
    def loss(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: jax.lax.scan(lambda c, _: (function(c) * 0.5, None), x, None, 3)[0].sum()

    found = compare(jax.grad(loss(subject.run)), jax.grad(loss(subject.plain)), X)
    assert found == {subject.name: 1, subject.backward: 1}


def test_remat(subject: Any) -> None:
    def loss(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: (jax.checkpoint(lambda y: function(function(y)))(x) ** 2).sum()

    found = compare(jax.grad(loss(subject.run)), jax.grad(loss(subject.plain)), X)
    assert found[subject.backward] == 2
    # Each is computed again, unless the backward of the last one takes its operand only.
    assert found[subject.name] == (3 if subject.name == "ptxla.gelu" else 4)


def test_while_loop(subject: Any) -> None:
    def repeat(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: jax.lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, function(c[1])), (0, x)
        )[1]

    assert compare(repeat(subject.run), repeat(subject.plain), X) == {subject.name: 1}


def test_shard_map(subject: Any) -> None:
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))

    def shards(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        spec = PartitionSpec("d")
        return jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec)

    assert compare(shards(subject.run), shards(subject.plain), X) == {subject.name: 1}
    found = compare(
        jax.grad(squares(shards(subject.run))), jax.grad(squares(shards(subject.plain))), X
    )
    assert found == {subject.name: 1, subject.backward: 1}


def test_explicit_shardings_leave_the_decomposition(subject: Any) -> None:
    mesh = jax.make_mesh((1,), ("d",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(MANY, NamedSharding(mesh, PartitionSpec("d")))
        for change in (jax.vmap, lambda f: jax.grad(squares(f))):
            assert compare(change(subject.run), change(subject.plain), x) == {}
            found, expected = (jax.jit(change(f))(x) for f in (subject.run, subject.plain))
            assert jax.typeof(found) == jax.typeof(expected)
        # The type of this result is another one in JAX 0.7.1, where jnp.asarray alone changes it.
        run, plain = (jax.vmap(f, in_axes=1) for f in (subject.run, subject.plain))
        assert compare(run, plain, x) == {}


def test_bfloat16(subject: Any) -> None:
    narrow = X.astype(jnp.bfloat16)
    if subject.name == "ptxla.layer_norm":  # its weights are of the same type
        weights = [jnp.linspace(0.5, 1.5, 6).astype(jnp.bfloat16), jnp.zeros(6, jnp.bfloat16)]
        found = jax.jit(lambda x: composites.jax.layer_norm(x, [6], *weights, 1e-5)[0])(narrow)
        assert found.dtype == jnp.bfloat16
        return
    assert compare(subject.run, subject.plain, narrow) == {subject.name: 1}


def test_calls_of_a_kind_share_a_decomposition(subject: Any) -> None:
    def loss(x: Any) -> Any:
        return reduce(lambda y, _: subject.run(y), range(20), x).sum()

    text = jax.jit(jax.grad(loss)).lower(X).as_text()
    assert Counter(composite_names(text))[subject.backward] == 20
    assert functions_of(jax.grad(loss), X) == 2
