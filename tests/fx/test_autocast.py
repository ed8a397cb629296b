"""`torch.autocast` while a program is exported casts what PyTorch casts on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import composites

Function = Callable[[torch.Tensor, torch.Tensor], Any]

LOWER: dict[str, Function] = {
    "matmul": torch.matmul,
    "linear": F.linear,
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b),
    "conv1d": lambda a, b: F.conv1d(a[None], b[:, :, None]),
    "attention": lambda a, b: F.scaled_dot_product_attention(a[None], b[None], b[None]),
}
FLOAT32: dict[str, Function] = {
    "exp": lambda a, b: a.bfloat16().exp(),
    "softmax": lambda a, b: a.bfloat16().softmax(-1),
    "sum": lambda a, b: a.bfloat16().sum(),
    "norm": lambda a, b: a.bfloat16().norm(),
    "layer_norm": lambda a, b: F.layer_norm(a.bfloat16(), (4,)),
    "mse_loss": lambda a, b: F.mse_loss(a.bfloat16(), b.bfloat16()),
    "dot": lambda a, b: torch.dot(a[0], b[0]),
}
AS_THEY_ARE: dict[str, tuple[Function, torch.dtype]] = {
    "add": (torch.add, torch.float32),
    "relu": (lambda a, b: a.bfloat16().relu(), torch.bfloat16),
    "a dtype that is asked for": (
        lambda a, b: a.softmax(-1, dtype=torch.float64),
        torch.float64,
    ),
    "double": (lambda a, b: a.double() @ b.double(), torch.float64),
}
CASES = {
    **{name: (function, torch.bfloat16) for name, function in LOWER.items()},
    **{name: (function, torch.float32) for name, function in FLOAT32.items()},
    **AS_THEY_ARE,
}


class Cast(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        with torch.autocast(a.device.type, dtype=torch.bfloat16):
            return self.function(a, b)


@pytest.mark.parametrize("name", CASES)
def test_the_result_has_the_dtype_of_autocast(name: str) -> None:
    function, dtype = CASES[name]
    operands = torch.randn(4, 4), torch.randn(4, 4)
    program = composites.export(Cast(function), operands, ops=[], frontend="fx")
    (output,) = program.outputs
    assert output.dtype == {torch.bfloat16: "bf16", torch.float32: "f32"}.get(dtype, "f64")
    given = {f"arg:{number}": operand for number, operand in enumerate(operands)}
    results = program.run({value.name: given[value.name] for value in program.inputs})
    got = torch.from_numpy(results["out:0"].astype("float64"))
    want = function(*operands).double()
    assert float((got - want).abs().max()) <= 2e-2 * float(want.abs().max())


def test_nothing_is_cast_outside() -> None:
    a, b = torch.randn(4, 4), torch.randn(4, 4)

    class Outside(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            with torch.autocast(a.device.type, dtype=torch.bfloat16):
                pass
            return a @ b

    program = composites.export(Outside(), (a, b), ops=[], frontend="fx")
    assert program.outputs[0].dtype == "f32"


def test_a_loss_of_probabilities_is_refused() -> None:
    operands = torch.rand(4, 4), torch.rand(4, 4)
    with pytest.raises(RuntimeError, match="unsafe to autocast"):
        composites.export(Cast(F.binary_cross_entropy), operands, frontend="fx")
