"""Group norms of flax as `group_norm`, which has channels in front: the same bits as without."""

from __future__ import annotations

from collections import Counter
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

NAME, FORWARD, BACKWARD = "group_norm", "ptxla.group_norm", "ptxla.group_norm_backward"
IMAGE = jax.random.normal(jax.random.key(0), (2, 5, 3, 8))

Norm = tuple[Callable[[Any, Any], Any], Any]
"""A function of an input and parameters, and the parameters."""


def _other(parameters: Any) -> Any:
    """Parameters that are not ones and zeros."""
    return jax.tree.map(lambda p: p + jnp.linspace(0, 1, p.size, dtype=p.dtype), parameters)


def _linen(x: Any, *groups: Any, **options: Any) -> Norm:
    module = nn.GroupNorm(*groups, **options)
    return (lambda x, p: module.apply(p, x)), _other(module.init(jax.random.key(1), x))


def _nnx(x: Any, groups: int, **options: Any) -> Norm:
    module = nnx.GroupNorm(x.shape[-1], groups, rngs=nnx.Rngs(0), **options)
    graph, state = nnx.split(module)
    return (lambda x, p: nnx.merge(graph, p)(x)), _other(state)


NORMS: dict[str, tuple[Any, Callable[[Any], Norm]]] = {
    "linen": (IMAGE, lambda x: _linen(x, 4)),
    "sizes of groups": (IMAGE, lambda x: _linen(x, None, group_size=2, use_bias=False)),
    "without parameters": (IMAGE, lambda x: _linen(x, 2, use_bias=False, use_scale=False)),
    "slow variance": (IMAGE, lambda x: _linen(x, 2, use_fast_variance=False, epsilon=1e-3)),
    "channels alone": (IMAGE[:, 0, 0], lambda x: _linen(x, 4)),
    "one dimension": (IMAGE[:, 0], lambda x: _linen(x, 1, reduction_axes=(1, -1))),
    "nnx": (IMAGE, lambda x: _nnx(x, 4)),
    "nnx without bias": (IMAGE, lambda x: _nnx(x, 2, use_bias=False)),
    "bf16": (
        IMAGE.astype(jnp.bfloat16),
        lambda x: _linen(x, 4, dtype=jnp.bfloat16, param_dtype=jnp.bfloat16),
    ),
}


def _weighted(norm: Callable[[Any, Any], Any], x: Any, parameters: Any) -> Any:
    """A sum with other weights for each result."""
    result = norm(x, parameters).astype(jnp.float32)
    return (result * jnp.cos(jnp.arange(result.size)).reshape(result.shape)).sum()


def _residual(norm: Callable[[Any, Any], Any], x: Any, parameters: Any) -> Any:
    """The input has a further use, as in blocks of diffusion models."""
    return (jnp.sin(x + norm(x, parameters)) * x).astype(jnp.float32).sum()


def _with_and_without(program: Callable[..., Any], *arguments: Any) -> Counter[str]:
    """The composites of a program while the entry is on. Bits are those without."""
    compiled = jax.jit(program)
    before = bits(compiled(*arguments))
    with composites.jax.enabled(NAME):
        assert bits(compiled(*arguments)) == before
        found = composite_names(compiled.lower(*arguments).as_text())
    assert "stablehlo.composite" not in compiled.lower(*arguments).as_text()
    return Counter(found)


@pytest.mark.parametrize("name", NORMS)
def test_bits(name: str) -> None:
    x, make = NORMS[name]
    norm, parameters = make(x)
    backward = {BACKWARD: 1} if knows_sums() else {}
    assert _with_and_without(norm, x, parameters) == {FORWARD: 1}
    gradient = jax.value_and_grad(partial(_weighted, norm), (0, 1))
    assert _with_and_without(gradient, x, parameters) == {FORWARD: 1, **backward}
    # JAX adds the gradients of the norm's operations to that of the other use, one by one.
    gradient = jax.value_and_grad(partial(_residual, norm), (0, 1))
    assert _with_and_without(gradient, x, parameters) == {FORWARD: 1}


