"""Composites under JAX's transformations have the numbers of JAX's own functions."""

from collections import Counter
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from composites_testing.jax_calls import composite_names
from composites_testing.jax_subjects import SUBJECTS, Subject
from composites_testing.selection import variants
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import composites.jax

Function = Callable[..., Any]

X = jnp.asarray(np.linspace(-2, 2, 24).reshape(4, 6), jnp.float32)
WEIGHT = jnp.asarray(np.arange(18).reshape(6, 3), jnp.float32)
MANY = np.asarray(X) * np.asarray([[[1.0]], [[2.0]], [[-1.0]]], np.float32)


def squares(function: Function) -> Function:
    return lambda x: (function(x) ** 2).sum()


def functions_of(function: Function, *arrays: Any) -> int:
    text = jax.jit(function).lower(*arrays).as_text()
    return int(text.count("func.func private"))


def pushed(function: Function) -> Function:
    return lambda x: jax.jvp(function, (x,), (jnp.cos(x),))


def scanned(function: Function) -> Function:
    return lambda x: jax.lax.scan(lambda c, _: (function(c) * 0.5, None), x, None, 3)[0].sum()


def repeated(function: Function) -> Function:
    return lambda x: jax.lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, function(c[1])), (0, x)
    )[1]


def sharded(function: Function) -> Function:
    mesh, spec = Mesh(np.array(jax.devices()[:1]), ("d",)), PartitionSpec("d")
    return jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec)


FORWARD, BOTH = (1, 0), (1, 1)
CHANGES: dict[str, tuple[Function, Any, tuple[int, int] | None]] = {
    "jit": (lambda f: f, X, FORWARD),
    "grad": (lambda f: jax.grad(squares(f)), X, BOTH),
    "grad of grad": (lambda f: jax.grad(squares(lambda x: jax.grad(squares(f))(x))), X, None),
    "jvp": (pushed, X, FORWARD),
    "vmap": (jax.vmap, MANY, FORWARD),
    "vmap over other dimensions": (
        lambda f: jax.vmap(f, in_axes=1, out_axes=2), np.moveaxis(MANY, 0, 1), FORWARD,
    ),
    "vmap of grad": (lambda f: jax.vmap(jax.grad(squares(f))), MANY, BOTH),
    "grad of vmap": (lambda f: jax.grad(squares(jax.vmap(f))), MANY, BOTH),
    "jacfwd": (lambda f: jax.jacfwd(squares(f)), X, None),
    "jacrev": (lambda f: jax.jacrev(squares(f)), X, None),
    "hessian": (lambda f: jax.hessian(squares(f)), X, None),
    "scan": (lambda f: jax.grad(scanned(f)), X, BOTH),
    "while_loop": (repeated, X, FORWARD),
    "shard_map": (sharded, X, FORWARD),
    "grad of shard_map": (lambda f: jax.grad(squares(sharded(f))), X, BOTH),
}  # fmt: skip
"""Transformations, their arguments, and the composites of a subject in forward and backward."""
SLOW = ("grad of grad", "jacfwd", "jacrev", "hessian", "vmap over other dimensions", "grad of vmap")


@variants("name", CHANGES, fast=CHANGES.keys() - SLOW)
def test_transformations(name: str) -> None:
    change, x, counts = CHANGES[name]

    def program(use_entries: bool) -> Any:
        runs = {s.name: s.run if use_entries else s.plain for s in SUBJECTS}
        return jax.jit(lambda x: {name: change(run)(x) for name, run in runs.items()})

    lowered = program(True).lower(x)
    ours, theirs = lowered.compile()(x), program(False)(x)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), ours, theirs)
    assert [a.dtype for a in jax.tree.leaves(ours)] == [a.dtype for a in jax.tree.leaves(theirs)]
    written = Counter(composite_names(lowered.as_text()))
    if counts is not None:
        expected = {s.name: counts[0] for s in SUBJECTS} | {s.backward: counts[1] for s in SUBJECTS}
        assert written == {name: count for name, count in expected.items() if count}


