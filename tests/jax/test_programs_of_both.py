"""A JAX program has the same composites as the PyTorch program with the same call: names, versions,
operands, attributes and results, forward and backward. All results mean the same too, those that
only a backward reads: a kernel of one of them runs beside the decomposition of the other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
import torch
from composites_testing.jax_calls import array_of, differentiable, signatures
from composites_testing.jax_entries import (
    CATALOG,
    ENTRIES,
    RANDOM,
    entry_name,
    example_of,
    mark_runs,
)

from composites.allowlist import resolve
from lowering import activation
from lowering.jax_entries.availability import as_jax_call
from lowering.jax_entries.definition import Definition
from lowering.locking import recorded
from lowering.sample_calls import ExampleCall
from lowering.stablehlo.run import enable_x64

NO_TYPE = "torch_xla has no f8E8M0FNU"
# They draw random numbers, have no example, or have none that torch_xla's kernels accept.
NOT_COMPARED = {
    "batch_norm_inference": "torch_xla's backward of the example needs statistics of training",
    "dropout": "draws random numbers",
    "drop_path": "draws random numbers",
    "mx_linear": NO_TYPE,
}

FAST = ("gelu", "softmax", "layer_norm", "cross_entropy_loss", "scaled_dot_product_attention", "mm")
"""Entries of every run."""

# On XLA, mean and deviation have no gradient; on the CPU, which is asked here, they have one.
ONE_GRADIENT = ("group_norm",)
NO_GRADIENT = ("int8_dynamic_linear",)
"""Entries whose first operand of floats has none: it is rounded to integers."""


def definitions() -> list[Definition]:
    return [
        d for d in ENTRIES.definitions if not d.entry.gradients and d.entry.name not in NOT_COMPARED
    ]


def pytorch_signatures(definition: Definition, example: ExampleCall, leaves: int) -> list[str]:
    entry = definition.entry
    if entry.adapt is not None:
        example = replace(example, function=activation.composite_function(entry, CATALOG))
    frontend = activation.backend().frontend
    entries = resolve([entry.identity], CATALOG)
    with activation.all_off(), activation.installed(CATALOG, entries):
        return signatures(recorded(frontend, example, leaves).text)


def jax_signatures(definition: Definition, example: ExampleCall, leaves: int) -> list[str]:
    with enable_x64():
        call, arrays = as_jax_call(ENTRIES, definition, example)
        if not leaves:
            return signatures(jax.jit(call).lower(*arrays).as_text())
        return signatures(_gradient(call, arrays, _with_gradient(definition, example)))


def _with_gradient(definition: Definition, example: ExampleCall) -> list[int]:
    """The results that have a gradient in PyTorch, for a gradient of the first tensor of floats."""
    left = [1]

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.clone()
        if left[0] and (tensor.is_floating_point() or tensor.is_complex()):
            left[0] -= 1
            copy.requires_grad_()
        return copy

    if definition.is_jax or definition.entry.name in ONE_GRADIENT:
        return [0]
    results = jax.tree.leaves(replace(example, function=definition.function).run(copied))
    return [n for n, result in enumerate(results) if result.requires_grad]


def _gradient(call: Callable[..., Any], arrays: list[Any], chosen: list[int]) -> str:
    first = differentiable(arrays)[0]

    def results(*operands: Any) -> list[Any]:
        values = jax.tree.leaves(call(*operands))
        return [values[n] for n in chosen]

    def pulled(grads: Any, *operands: Any) -> Any:
        def on_first(array: Any) -> list[Any]:
            return results(*operands[:first], array, *operands[first + 1 :])

        return jax.vjp(on_first, operands[first])[1](grads)

    grads = jax.eval_shape(results, *arrays)
    return str(jax.jit(pulled).lower(grads, *arrays).as_text())


@pytest.mark.parametrize("definition", mark_runs(definitions(), *FAST), ids=entry_name)
@pytest.mark.filterwarnings("ignore")
def test_they_have_the_same_composites(definition: Definition) -> None:
    example = example_of(definition)
    has_gradient = definition.entry.derives or definition.backward
    for leaves in (0, 1) if has_gradient and definition.entry.name not in NO_GRADIENT else (0,):
        theirs = pytorch_signatures(definition, example, leaves)
        assert theirs, "the example is a composite"
        assert jax_signatures(definition, example, leaves) == theirs


# ---- results ----


NO_CPU = "PyTorch has the overload on CUDA alone"
NO_HANDLER = "torch_xla's own lowering is a custom call that its CPU client does not have"
UNLIKE = {
    "hardtanh_backward": "at a bound torch_xla's derivative is 1, and PyTorch's is 0",
    "log_sigmoid_backward": "the example's buffer is none of its input, and torch_xla reads it",
    **dict.fromkeys(("mm", "bmm", "matmul_accumulate", "addmm", "baddbmm"), NO_CPU),
    **dict.fromkeys(("quantize_per_tensor", "quantize_per_channel"), NO_HANDLER),
    **dict.fromkeys(("dequantize_per_tensor", "dequantize_per_channel"), NO_HANDLER),
    "mx_linear": NO_TYPE,
    "zeropower_via_newtonschulz": "it iterates in bf16",
}
"""Entries that are left out, and why."""
TOLERANCE = 1e-4
"""The tolerance, relative to the greatest value of a result."""
WITH_OTHER_RESULTS = (
    "log_sigmoid", "nll_loss", "nll_loss2d", "layer_norm", "batch_norm_training", "max_pool2d",
)  # fmt: skip
"""Entries of every run."""


def called() -> list[Definition]:
    left_out = {*RANDOM, *UNLIKE}
    covered = [d for d in ENTRIES.definitions if d.entry.op or d.entry.functions]
    assert left_out <= {d.entry.name for d in covered}
    return [d for d in covered if d.entry.name not in left_out]


def on_torch_xla(definition: Definition, example: ExampleCall) -> list[Any]:
    import torch_xla

    if definition.entry.adapt is not None:
        function = activation.composite_function(definition.entry, CATALOG)
        example = replace(example, function=function)
    device = torch_xla.device()
    with activation.all_off(), torch.no_grad():
        results = example.run(lambda tensor: tensor.to(device))
    torch_xla.sync()
    return [array_of(leaf.cpu()) for leaf in jax.tree.leaves(results)]


def on_jax(definition: Definition, example: ExampleCall) -> list[Any]:
    with enable_x64():
        call, arrays = as_jax_call(ENTRIES, definition, example)
        return list(map(np.asarray, jax.tree.leaves(jax.jit(call)(*arrays))))


@pytest.mark.torch_xla
@pytest.mark.parametrize("definition", mark_runs(called(), *WITH_OTHER_RESULTS), ids=entry_name)
@pytest.mark.filterwarnings("ignore")
def test_all_results_mean_the_same(definition: Definition) -> None:
    example = example_of(definition)
    theirs = on_torch_xla(definition, example)
    for ours, result in zip(on_jax(definition, example), theirs, strict=True):
        wide = np.asarray(result).astype(np.float64 if result.dtype.kind != "c" else complex)
        assert ours.shape == wide.shape
        scale = max(1.0, float(np.abs(wide).max(initial=0)))
        np.testing.assert_allclose(ours, wide, rtol=0, atol=TOLERANCE * scale)