def test_operands_and_attributes() -> None:
    norm, parameters = _linen(IMAGE, 4)
    with composites.jax.enabled(NAME):
        text = jax.jit(norm).lower(IMAGE, parameters).as_text()
    (line,) = [line for line in text.splitlines() if "stablehlo.composite" in line]
    assert (
        "{C = 8 : i64, HxW = 15 : i64, N = 2 : i64, eps = 9.99999997E-7 : f32, group = 4 : i64}"
    ) in line
    assert "(tensor<2x8x5x3xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x5x3xf32>, " in line
    assert "tensor<2x4xf32>, tensor<2x4xf32>)" in line  # mean, reciprocal standard deviation


@pytest.mark.parametrize("name", ["linen", "nnx", "slow variance"])
def test_flax_means_the_entry(name: str) -> None:
    """It computes what PyTorch's operator does, of channels in front."""
    x, make = NORMS[name]
    norm, parameters = make(x)
    scale, bias = None, None
    for path, leaf in jax.tree_util.tree_leaves_with_path(parameters):
        if "scale" in jax.tree_util.keystr(path):
            scale = leaf
        else:
            bias = leaf
    groups = 4 if name in ("linen", "nnx") else 2
    eps = 1e-3 if name == "slow variance" else 1e-6

    def entry(x: Any) -> Any:
        front = jnp.moveaxis(x, -1, 1)
        found = composites.jax.group_norm(front, scale, bias, 2, 8, 15, groups, eps)
        return jnp.moveaxis(found[0], 1, -1)

    np.testing.assert_allclose(norm(x, parameters), entry(x), rtol=2e-5, atol=2e-5)
    found = jax.grad(lambda x: _weighted(lambda x, _: entry(x), x, None))(x)
    expected = jax.grad(partial(_weighted, norm))(x, parameters)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def test_transformations() -> None:
    norm, parameters = _linen(IMAGE, 4)
    one = partial(_weighted, norm)

    def scanned(x: Any, parameters: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            return norm(x, parameters), None

        return jax.lax.scan(step, x, jnp.arange(3))[0]

    assert _with_and_without(scanned, IMAGE, parameters) == {FORWARD: 1}
    many = jnp.stack([IMAGE, 2 * IMAGE])
    assert _with_and_without(jax.vmap(norm, (0, None)), many, parameters) == {}
    tangent = jnp.ones_like(IMAGE)
    pushed = lambda x, p: jax.jvp(lambda x: one(x, p), (x,), (tangent,))  # noqa: E731
    assert _with_and_without(pushed, IMAGE, parameters)[FORWARD] == 1
    program = jax.grad(lambda x, p: jnp.square(jax.grad(one)(x, p)).sum())
    before = jax.jit(program)(IMAGE, parameters)
    with composites.jax.enabled(NAME):
        programs = (program, jax.grad(jax.checkpoint(one)))
        lowered = [jax.jit(one).lower(IMAGE, parameters) for one in programs]
        names = [composite_names(one.as_text()) for one in lowered]
        again, kept = (one.compile()(IMAGE, parameters) for one in lowered)
    for of_one in names:
        assert of_one == [FORWARD, BACKWARD] if knows_sums() else set(of_one) <= {FORWARD}
    np.testing.assert_allclose(again, before, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(kept, jax.grad(one)(IMAGE, parameters), rtol=1e-5, atol=1e-5)


def test_symbolic_sizes() -> None:
    norm, parameters = _linen(IMAGE, 4)
    (batch,) = jax.export.symbolic_shape("batch")
    type_ = jax.ShapeDtypeStruct((batch, *IMAGE.shape[1:]), IMAGE.dtype)
    with composites.jax.enabled(NAME):
        exported = jax.export.export(jax.jit(norm))(type_, parameters)
        found = composites.jax.stats().entries[FORWARD].fallbacks
    assert any(
        __file__ in site for f in found if "a size is a symbol" in f.reason for site in f.sites
    )
    assert "stablehlo.composite" not in exported.mlir_module()
    np.testing.assert_allclose(
        exported.call(IMAGE, parameters), norm(IMAGE, parameters), rtol=1e-5, atol=1e-5
    )


def test_outside_of_jit() -> None:
    norm, parameters = _linen(IMAGE, 4)
    gradient = jax.grad(partial(_weighted, norm), (0, 1))
    before = bits([norm(IMAGE, parameters), gradient(IMAGE, parameters)])
    with composites.jax.enabled(NAME):
        assert bits([norm(IMAGE, parameters), gradient(IMAGE, parameters)]) == before


class Block(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        y = nn.Conv(16, (3, 3))(nn.silu(nn.GroupNorm(4)(x)))
        y = nn.Conv(x.shape[-1], (3, 3))(nn.silu(nn.GroupNorm(4)(y)))
        return x + y


def test_training_of_convolutions() -> None:
    model, optimizer = nn.Sequential([Block(), Block()]), optax.adamw(1e-2)
    parameters = model.init(jax.random.key(1), IMAGE)

    @jax.jit
    def step(parameters: Any, state: Any) -> Any:
        def loss(parameters: Any) -> Any:
            return jnp.square(model.apply(parameters, IMAGE)).mean()

        gradients = jax.grad(loss)(parameters)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state

    def train() -> list[bytes]:
        values = parameters, optimizer.init(parameters)
        for _ in range(3):
            values = step(*values)
        return bits(values)

    before = train()
    with composites.jax.enabled(NAME):
        assert train() == before
        text = step.lower(parameters, optimizer.init(parameters)).as_text()
    found = Counter(composite_names(text))
    assert found[FORWARD] == 4
    # Of the inputs with one use, and of the images, which need no gradient.
    assert found[BACKWARD] == (3 if knows_sums() else 0)


FALLBACKS: dict[str, tuple[Callable[[], Any], str]] = {
    "mask": (
        lambda: nn.GroupNorm(2, use_bias=False, use_scale=False).apply(
            {}, IMAGE, mask=jnp.ones(IMAGE.shape, bool)
        ),
        "it has a mask",
    ),
    "axes": (
        lambda: _linen(IMAGE, 2, reduction_axes=(2, 3))[0](
            IMAGE, nn.GroupNorm(2, reduction_axes=(2, 3)).init(jax.random.key(0), IMAGE)
        ),
        "its axes are not all but the first one",
    ),
    "bias alone": (
        lambda: _linen(IMAGE, 2, use_scale=False)[0](IMAGE, _linen(IMAGE, 2, use_scale=False)[1]),
        "bias is given, and weight is not",
    ),
    "no elements": (
        lambda: _linen(IMAGE, 2)[0](IMAGE[:0], _linen(IMAGE, 2)[1]),
        "the input has no elements",
    ),
    "no batch": (lambda: _linen(IMAGE, 2)[0](IMAGE[0, 0, 0], _linen(IMAGE, 2)[1]), "no batch"),
    "other type": (
        lambda: _linen(IMAGE, 2)[0](IMAGE.astype(jnp.bfloat16), _linen(IMAGE, 2)[1]),
        "results are not those of the entry",
    ),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_fallback(name: str) -> None:
    program, reason = FALLBACKS[name]
    before = bits(program())
    with composites.jax.enabled(NAME):
        assert bits(program()) == before
    found = composites.jax.stats().entries[FORWARD].fallbacks
    assert any(__file__ in site for f in found if reason in f.reason for site in f.sites)


def test_mistakes_are_those_of_flax() -> None:
    with composites.jax.enabled(NAME), pytest.raises(ValueError, match="does not divide"):
        nn.GroupNorm(3, use_bias=False, use_scale=False).apply({}, IMAGE)
