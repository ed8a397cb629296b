"""`torch.autocast` while a program is exported casts what PyTorch casts on CUDA."""

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
    "a dtype that is asked for": (lambda a, b: a.softmax(-1, dtype=torch.float64), torch.float64),
    "double": (lambda a, b: a.double() @ b.double(), torch.float64),
}
CASES = {
    **{name: (function, torch.bfloat16) for name, function in LOWER.items()},
    **{name: (function, torch.float32) for name, function in FLOAT32.items()},
    **AS_THEY_ARE,
}


class Cast(torch.nn.Module):
    """Functions under autocast, and a product outside of it."""

    def __init__(self, *functions: Function) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        with torch.autocast(a.device.type, dtype=torch.bfloat16):
            results = [function(a, b) for function in self.functions]
        return [*results, a @ b]


def test_results_have_the_dtypes_of_autocast() -> None:
    operands = torch.randn(4, 4), torch.randn(4, 4)
    functions = [function for function, _ in CASES.values()]
    program = composites.export(Cast(*functions), operands, ops=[], frontend="fx")
    results = program.run(*operands)
    cases = {**CASES, "outside": (torch.matmul, torch.float32)}
    for output, (name, (function, dtype)) in zip(program.outputs, cases.items(), strict=True):
        expected = {torch.bfloat16: "bf16", torch.float32: "f32"}.get(dtype, "f64")
        assert output.dtype == expected, name
        actual = torch.from_numpy(results[output.name].astype("float64"))
        right = function(*operands).double()
        assert float((actual - right).abs().max()) <= 2e-2 * float(right.abs().max()), name


def test_a_loss_of_probabilities_is_refused() -> None:
    operands = torch.rand(4, 4), torch.rand(4, 4)
    with pytest.raises(RuntimeError, match="unsafe to autocast"):
        composites.export(Cast(F.binary_cross_entropy), operands, frontend="fx")
