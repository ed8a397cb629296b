"""A GPT trains with the kernels as without them, on a GPU or in interpret mode."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from composites_testing.devices import HAS_GPU

import composites
from benchmarks.training_steps import causal_gpt
from composites import Program
from lowering.export.listed_kernels import listed_kernels
from lowering.stablehlo.kernels import place_kernels

STEPS = 200 if HAS_GPU else 5
OPTIMIZER = partial(torch.optim.AdamW, lr=3e-3)
KERNELS = {
    "ptxla.scaled_dot_product_attention",
    "ptxla.scaled_dot_product_attention_backward",
    "ptxla.cross_entropy_loss",
    "ptxla.cross_entropy_loss_backward",
    "ptxla.adamw",
}


@pytest.mark.exhaustive
@pytest.mark.usefixtures("registry")
def test_training_with_kernels() -> None:
    from gpu_kernels.pallas import interpreted

    torch.manual_seed(0)
    module, batch = causal_gpt(32, vocabulary=97, width=64, layers=2)
    weights = {name: value.detach().clone() for name, value in module.state_dict().items()}
    program = composites.export(module, (), kwargs=dict(batch), optimizer=OPTIMIZER)
    platform = "cuda" if HAS_GPU else "cpu"
    with nullcontext() if HAS_GPU else interpreted():
        placed = place_kernels(
            program.module, listed_kernels(program.module, "cuda"), platform=platform
        )
        assert {call.name for call in placed.taken} == KERNELS
        actual = losses_of(replace(program, module=placed.module), weights, batch, platform)
    expected = losses_of(program, weights, batch, platform)
    # A GPU's products of f32 have factors that are rounded to TF32.
    tolerance = 5e-2 if HAS_GPU else 1e-4
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
    assert actual[-1] < actual[0] - 0.1


def losses_of(
    program: Program,
    weights: Mapping[str, torch.Tensor],
    batch: Mapping[str, torch.Tensor],
    platform: str,
) -> list[float]:
    step = program.compile(platform, None)
    state, losses = step.init(weights), []
    for _ in range(STEPS):
        loss, state = step(state, **batch)
        losses.append(float(loss))
    return losses
