"""Models that torchao has quantized, beside eager PyTorch: a linear layer is one composite."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from composites_testing.written import written_composites
from torch import Tensor, nn
from torchao import quantization as ao

import composites

INT4 = {"weight_dtype": torch.int4}
INT8 = {"version": 2}
CONFIGS: dict[str, tuple[str, Callable[[], Any]]] = {
    "int8 weights": (
        "int8_weight_only_linear",
        lambda: ao.Int8WeightOnlyConfig(**INT8),
    ),
    "int8 weights in groups": (
        "intx_weight_only_linear",
        lambda: ao.Int8WeightOnlyConfig(granularity=ao.PerGroup(32), **INT8),
    ),
    "int4 weights in groups": (
        "intx_weight_only_linear",
        lambda: ao.IntxWeightOnlyConfig(granularity=ao.PerGroup(32), **INT4),
    ),
    "int4 weights that are asymmetric": (
        "intx_weight_only_linear",
        lambda: ao.IntxWeightOnlyConfig(
            granularity=ao.PerGroup(16), mapping_type=ao.MappingType.ASYMMETRIC, **INT4
        ),
    ),
    "int8 activations and int4 weights": (
        "intx_weight_only_linear",
        lambda: ao.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=ao.PerGroup(32)
        ),
    ),
    "int8 rows": (
        "int8_dynamic_linear",
        lambda: ao.Int8DynamicActivationInt8WeightConfig(**INT8),
    ),
    "int8 rows that are asymmetric": (
        "int8_dynamic_linear",
        lambda: ao.Int8DynamicActivationInt8WeightConfig(
            act_mapping_type=ao.MappingType.ASYMMETRIC, **INT8
        ),
    ),
    "int8 tensors": (
        "int8_dynamic_linear",
        lambda: ao.Int8DynamicActivationInt8WeightConfig(granularity=ao.PerTensor(), **INT8),
    ),
    "float8 weights": ("float8_weight_only_linear", ao.Float8WeightOnlyConfig),
}


class Pair(nn.Module):
    """Two layers of one input, so that what is quantized is the same in both backends."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(64, 32), nn.Linear(64, 48, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((self.one(x), self.two(x)), -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_quantized_layer_is_one_composite(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    composite, config = CONFIGS[name]
    torch.manual_seed(0)
    model = Pair().to(dtype).eval().requires_grad_(False)
    limit = max(float(weight.abs().max()) for weight in model.parameters())
    ao.quantize_(model, config())
    x = torch.randn(2, 3, 64).to(dtype)
    expected = model(x)
    program = composites.export(model, (x,))
    assert written_composites(program.module.text) == {f"ptxla.{composite}": 2}
    step = program.compile()
    arrays, _ = step(step.init(model), x)
    found = torch.from_numpy(arrays["out:0"].__array__().astype("float32")).to(dtype)
    # XLA divides by multiplying with a reciprocal, which moves a number of a row by a step.
    step_of_rows = float(x.abs().max() / 127) * limit
    tolerance = {"rtol": 0.02, "atol": 0.01} if dtype == torch.bfloat16 else {}
    if composite == "int8_dynamic_linear" and not tolerance:
        tolerance = {"rtol": 1e-5, "atol": step_of_rows}
    torch.testing.assert_close(found, expected, **tolerance)
    torch._dynamo.reset()
    options = {"save": str(tmp_path)}
    with composites.enabled("quantization"):
        live = torch.compile(model, backend="composites", fullgraph=True, options=options)(x)
    torch.testing.assert_close(live, found, rtol=0, atol=0)
    (saved,) = tmp_path.rglob("program.mlir")
    assert written_composites(saved.read_text()) == {f"ptxla.{composite}": 2}


@pytest.mark.parametrize("name", [n for n in CONFIGS if "weights" in n and "act" not in n])
def test_adapters_beside_frozen_weights_have_the_gradients_of_eager(name: str) -> None:
    composite, config = CONFIGS[name]

    def prepared() -> nn.Module:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), Pair())
        ao.quantize_(model[1], config())
        return model

    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(1))
    eager, model = prepared(), prepared()
    torch._dynamo.reset()
    with composites.enabled("quantization"):
        before = composites.stats().entries[f"ptxla.{composite}"].calls
        loss = torch.compile(model, backend="composites", fullgraph=True)(x).square().mean()
    counted = composites.stats().entries[f"ptxla.{composite}"]
    assert counted.calls > before
    assert not counted.fallbacks
    expected = eager(x).square().mean()
    for value in (loss, expected):
        value.backward()
    torch.testing.assert_close(loss, expected)
    for found, parameter in zip(model[0].parameters(), eager[0].parameters(), strict=True):
        torch.testing.assert_close(found.grad, parameter.grad, rtol=2e-5, atol=1e-7)
