"""A JAX program has the same composites as the PyTorch program with the same call: names, versions,
operands, attributes and results, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import pytest
import torch
from composites_testing.jax_calls import differentiable, signatures
from composites_testing.jax_entries import CATALOG, ENTRIES, entry_name, example_of, some_fast

from composites.allowlist import resolve
from lowering import activation
from lowering.example_calls import ExampleCall
from lowering.jax_entries.availability import as_jax_call
from lowering.jax_entries.definition import Definition
from lowering.locking import recorded
from lowering.stablehlo.run import enable_x64

# They draw random numbers, have no example, or have none that torch_xla's kernels accept.
NOT_COMPARED = {
    "batch_norm_inference": "torch_xla's backward of the example needs statistics of training",
    "dropout": "draws random numbers",
    "drop_path": "draws random numbers",
}

FAST = ("gelu", "softmax", "layer_norm", "cross_entropy_loss", "scaled_dot_product_attention", "mm")
"""Entries of every run."""

# On XLA, mean and deviation have no gradient; on the CPU, which is asked here, they have one.
ONE_GRADIENT = ("group_norm",)


def definitions() -> list[Definition]:
    return [
        d for d in ENTRIES.definitions if not d.entry.gradients and d.entry.name not in NOT_COMPARED
    ]


def of_pytorch(definition: Definition, example: ExampleCall, leaves: int) -> list[str]:
    entry = definition.entry
    if entry.adapt is not None:
        example = replace(example, function=activation.composite_function(entry, CATALOG))
    frontend = activation.backend().frontend
    entries = resolve([entry.identity], CATALOG)
    with activation.all_off(), activation.installed(CATALOG, entries):
        return signatures(recorded(frontend, example, leaves).text)


def of_jax(definition: Definition, example: ExampleCall, leaves: int) -> list[str]:
    with enable_x64():
        call, arrays = as_jax_call(ENTRIES, definition, example)
        if not leaves:
            return signatures(jax.jit(call).lower(*arrays).as_text())
        return signatures(_gradient(call, arrays, _with_gradient(definition, example)))


def _with_gradient(definition: Definition, example: ExampleCall) -> list[int]:
    """The results that have a gradient in PyTorch, for a gradient of the first tensor of floats."""
    left = [1]

    def place(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.clone()
        if left[0] and (tensor.is_floating_point() or tensor.is_complex()):
            left[0] -= 1
            copy.requires_grad_()
        return copy

    if definition.is_jax or definition.entry.name in ONE_GRADIENT:
        return [0]
    results = jax.tree.leaves(replace(example, function=definition.function).run(place))
    return [n for n, result in enumerate(results) if result.requires_grad]


def _gradient(call: Callable[..., Any], arrays: list[Any], chosen: list[int]) -> str:
    first = differentiable(arrays)[0]

    def results(*given: Any) -> list[Any]:
        found = jax.tree.leaves(call(*given))
        return [found[n] for n in chosen]

    def pulled(grads: Any, *given: Any) -> Any:
        def of_first(array: Any) -> list[Any]:
            return results(*given[:first], array, *given[first + 1 :])

        return jax.vjp(of_first, given[first])[1](grads)

    grads = jax.eval_shape(results, *arrays)
    return str(jax.jit(pulled).lower(grads, *arrays).as_text())


@pytest.mark.parametrize("definition", some_fast(definitions(), *FAST), ids=entry_name)
@pytest.mark.filterwarnings("ignore")
def test_they_have_the_same_composites(definition: Definition) -> None:
    example = example_of(definition)
    for leaves in (0, 1) if definition.entry.derives or definition.backward else (0,):
        theirs = of_pytorch(definition, example, leaves)
        assert theirs, "the example is a composite"
        assert of_jax(definition, example, leaves) == theirs
