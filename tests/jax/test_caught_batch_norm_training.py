"""Batch norms of flax in training as `batch_norm_training`: the same bits as without, also of the
moving averages, which they change."""

from __future__ import annotations

from collections.abc import Callable
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

BOTH = ("batch_norm_training", "batch_norm_inference")
FORWARD, BACKWARD = "ptxla.batch_norm_training", "ptxla.batch_norm_training_backward"
BACKWARDS = [BACKWARD] if knows_sums() else []
INFERENCE = "ptxla.batch_norm_inference"
IMAGE = jax.random.normal(jax.random.key(0), (2, 5, 3, 8))
BF16 = jnp.bfloat16

Norm = tuple[Callable[[Any, Any], Any], Any]
"""A function of variables and an input, which returns the result and the averages afterwards; and
the variables."""


def _other(variables: Any) -> Any:
    """Variables that are not ones and zeros."""
    return jax.tree.map(lambda v: v + jnp.linspace(0, 1, v.size, dtype=v.dtype), variables)


def _linen(**options: Any) -> Norm:
    module = nn.BatchNorm(use_running_average=False, **options)

    def run(variables: Any, x: Any) -> Any:
        return module.apply(variables, x, mutable=["batch_stats"])

    return run, _other(module.init(jax.random.key(1), IMAGE))


def _nnx(**options: Any) -> Norm:
    graph, state = nnx.split(nnx.BatchNorm(IMAGE.shape[-1], rngs=nnx.Rngs(0), **options))

    def run(variables: Any, x: Any) -> Any:
        module = nnx.merge(graph, variables)
        return module(x), nnx.state(module, nnx.BatchStat)

    return run, _other(state)


MAKERS = pytest.mark.parametrize("make", [_linen, _nnx], ids=["linen", "nnx"])
NORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "f32": (IMAGE, {}),
    "two dimensions": (IMAGE[:, 0, 0], {"epsilon": 1e-3, "momentum": 0.9}),
    "bf16": (IMAGE.astype(BF16), {"dtype": BF16}),
    "slow variance": (IMAGE, {"use_fast_variance": False}),
}


def _with_and_without(program: Callable[..., Any], *arguments: Any) -> str:
    """The program while both entries are on. Bits are those without."""
    compiled = jax.jit(program)
    before = bits(compiled(*arguments))
    with composites.jax.enabled(*BOTH):
        assert bits(compiled(*arguments)) == before
        return compiled.lower(*arguments).as_text()


def _gradients(norm: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def loss(variables: Any, x: Any) -> Any:
        result, averages = norm(variables, x)
        result = jnp.sin(result.astype(jnp.float32))
        return (result * jnp.cos(jnp.arange(result.size)).reshape(result.shape)).sum(), averages

    return jax.value_and_grad(loss, (0, 1), has_aux=True)


@MAKERS
@pytest.mark.parametrize("name", NORMS)
def test_bits(make: Callable[..., Norm], name: str) -> None:
    x, options = NORMS[name]
    norm, variables = make(**options)
    assert composite_names(_with_and_without(norm, variables, x)) == [FORWARD]
    text = _with_and_without(_gradients(norm), variables, x)
    assert composite_names(text) == [FORWARD, *BACKWARDS]


@MAKERS
def test_bits_where_the_input_has_a_further_use(make: Callable[..., Norm]) -> None:
    norm, variables = make()

    def residual(variables: Any, x: Any) -> Any:
        result, averages = norm(variables, x)
        return x * jnp.sin(x + result), averages

    names = composite_names(_with_and_without(_gradients(residual), variables, IMAGE))
    assert FORWARD in names


@MAKERS
def test_operands_and_results_mean_those_of_the_entry(make: Callable[..., Norm]) -> None:
    norm, variables = make(momentum=0.9)
    text = _with_and_without(norm, variables, IMAGE)
    assert "momentum = 1.000000e-01" in text
    assert "eps = 9.99999974E-6 : f32" in text
    by_name = {
        name: leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(variables)
        for name in ("scale", "bias", "mean", "var")
        if f"'{name}'" in jax.tree_util.keystr(path)
    }
    result, mean, var = composites.jax.batch_norm_training(
        jnp.moveaxis(IMAGE, -1, 1),
        *(by_name[name] for name in ("mean", "var", "scale", "bias")),
        momentum=0.1,
        eps=1e-5,
    )
    found, averages = norm(variables, IMAGE)
    np.testing.assert_allclose(jnp.moveaxis(found, -1, 1), result, rtol=2e-5, atol=2e-5)
    for changed, expected in zip(jax.tree.leaves(averages), (mean, var), strict=True):
        np.testing.assert_allclose(changed, expected, rtol=2e-6, atol=2e-6)


@MAKERS
def test_one_entry_takes_what_the_other_leaves(make: Callable[..., Norm]) -> None:
    norm, variables = make()
    with composites.jax.enabled(*BOTH):
        before = composites.jax.stats().entries
        norm(variables, IMAGE)
        after = composites.jax.stats().entries
    assert after[FORWARD].calls == before[FORWARD].calls + 1
    assert after[INFERENCE] == before[INFERENCE]


def test_averages_that_cannot_change_are_an_error_as_in_flax() -> None:
    module = nn.BatchNorm(use_running_average=False)
    variables = module.init(jax.random.key(1), IMAGE)
    with composites.jax.enabled(*BOTH), pytest.raises(Exception, match="immutable"):
        module.apply(variables, IMAGE)


@pytest.mark.parametrize("call", [
    lambda: nn.BatchNorm().apply({}, IMAGE),
    lambda: nnx.BatchNorm(8, use_running_average=None, rngs=nnx.Rngs(0))(IMAGE),
], ids=["linen", "nnx"])  # fmt: skip
def test_averages_or_batch_is_a_question_as_in_flax(call: Callable[[], Any]) -> None:
    with composites.jax.enabled(*BOTH), pytest.raises(Exception, match="use_running_average"):
        call()


def test_initialization_is_left_alone() -> None:
    module = nn.BatchNorm(use_running_average=False)
    expected = bits(module.init(jax.random.key(1), IMAGE))
    with composites.jax.enabled(*BOTH):
        assert bits(module.init(jax.random.key(1), IMAGE)) == expected


def test_a_network_trains_as_without() -> None:
    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any, *, train: bool) -> Any:
            for features in (8, 4):
                x = nn.Conv(features, (3, 3))(x)
                x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
            return nn.Dense(3)(x.mean((1, 2)))

    network = Network()
    variables = network.init(jax.random.key(0), IMAGE, train=True)

    def trained() -> tuple[list[Any], str]:
        def step(variables: Any, x: Any) -> Any:
            def loss(params: Any) -> Any:
                logits, changed = network.apply(
                    {**variables, "params": params}, x, train=True, mutable=["batch_stats"]
                )
                return jnp.square(logits).sum(), changed

            (value, changed), grads = jax.value_and_grad(loss, has_aux=True)(variables["params"])
            params = jax.tree.map(lambda p, g: p - 0.01 * g, variables["params"], grads)
            return value, {"params": params, **changed}

        compiled = jax.jit(step)
        state, losses = variables, []
        for _ in range(3):
            loss, state = compiled(state, IMAGE)
            losses.append(loss)
        answer = network.apply(state, IMAGE, train=False)
        return bits((losses, state, answer)), compiled.lower(state, IMAGE).as_text()

    expected, _ = trained()
    with composites.jax.enabled(*BOTH):
        found, text = trained()
    assert found == expected
    assert composite_names(text) == [FORWARD, FORWARD, *BACKWARDS, *BACKWARDS]
