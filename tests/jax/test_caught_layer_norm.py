"""Layer norms of flax in bf16, as mixed precision has them: the same bits as without."""

from __future__ import annotations

from collections import Counter
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

FORWARD, BACKWARD = "ptxla.layer_norm", "ptxla.layer_norm_backward"
X = jax.random.normal(jax.random.key(0), (3, 5, 16))
F32, BF16 = jnp.float32, jnp.bfloat16

Norm = tuple[Callable[[Any, Any], Any], Any]
"""A function of an input and parameters, and the parameters."""


def _linen(x: Any, **types: Any) -> Norm:
    module = nn.LayerNorm(**types)
    return (lambda x, p: module.apply(p, x)), _other(module.init(jax.random.key(1), x))


def _nnx(x: Any, **types: Any) -> Norm:
    graph, state = nnx.split(nnx.LayerNorm(x.shape[-1], rngs=nnx.Rngs(0), **types))
    return (lambda x, p: nnx.merge(graph, p)(x)), _other(state)


def _other(parameters: Any) -> Any:
    """Parameters that are not ones and zeros."""
    return jax.tree.map(lambda p: p + jnp.linspace(0, 1, p.size, dtype=p.dtype), parameters)


def _weighted(norm: Callable[[Any, Any], Any], x: Any, parameters: Any) -> Any:
    """A sum with other weights for each result."""
    result = jnp.sin(norm(x, parameters).astype(F32))
    return (result * jnp.cos(jnp.arange(result.size)).reshape(result.shape)).sum()


def _with_and_without(program: Callable[..., Any], *arguments: Any) -> tuple[Counter[str], str]:
    """The composites of a program while the entry is on, and its text. Bits are those without."""
    compiled = jax.jit(program)
    before = bits(compiled(*arguments))
    with composites.jax.enabled("layer_norm"):
        assert bits(compiled(*arguments)) == before
        text = compiled.lower(*arguments).as_text()
    return Counter(composite_names(text)), text


@pytest.mark.parametrize("make", [_linen, _nnx], ids=["linen", "nnx"])
@pytest.mark.parametrize(
    ("input_type", "types"),
    [
        (F32, {}),
        (BF16, {"dtype": BF16}),
        (BF16, {"dtype": BF16, "param_dtype": BF16}),
        (BF16, {"param_dtype": BF16}),
    ],
    ids=["f32", "bf16", "bf16 parameters", "bf16 by its operands"],
)
def test_bits(make: Callable[..., Norm], input_type: Any, types: Any) -> None:
    x = X.astype(input_type)
    norm, parameters = make(x, **types)
    found, text = _with_and_without(norm, x, parameters)
    assert found == {FORWARD: 1}
    of_input = "f32" if input_type is F32 else "bf16"
    of_parameters = "bf16" if "param_dtype" in types else "f32"
    # Mean and reciprocal standard deviation have the input's type, as in PyTorch programs.
    assert (
        f"(tensor<3x5x16x{of_input}>, tensor<16x{of_parameters}>, tensor<16x{of_parameters}>)"
        f" -> (tensor<3x5x16x{of_input}>, tensor<3x5x1x{of_input}>, tensor<3x5x1x{of_input}>)"
    ) in text
    gradient = jax.value_and_grad(partial(_weighted, norm), (0, 1))
    backward = {BACKWARD: 1} if knows_sums() else {}
    assert _with_and_without(gradient, x, parameters)[0] == {FORWARD: 1, **backward}


@pytest.mark.parametrize("dtype", [BF16, F32], ids=["bf16", "f32"])
def test_moments_are_those_of_the_entry(dtype: Any) -> None:
    """What a kernel of the forward returns beside the output means the same as in the entry."""
    from composites.jax_functions.norms import _WithMoments

    x = (3 * X + 1).astype(dtype)
    found = _WithMoments(lambda x: [x], (2,), 1e-6)(x)[1:]
    expected = composites.jax.layer_norm(x, [16], None, None, 1e-6)[1:]
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        tolerance = 1e-2 if dtype is BF16 else 1e-5
        np.testing.assert_allclose(
            one.astype(F32), other.astype(F32), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("make", [_linen, _nnx], ids=["linen", "nnx"])
@pytest.mark.parametrize(("input_type", "dtype"), [(BF16, None), (BF16, F32), (F32, BF16)], ids=str)
def test_results_of_another_type_are_left_alone(
    make: Callable[..., Norm], input_type: Any, dtype: Any
) -> None:
    x = X.astype(input_type)
    norm, parameters = make(x, dtype=dtype)
    assert norm(x, parameters).dtype != x.dtype
    assert not _with_and_without(norm, x, parameters)[0]
    found = composites.jax.stats().entries[FORWARD].fallbacks
    assert any("results are not those of the entry" in fallback.reason for fallback in found)
