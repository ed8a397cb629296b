"""Tensors that hold others: a program has those within, under the names of their attributes."""

from pathlib import Path

import numpy as np
import torch
from composites_testing.scaled_weights import ScaledWeight, scale_weights
from safetensors.torch import load_file
from torch import Tensor, nn

import composites

X = torch.linspace(-2, 2, 12).reshape(3, 4).sin()
INSIDE = ["param:0.weight.qdata", "param:0.weight.scale"]


def scaled() -> nn.Module:
    torch.manual_seed(0)
    return scale_weights(nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 2, bias=False)))


def test_parameters_are_inputs_by_what_they_hold(tmp_path: Path) -> None:
    model = scaled()
    program = composites.export(model, (X,))
    assert [value.name for value in program.inputs] == [
        *INSIDE, "param:0.bias", "param:2.weight.qdata", "param:2.weight.scale", "arg:0",
    ]  # fmt: skip
    assert [value.dtype for value in program.inputs][:2] == ["i8", "f32"]
    program.save(tmp_path / "saved", weights=program.module_weights(model))
    saved = load_file(tmp_path / "saved" / "weights.safetensors")
    first: ScaledWeight = model[0].weight  # type: ignore[index]
    assert torch.equal(saved[INSIDE[0]], first.qdata)
    step = program.compile()
    for weights in (model, model.state_dict(), saved):
        result, state = step(step.init(weights), X)
        np.testing.assert_allclose(result["out:0"], model(X).detach(), rtol=2e-6, atol=1e-7)
    assert {"0.weight.qdata", "0.weight.scale", "0.bias"} <= set(state.saved_as)


def test_a_frozen_one_in_a_training_step_and_adapters_that_learn() -> None:
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = scaled()
            self.adapter = nn.Linear(4, 2, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            loss: Tensor = (self.base(x) + self.adapter(x)).square().mean()
            return loss

    model = Adapted()
    for parameter in model.base.parameters():
        parameter.requires_grad_(False)
    program = composites.export(
        model, (X,), optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1)
    )
    names = [value.name for value in program.outputs]
    assert names == ["loss", "grad:adapter.weight", "param:adapter.weight"]
    step = program.compile()
    loss, _ = step(step.init(model), X)
    np.testing.assert_allclose(loss, model(X).detach(), rtol=2e-6)


def test_buffers_that_are_written_and_arguments_and_results() -> None:
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept: ScaledWeight
            self.register_buffer("kept", ScaledWeight.quantize(torch.ones(2, 4)))

        def forward(self, x: Tensor, weight: ScaledWeight) -> tuple[Tensor, ScaledWeight]:
            self.kept.scale.mul_(2)
            return nn.functional.linear(x, weight), ScaledWeight(weight.qdata, weight.scale * 3)

    weight = ScaledWeight.quantize(torch.ones(2, 4))
    program = composites.export(Kept(), (X, weight))
    assert [value.name for value in program.inputs] == [
        "buffer:kept.scale", "arg:0", "arg:1.qdata", "arg:1.scale",
    ]  # fmt: skip
    assert [(value.name, value.updates) for value in program.outputs] == [
        ("out:0", None), ("out:1.qdata", None), ("out:1.scale", None),
        ("buffer:kept.scale", "buffer:kept.scale"),
    ]  # fmt: skip