def compare(function: Function, plain: Function, *arrays: Any) -> Counter[str]:
    """The composites of a program, whose numbers are compared with those of another one."""
    lowered = jax.jit(function).lower(*arrays)
    ours = jax.tree.leaves(lowered.compile()(*arrays))
    theirs = jax.tree.leaves(jax.jit(plain)(*arrays))
    for actual, expected in zip(ours, theirs, strict=True):
        assert actual.dtype == expected.dtype
        wide = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
        tolerance = 2e-2 if actual.dtype == jnp.bfloat16 else 1e-5
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)
    return Counter(composite_names(lowered.as_text()))


def test_outside_of_jit(subject: Subject) -> None:
    ours, theirs = subject.run(X), jax.jit(subject.plain)(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    value_and_gradient = jax.value_and_grad(squares(subject.run))
    expected = jax.jit(jax.value_and_grad(squares(subject.plain)))(X)
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    jax.tree.map(close, value_and_gradient(X), expected)
    with jax.disable_jit():
        jax.tree.map(close, value_and_gradient(X), expected)
    # A gradient is linear in that of the result, and its transpose pushes tangents forward.
    pull = jax.vjp(subject.run, X)[1]
    ours = jax.linear_transpose(lambda grad: pull(grad)[0], X)(jnp.cos(X))[0]
    close(ours, jax.jit(pushed(subject.plain))(X)[1])


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


def test_the_attribute_moves_with_the_dimension() -> None:
    text = jax.jit(jax.vmap(lambda x: composites.jax.softmax(x, 0))).lower(MANY).as_text()
    assert "{dim = 1 : i64}" in text


def test_no_composite_says_what_it_does_not_compute() -> None:
    """A layer norm has one weight for all calls; one weight for each is not a composite."""

    def norm(x: Any, weight: Any) -> Any:
        return composites.jax.layer_norm(x, [6], weight, None, 1e-5)[0]

    weights = jnp.arange(18.0).reshape(3, 6)
    assert (
        compare(jax.vmap(norm), lambda x, w: jnp.stack(list(map(norm, x, w))), MANY, weights) == {}
    )


def test_remat(subject: Subject) -> None:
    def loss(function: Function) -> Function:
        return lambda x: (jax.checkpoint(lambda y: function(function(y)))(x) ** 2).sum()

    counts = compare(jax.grad(loss(subject.run)), jax.grad(loss(subject.plain)), X)
    assert counts[subject.backward] == 2
    # Each is computed again, unless the backward of the last one takes its operand only.
    assert counts[subject.name] == (3 if subject.name in ("ptxla.gelu", "acme.swish") else 4)


def test_explicit_shardings_leave_the_decomposition(subject: Subject) -> None:
    mesh = jax.make_mesh((1,), ("d",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(MANY, NamedSharding(mesh, PartitionSpec("d")))
        for change in (jax.vmap, lambda f: jax.grad(squares(f))):
            assert compare(change(subject.run), change(subject.plain), x) == {}
            actual, expected = (jax.jit(change(f))(x) for f in (subject.run, subject.plain))
            assert jax.typeof(actual) == jax.typeof(expected)
        # The type of this result is another one in JAX 0.7.1, where jnp.asarray alone changes it.
        run, plain = (jax.vmap(f, in_axes=1) for f in (subject.run, subject.plain))
        assert compare(run, plain, x) == {}


def test_bfloat16(subject: Subject) -> None:
    narrow = X.astype(jnp.bfloat16)
    if subject.name == "ptxla.layer_norm":  # its weights are of the same type
        weights = [jnp.linspace(0.5, 1.5, 6).astype(jnp.bfloat16), jnp.zeros(6, jnp.bfloat16)]
        result = jax.jit(lambda x: composites.jax.layer_norm(x, [6], *weights, 1e-5)[0])(narrow)
        assert result.dtype == jnp.bfloat16
        return
    assert compare(subject.run, subject.plain, narrow) == {subject.name: 1}


def test_calls_of_a_kind_share_a_decomposition(subject: Subject) -> None:
    def loss(x: Any) -> Any:
        return reduce(lambda y, _: subject.run(y), range(20), x).sum()

    text = jax.jit(jax.grad(loss)).lower(X).as_text()
    assert Counter(composite_names(text))[subject.backward] == 20
    assert functions_of(jax.grad(loss), X) == 2
