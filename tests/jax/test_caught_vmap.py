"""Attention and cross entropy under `jax.vmap`: one composite for all calls, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from composites_testing.jax_calls import bits, composite_names

import composites.jax
from lowering.frontends.jax.internals import knows_sums

LOSS, ATTENTION = "ptxla.cross_entropy_loss", "ptxla.dot_product_attention"

loss = optax.softmax_cross_entropy_with_integer_labels
attention = jax.nn.dot_product_attention


def _normal(seed: int, *shape: int) -> Any:
    return jax.random.normal(jax.random.key(seed), shape)


LOGITS = _normal(0, 4, 5, 7)
LABELS = jax.random.randint(jax.random.key(1), (4, 5), 0, 7)
QUERY, KEY, VALUE = _normal(2, 3, 2, 5, 4, 8), _normal(3, 3, 2, 6, 2, 8), _normal(4, 3, 2, 6, 2, 8)
BIAS = _normal(5, 3, 2, 4, 5, 6)
OF_ONE = (QUERY[:, 0], KEY[:, 0], VALUE[:, 0])
"""Without a batch, as in programs that compute one example."""


@dataclass(frozen=True)
class Mapped:
    """A function under `jax.vmap`, and what it is given."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    composite: str
    operands: str
    """Types of the composite's operands."""
    axes: Any = 0


MAPPED = {
    "loss": Mapped(loss, (LOGITS, LABELS), LOSS, "tensor<20x7xf32>, tensor<20xi32>"),
    "loss of one row": Mapped(
        loss, (LOGITS[:, 0], LABELS[:, 0]), LOSS, "tensor<4x7xf32>, tensor<4xi32>"
    ),
    "labels for all": Mapped(
        loss, (LOGITS, LABELS[0]), LOSS, "tensor<20x7xf32>, tensor<20xi32>", (0, None)
    ),
    "another axis": Mapped(
        loss, (LOGITS, LABELS), LOSS, "tensor<20x7xf32>, tensor<20xi32>", (1, 1)
    ),
    "attention": Mapped(
        attention, (QUERY, KEY, VALUE), ATTENTION,
        "tensor<6x5x4x8xf32>, tensor<6x6x2x8xf32>, tensor<6x6x2x8xf32>",
    ),
    "attention of one example": Mapped(
        partial(attention, is_causal=True), OF_ONE, ATTENTION,
        "tensor<3x5x4x8xf32>, tensor<3x6x2x8xf32>, tensor<3x6x2x8xf32>",
    ),
    "mask for all": Mapped(
        lambda q, k, v, m: attention(q, k, v, mask=m), (QUERY, KEY, VALUE, BIAS[0] > -1), ATTENTION,
        "tensor<6x5x4x8xf32>, tensor<6x6x2x8xf32>, tensor<6x6x2x8xf32>, tensor<6x4x5x6xi1>",
        (0, 0, 0, None),
    ),
    "bias and mask": Mapped(
        lambda q, k, v, b: attention(q, k, v, b, b > -1), (QUERY, KEY, VALUE, BIAS), ATTENTION,
        "tensor<6x5x4x8xf32>, tensor<6x6x2x8xf32>, tensor<6x6x2x8xf32>, tensor<6x4x5x6xi1>,"
        " tensor<6x4x5x6xf32>",
    ),
    "mask of one example": Mapped(
        lambda q, k, v, m: attention(q, k, v, mask=m), (*OF_ONE, BIAS[:, 0] > -1), ATTENTION,
        "tensor<3x5x4x8xf32>, tensor<3x6x2x8xf32>, tensor<3x6x2x8xf32>, tensor<3x4x5x6xi1>",
    ),
    "flax": Mapped(
        nn.dot_product_attention, (QUERY, QUERY + 1, QUERY - 1), ATTENTION,
        "tensor<6x5x4x8xf32>, tensor<6x5x4x8xf32>, tensor<6x5x4x8xf32>",
    ),
}  # fmt: skip


@pytest.fixture(params=MAPPED.values(), ids=list(MAPPED))
def mapped(request: pytest.FixtureRequest) -> Mapped:
    return request.param


def _with_and_without(program: Callable[..., Any], *arrays: Any) -> str:
    """The program's text while the entries are on. Its bits are those without."""
    compiled = jax.jit(program)
    before = bits(compiled(*arrays))
    with composites.jax.enabled("cross_entropy_loss", "dot_product_attention"):
        assert bits(compiled(*arrays)) == before
        return compiled.lower(*arrays).as_text()


def test_forward(mapped: Mapped) -> None:
    text = _with_and_without(jax.vmap(mapped.function, mapped.axes), *mapped.arrays)
    (line,) = [line for line in text.splitlines() if "stablehlo.composite" in line]
    assert f'"{mapped.composite}"' in line
    assert f": ({mapped.operands}) -> " in line


def _summed(function: Callable[..., Any], *arrays: Any) -> Any:
    """A sum with other weights for each result."""
    result = function(*arrays)
    return (result * jnp.cos(jnp.arange(result.size)).reshape(result.shape)).sum()


