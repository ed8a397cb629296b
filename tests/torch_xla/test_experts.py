"""The hand-written backward of experts has the bits of PyTorch's, for all combinations of types."""

from __future__ import annotations

import pytest
import torch

from composites.operators.experts import experts, experts_backward, experts_with_products

TYPES = [
    (torch.float32, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.bfloat16, torch.float32),
    (torch.float32, torch.bfloat16),
    (torch.float16, torch.bfloat16),
]
"""Of the experts, and of the weights of what they give."""


@pytest.mark.parametrize(("dtype", "of_weights"), TYPES)
@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh"])
def test_the_gradients(dtype: torch.dtype, of_weights: torch.dtype, activation: str) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(5, 16).to(dtype).requires_grad_()
    weights = torch.rand(5, 2).to(of_weights).requires_grad_()
    gate_up = torch.randn(4, 12, 16).to(dtype).requires_grad_()
    down = torch.randn(4, 16, 6).to(dtype).requires_grad_()
    chosen = torch.randint(0, 4, (5, 2))
    given = (hidden, chosen, weights, gate_up, down)

    result = experts(*given, activation=activation)
    direction = torch.randn(5, 16).to(result.dtype)
    wanted = torch.autograd.grad(result, (hidden, weights, gate_up, down), direction)
    with torch.no_grad():
        products = experts_with_products(*given, activation=activation)
        found = experts_backward(direction, *given, *products[1:], activation)
    assert torch.equal(products[0], result)
    for mine, right in zip(found, wanted, strict=True):
        assert mine.dtype == right.dtype
        assert torch.equal(mine, right)
