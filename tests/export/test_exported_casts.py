"""Training steps in bfloat16: no f32 tensor between two products, once its two passes have run."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.transformer import AttentionBlock
from torch import nn
from torch.nn import functional as F

import composites
from composites import Program
from lowering.stablehlo import Module, casts, drop_cast_roundtrips, widen_dots
from lowering.stablehlo.bindings import find_operations
from lowering.stablehlo.data_movement import CONVERT, DATA_MOVEMENT, data_operands, element_type
from lowering.stablehlo.ir_types import IrOperation, IrValue

PASSES = [widen_dots, drop_cast_roundtrips]


class Autocast(nn.Module):
    """A language model of two blocks in f32, run under autocast to bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.blocks = nn.Sequential(*(AttentionBlock(16, 2) for _ in range(2)))
        self.head = nn.Linear(16, 32, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.autocast(tokens.device.type, dtype=torch.bfloat16):
            scores = self.head(self.blocks(self.embedding(tokens)))
            return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def tokens(start: int) -> torch.Tensor:
    return (torch.arange(16).reshape(2, 8) * 5 + start) % 32


@cache
def made() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Autocast(), (tokens(0), tokens(5))


@cache
def exported(*passes: Any) -> Program:
    module, args = made()
    return composites.export(module, args, train=True, passes=list(passes))


def between_products(module: Module) -> list[str]:
    """The f32 values between products of bfloat16, each by the operation that makes it.

    Between means: on a way from the result of a product to an operand of a product, along which
    there are casts and data movement alone. What is computed in f32 on the way, as softmax is, or
    a residual stream that is added to, is not between them in this sense.
    """
    operations = find_operations(
        module.ir, "stablehlo.dot_general", CONVERT, "stablehlo.constant", *DATA_MOVEMENT
    )
    products = [o for o in operations if o.name == "stablehlo.dot_general" and in_bfloat16(o)]
    after = {product.results[0] for product in products}
    for operation in operations:
        if any(value in after for value in carried(operation)):
            after.add(operation.results[0])
    before = {operand for product in products for operand in product.operands}
    for operation in reversed(operations):
        if any(result in before for result in operation.results):
            before.update(carried(operation))
    return [
        operation.name
        for operation in operations
        for value in operation.results
        if value in after and value in before and element_type(value) == "f32"
    ]


def carried(operation: IrOperation) -> list[IrValue]:
    """The operands whose elements an operation gives, cast or not."""
    if operation.name == CONVERT:
        return list(operation.operands)
    indices = data_operands(operation) if operation.name in DATA_MOVEMENT else []
    return [operation.operands[index] for index in indices]


def in_bfloat16(product: IrOperation) -> bool:
    return all(element_type(operand) == "bf16" for operand in product.operands)


@pytest.mark.torch_xla
@pytest.mark.parametrize("order", [PASSES, PASSES[::-1]], ids=["widen first", "drop first"])
def test_no_f32_tensor_is_left_between_products(order: list[Any]) -> None:
    plain, lowered = exported().module, exported(*order).module
    # The gradient of the head goes into the residual stream in f32 and into a product in bf16.
    assert between_products(plain) == [CONVERT]
    assert between_products(lowered) == []
    assert float_casts(plain) == (31, 32)
    assert float_casts(lowered) == (15, 31)


def float_casts(module: Module) -> tuple[int, int]:
    """The number of widening casts, and the number of narrowing casts."""
    kinds = casts(module).kinds
    return kinds["widening"], kinds["narrowing"]


def test_numbers_stay_within_the_rounding_of_bfloat16() -> None:
    module, args = made()
    plain, lowered = exported(), exported(*PASSES)
    values = plain.module_weights(module) | {f"arg:{i}": arg for i, arg in enumerate(args)}
    plain_results, results = plain.run(values), lowered.run(values)
    assert plain_results.keys() == results.keys()
    for output, expected in plain_results.items():
        assert results[output].dtype == expected.dtype
        actual, reference = results[output].astype(np.float64), expected.astype(np.float64)
        # XLA leaves out roundings of its own choice in both, so some bits of bfloat16 differ.
        np.testing.assert_allclose(actual, reference, rtol=0, atol=2**-6 * np.abs(reference).max())