def test_gradient_of_all(mapped: Mapped) -> None:
    floats = tuple(n for n, x in enumerate(mapped.arrays) if jnp.issubdtype(x.dtype, jnp.floating))
    program = partial(_summed, jax.vmap(mapped.function, mapped.axes))
    text = _with_and_without(jax.value_and_grad(program, floats), *mapped.arrays)
    names = [mapped.composite, f"{mapped.composite}_backward"]
    assert composite_names(text) == (names if knows_sums() else names[:1])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_gradient_of_an_input_with_other_uses(place: int) -> None:
    """JAX adds up gradients one by one, in an order that differs between its releases. A composite
    stays only where its gradient is the first one, so the bits are the same in any place."""
    uses = [lambda logits: jnp.sin(logits).sum(-1), lambda logits: jax.nn.logsumexp(logits, -1)]
    uses.insert(place, lambda logits: jax.vmap(loss)(logits, LABELS))

    def program(logits: Any) -> Any:
        return sum(use(logits) for use in uses).sum()

    names = composite_names(_with_and_without(jax.grad(program), LOGITS))
    assert set(names) <= {LOSS, f"{LOSS}_backward"}


def test_gradient_of_each(mapped: Mapped) -> None:
    """It is JAX's operations, with the same bits."""
    program = jax.vmap(jax.grad(partial(_summed, mapped.function)), mapped.axes)
    assert not composite_names(_with_and_without(program, *mapped.arrays))


def test_the_composite_means_all_calls() -> None:
    """What the entry computes of the merged arrays is what the calls compute one by one."""

    def merged(array: Any) -> Any:
        return array.reshape(-1, *array.shape[2:])

    found = composites.jax.cross_entropy_loss(merged(LOGITS), merged(LABELS), reduction=0)
    np.testing.assert_allclose(found, merged(jax.vmap(loss)(LOGITS, LABELS)), rtol=1e-5)
    found = composites.jax.dot_product_attention(*map(merged, (QUERY, KEY, VALUE)))
    expected = merged(jax.vmap(attention)(QUERY, KEY, VALUE))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    found = composites.jax.dot_product_attention(*OF_ONE, is_causal=True)
    expected = jax.vmap(partial(attention, is_causal=True))(*OF_ONE)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_what_one_composite_cannot_be() -> None:
    """Keys for all calls, a bias for the whole batch of each call, and calls of calls."""
    shared = jax.vmap(attention, (0, None, None))
    summed = jax.value_and_grad(partial(_summed, shared), (0, 1, 2))
    assert not composite_names(_with_and_without(summed, QUERY, KEY[0], VALUE[0]))
    biased = jax.vmap(attention)
    assert not composite_names(_with_and_without(biased, QUERY, KEY, VALUE, BIAS[:, :1]))
    twice = jax.vmap(jax.vmap(attention))
    many = [array[:, :, None] for array in (QUERY, KEY, VALUE)]
    assert not composite_names(_with_and_without(twice, *many))


def test_the_same_array() -> None:
    """JAX adds up the gradients of its uses in an order of its own."""
    x = QUERY + 0

    def program(x: Any) -> Any:
        return _summed(jax.vmap(attention), x, x, x)

    assert not composite_names(_with_and_without(jax.value_and_grad(program), x))


def test_equal_calls_of_many_share_a_decomposition() -> None:
    def program(x: Any, y: Any) -> Any:
        return jax.vmap(loss)(x, LABELS).sum() + jax.vmap(loss)(y, LABELS).sum()

    text = _with_and_without(jax.grad(program, (0, 1)), LOGITS, LOGITS + 1)
    names = composite_names(text)
    if knows_sums():
        assert names.count(LOSS) == names.count(f"{LOSS}_backward") == 2
        assert text.count("func.func private") == len(set(names))
    else:  # the gradient is JAX's operations, and nothing else is asked for
        assert not names


def test_transformations_of_many() -> None:
    many = jax.vmap(loss)

    def scanned(logits: Any) -> Any:
        def step(total: Any, factor: Any) -> tuple[Any, None]:
            return total + many(logits * factor, LABELS).sum(), None

        return jax.lax.scan(step, jnp.zeros(()), jnp.arange(3.0))[0]

    assert composite_names(_with_and_without(scanned, LOGITS)) == [LOSS]
    tangent = jnp.ones_like(LOGITS)
    pushed = lambda x: jax.jvp(lambda x: many(x, LABELS), (x,), (tangent,))  # noqa: E731
    assert LOSS in composite_names(_with_and_without(pushed, LOGITS))
    program = jax.grad(lambda x: jnp.square(jax.grad(lambda x: many(x, LABELS).sum())(x)).sum())
    before = jax.jit(program)(LOGITS)
    kept = jax.grad(jax.checkpoint(lambda x: many(x, LABELS).sum()))
    with composites.jax.enabled("cross_entropy_loss"):
        compiled = [jax.jit(one).lower(LOGITS) for one in (program, kept)]
        names = [composite_names(one.as_text()) for one in compiled]
        found = [one.compile()(LOGITS) for one in compiled]
    for of_one in names:
        expected = [LOSS, f"{LOSS}_backward"]
        assert of_one == expected if knows_sums() else set(of_one) <= {LOSS}
    np.testing.assert_allclose(found[0], before, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], kept(LOGITS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", ["softmax", "dot_product_attention"])
def test_symbolic_sizes(name: str, mapped: bool) -> None:
    """JAX maps the softmax of its attention over the batch. JAX can have no composite there."""
    program = jax.grad(lambda x: jnp.square(attention(x, 2 * x, x + 1)).sum())
    program = jax.vmap(program) if mapped else program
    values = QUERY if mapped else QUERY[0]
    (batch,) = jax.export.symbolic_shape("batch")
    type_ = jax.ShapeDtypeStruct((batch, *values.shape[1:]), values.dtype)
    before = jax.export.export(jax.jit(program))(type_)
    with composites.jax.enabled(name):
        exported = jax.export.export(jax.jit(program))(type_)
    assert "stablehlo.composite" not in exported.mlir_module()
    np.testing.assert_allclose(exported.call(values), before.call(values), rtol=1e-5, atol=1e-5)
