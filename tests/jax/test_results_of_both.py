"""All results of an entry mean the same in JAX programs and in torch_xla's, those too that only a
backward reads: a kernel of one of them runs beside the decomposition of the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
import torch
import torch_xla
from composites_testing.jax_calls import array_of
from composites_testing.jax_entries import (
    CATALOG,
    ENTRIES,
    RANDOM,
    entry_name,
    example_of,
    some_fast,
)

from lowering import activation
from lowering.example_calls import ExampleCall
from lowering.jax_entries.availability import as_jax_call
from lowering.jax_entries.definition import Definition
from lowering.stablehlo.run import enable_x64

UNLIKE = {
    "hardtanh_backward": "at a bound torch_xla's derivative is 1, and PyTorch's is 0",
    "log_sigmoid_backward": "the example's buffer is none of its input, and torch_xla reads it",
    "mm": "PyTorch has the overload on CUDA alone",
    "bmm": "PyTorch has the overload on CUDA alone",
    "matmul_accumulate": "PyTorch has the overload on CUDA alone",
    "addmm": "PyTorch has the overload on CUDA alone",
    "baddbmm": "PyTorch has the overload on CUDA alone",
    "zeropower_via_newtonschulz": "it iterates in bf16",
}
"""Entries that are left out, and why."""
TOLERANCE = 1e-4
"""Of the greatest value of a result."""
FAST = (
    "log_sigmoid", "nll_loss", "nll_loss2d", "layer_norm", "batch_norm_training", "max_pool2d",
)  # fmt: skip
"""Entries of every run."""


def definitions() -> list[Definition]:
    left_out = {*RANDOM, *UNLIKE}
    found = [d for d in ENTRIES.definitions if d.entry.op or d.entry.functions]
    assert left_out <= {d.entry.name for d in found}
    return [d for d in found if d.entry.name not in left_out]


def on_torch_xla(definition: Definition, example: ExampleCall) -> list[Any]:
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


@pytest.mark.parametrize("definition", some_fast(definitions(), *FAST), ids=entry_name)
@pytest.mark.filterwarnings("ignore")
def test_results(definition: Definition) -> None:
    example = example_of(definition)
    theirs = on_torch_xla(definition, example)
    for ours, result in zip(on_jax(definition, example), theirs, strict=True):
        wide = np.asarray(result).astype(np.float64 if result.dtype.kind != "c" else complex)
        assert ours.shape == wide.shape
        scale = max(1.0, float(np.abs(wide).max(initial=0)))
        np.testing.assert_allclose(ours, wide, rtol=0, atol=TOLERANCE * scale)
