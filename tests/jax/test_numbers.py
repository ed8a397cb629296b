"""Entries compute in JAX what PyTorch computes on the CPU, forward and gradient, in f32: for the
samples that entries name, and those of PyTorch's own tests."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from composites_testing.jax_calls import TorchCall, array_of, calls
from composites_testing.jax_entries import ENTRIES, RANDOM, entry_name, mark_runs

from lowering.jax_entries.definition import Definition
from lowering.stablehlo.run import enable_x64

TOLERANCE = 1e-4
"""The tolerance, relative to the greatest value of a result."""
TOLERANCES = {"muon": 5e-2, "zeropower_via_newtonschulz": 5e-2, "int8_dynamic_linear": 1e-2}
"""Tolerances of entries that compute in bf16, or round the input to one of 256 numbers: a tie can
go either way."""
OF_TORCH_XLA = ("nll_loss", "nll_loss2d", "log_sigmoid")
"""Entries whose second result is that of torch_xla, which `test_programs_of_both.py` compares."""
CALLS = 3
FAST = (
    "gelu", "softmax", "layer_norm", "rms_norm", "cross_entropy_loss", "embedding_bag", "topk",
    "scaled_dot_product_attention", "upsample_bilinear2d", "gru_cell", "fused_adamw",
)  # fmt: skip
"""Entries of every run."""
WITHOUT_SAMPLES = frozenset(
    [
        "adam", "adamw", "addmm", "alibi", "baddbmm", "batch_norm_training", "bmm", "convolution",
        "deepseek_rotary_embedding", "glm_rotary_embedding", "gptj_rotary_embedding",
        "half_rotary_embedding", "instance_norm", "interleaved_rotary_embedding", "kl_div",
        "matmul_accumulate", "max_pool2d", "mm", "partial_rotary_embedding", "rotary_embedding",
        "rotary_embedding_vision", "upsample_bicubic2d",
    ]
)  # fmt: skip
"""Entries that have none here: PyTorch's samples call an operator that decomposes into theirs,
or the entry names none. `test_programs_of_both.py` compares their examples."""


def definitions() -> list[Definition]:
    """Entries that catch a forward. Their gradients run the backward entries."""
    backwards = {d.backward.entry for d in ENTRIES.definitions if d.backward is not None}
    return [
        d for d in ENTRIES.definitions
        if not d.entry.gradients and d.entry.name not in RANDOM and d.entry not in backwards
    ]  # fmt: skip


def close(ours: Any, theirs: torch.Tensor, tolerance: float) -> None:
    actual, expected = np.asarray(ours), np.asarray(array_of(theirs))
    if actual.dtype == jnp.bfloat16:
        actual, expected = actual.astype(np.float32), expected.astype(np.float32)
    assert actual.shape == expected.shape
    finite = np.abs(expected[np.isfinite(expected)]) if expected.size else expected
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def compare(definition: Definition, call: TorchCall) -> None:
    tolerance = TOLERANCES.get(definition.entry.name, TOLERANCE)
    tensors = [t.clone() for t in call.tensors()]
    floats = [n for n, t in enumerate(tensors) if t.is_floating_point() or t.is_complex()]
    leaves = [t.requires_grad_() if n in floats else t for n, t in enumerate(tensors)]
    try:
        theirs = call.run(leaves)
    except RuntimeError:  # PyTorch has no gradient of one of them
        theirs = call.run(call.tensors())
    function = call.on_arrays(ENTRIES.function(definition))
    arrays = [array_of(t) for t in tensors]
    compared = slice(1) if definition.entry.name in OF_TORCH_XLA else slice(None)
    for ours, result in zip(function(*arrays)[compared], theirs[compared], strict=True):
        close(ours, result, tolerance)
    number = next((n for n, result in enumerate(theirs) if result.requires_grad), None)
    if number is None or not (definition.entry.derives or definition.backward):
        return
    torch.manual_seed(0)
    grad = torch.randn(theirs[number].shape, dtype=theirs[number].dtype)
    grads = torch.autograd.grad(
        theirs[number], [leaves[n] for n in floats], grad, allow_unused=True
    )
    used = {n: gradient for n, gradient in zip(floats, grads, strict=True) if gradient is not None}

    def on_used(*values: Any) -> Any:
        whole = list(arrays)
        for n, array in zip(used, values, strict=True):
            whole[n] = array
        return function(*whole)[number]

    pull = jax.vjp(on_used, *(arrays[n] for n in used))[1]
    for ours, gradient in zip(pull(jnp.conj(array_of(grad))), used.values(), strict=True):
        close(jnp.conj(ours), gradient, tolerance)


def taken_on_cpu(call: TorchCall) -> bool:
    """Return whether PyTorch 2.9 takes the call: `_scaled_mm` with one scale for each operand."""
    scale = call.values.get("scale_a")
    return scale is None or scale.numel() == 1


@pytest.mark.parametrize("definition", mark_runs(definitions(), *FAST), ids=entry_name)
@pytest.mark.filterwarnings("ignore")
def test_results_and_gradients(definition: Definition) -> None:
    cases = calls(definition, torch.float32, CALLS)
    sampled = [call for call in cases if not call.values.get("dropout_p") and taken_on_cpu(call)]
    assert bool(sampled) == (definition.entry.name not in WITHOUT_SAMPLES)
    with enable_x64():
        for call in sampled:
            compare(definition, call)
