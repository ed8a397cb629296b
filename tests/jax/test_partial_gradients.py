"""Gradients of some operands only: they are those that the gradient of all operands has."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing.jax_calls import composite_names, differentiable
from composites_testing.jax_entries import ENTRIES, RANDOM, entry_name, example_of, mark_runs

import composites.jax
from composites.errors import LoweringError
from lowering.jax_entries.availability import as_jax_call
from lowering.jax_entries.definition import Definition

FAST = ("batch_norm_inference", "layer_norm", "group_norm", "mm", "grid_sampler_2d", "addmm")

# Numbers of arrays, for which PyTorch has no derivative: weights of losses, and statistics.
CONSTANTS = {
    "nll_loss": (2,),
    "nll_loss2d": (2,),
    "binary_cross_entropy": (2,),
    "batch_norm_inference": (3, 4),
    "batch_norm_training": (1, 2),
}
WITHOUT_GRADIENT = ("int8_dynamic_linear",)
"""Entries whose input has no gradient in PyTorch. Where nothing else has one, JAX differentiates
the decomposition."""


def definitions() -> list[Definition]:
    return [
        d
        for d in ENTRIES.definitions
        if (d.entry.derives or d.backward) and d.entry.name not in {*RANDOM, *WITHOUT_GRADIENT}
    ]


def total(call: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of the first result of floats, which is the one that always has a gradient."""

    def run(*arrays: Any) -> Any:
        parts = [r for r in jax.tree.leaves(call(*arrays)) if jnp.issubdtype(r.dtype, jnp.inexact)]
        return jnp.sum(jnp.abs(parts[0]).astype(jnp.float32) * 1.5)

    return run


@pytest.mark.parametrize("definition", mark_runs(definitions(), *FAST), ids=entry_name)
@pytest.mark.filterwarnings("ignore")
def test_some_gradients_are_those_of_all(definition: Definition) -> None:
    call, arrays = as_jax_call(ENTRIES, definition, example_of(definition))
    constants = CONSTANTS.get(definition.entry.name, ())
    for index in constants:
        with pytest.raises(LoweringError, match="is not differentiable with respect to argument"):
            gradients(call, arrays, [index])
    indices = [index for index in differentiable(arrays) if index not in constants]
    whole = gradients(call, arrays, indices)
    chosen = [[n] for n in indices] + ([indices[1:], indices[:-1]] if len(indices) > 2 else [])
    for subset in chosen:
        for index, gradient in zip(subset, gradients(call, arrays, subset), strict=True):
            expected = whole[indices.index(index)]
            wide = np.asarray(gradient, np.complex128), np.asarray(expected, np.complex128)
            np.testing.assert_allclose(*wide, rtol=1e-5, atol=1e-6)


def gradients(call: Callable[..., Any], arrays: Sequence[Any], indices: Sequence[int]) -> Any:
    return jax.jit(jax.grad(total(call), argnums=tuple(indices)))(*arrays)


@pytest.mark.slow
def test_backward_of_batch_norm() -> None:
    """The backward is a composite if PyTorch's decomposition gives all three gradients, which it
    does where those of weight and bias are asked for."""
    mean, variance = jnp.full(3, 0.5), jnp.full(3, 2.0)

    def squares(*operands: Any) -> Any:
        results = composites.jax.batch_norm_inference(*operands, mean, variance, False, 0.1, 1e-5)
        return (results[0] ** 2).sum()

    arrays = jnp.linspace(-1, 1, 24).reshape(2, 3, 4), jnp.arange(1.0, 4.0), jnp.arange(3.0)
    for indices in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        text = jax.jit(jax.grad(squares, argnums=indices)).lower(*arrays).as_text()
        names = composite_names(text)
        assert ("ptxla.batch_norm_backward" in names) == ({1, 2} <= set(indices))
        assert "ptxla.batch_norm_inference" in names


@pytest.mark.exhaustive
def test_all_but_random_numbers_are_available() -> None:
    missing = [operator for operator in composites.jax.available() if not operator.is_available]
    assert missing
    assert [str(operator) for operator in missing if "random" not in (operator.reason or "")] == []
