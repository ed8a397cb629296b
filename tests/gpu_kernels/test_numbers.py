"""Each kernel against the decomposition that it replaces: Pallas kernels in interpret mode, or all
kernels on the GPU, where the machine has one.

There, products of f32 in a decomposition would have factors that are rounded to TF32. They are made
exact, and the kernels' results are held to the decomposition in f64.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.devices import HAS_GPU
from composites_testing.kernel_samples import (
    BF16,
    F16,
    F32,
    TOLERANCE,
    Sample,
    arrays_of,
    kernels_of,
    loss,
)
from composites_testing.modules import Calling
from composites_testing.selection import exhaustive
from torch import Tensor
from torch.nn import functional

import composites
from composites import Program
from lowering.stablehlo import Module, compare


def attention(
    *shapes: tuple[int, ...], dtype: torch.dtype = F32, module: str = "flash", **keywords: Any
) -> Sample:
    shapes = shapes if len(shapes) > 1 else shapes * 3
    function = functional.scaled_dot_product_attention
    return Sample(function, shapes, dtype=dtype, keywords=keywords, module=module)


def norm(
    *shape: int,
    over: int = 1,
    weighted: bool = True,
    size: float = 1.0,
    dtype: torch.dtype = F32,
    **keywords: Any,
) -> Sample:
    normalized = shape[-over:]
    operands = [shape, normalized] if weighted else [shape]

    def call(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return functional.rms_norm(x, list(normalized), weight, **keywords)

    return Sample(call, operands, dtype=dtype, size=size)


SAMPLES: Mapping[str, Sample] = {
    "attention": attention((2, 3, 33, 16)),
    "attention, a head of an odd size": attention((2, 3, 33, 5)),
    "attention, several blocks": attention((1, 2, 130, 24)),
    "attention, causal": attention((1, 2, 130, 24), is_causal=True),
    "attention, causal, more keys": attention(
        (1, 2, 70, 16), *[(1, 2, 150, 16)] * 2, is_causal=True
    ),
    "attention, causal, fewer keys": attention(
        (1, 2, 150, 16), *[(1, 2, 70, 16)] * 2, is_causal=True
    ),
    "attention, whole blocks": attention((1, 2, 128, 64), is_causal=True),
    "attention, scale": attention((2, 2, 33, 16), scale=0.3),
    "attention, grouped": attention((2, 4, 70, 16), *[(2, 2, 70, 16)] * 2, enable_gqa=True),
    "attention, three dimensions": attention((4, 33, 16)),
    "attention, bf16": attention((2, 3, 70, 20), dtype=BF16, is_causal=True),
    "attention, f16": attention((2, 3, 70, 20), dtype=F16),
    "loss": loss(),
    "loss, one class": loss(classes=1),
    "loss, a whole block": loss(classes=256),
    "loss, several blocks": loss(3, 9001),
    "loss, sum": loss(reduction="sum"),
    "loss, none": loss(reduction="none"),
    "loss, ignored": loss(20, labels=3, ignore_index=2),
    "loss, bf16": loss(dtype=BF16),
    "loss, f16": loss(dtype=F16),
    "norm": norm(5, 6, 48),
    "norm, several blocks of rows": norm(37, 33),
    "norm, no weight": norm(5, 6, 33, weighted=False),
    "norm, two dimensions": norm(3, 5, 7, over=2),
    "norm, one number": norm(4, 1, eps=0.1),
    "norm, epsilon": norm(5, 33, eps=0.1),
    "norm, no epsilon": norm(5, 33, eps=0.0),
    "norm, bf16": norm(5, 33, dtype=BF16),
    "norm, small numbers of bf16, which show the epsilon": norm(5, 33, dtype=BF16, size=0.02),
    "norm, f16": norm(5, 33, dtype=F16),
}
cudnn = partial(attention, dtype=BF16, module="attention:")
CUDNN: Mapping[str, Sample] = {
    "attention": cudnn((2, 3, 128, 64)),
    "attention, f16": cudnn((2, 3, 128, 32), dtype=F16),
    "attention, an odd length": cudnn((2, 3, 70, 16)),
    "attention, the largest head": cudnn((1, 2, 96, 128)),
    "attention, causal": cudnn((1, 2, 192, 24), is_causal=True),
    "attention, more keys": cudnn((1, 2, 64, 16), *[(1, 2, 150, 16)] * 2),
    "attention, scale": cudnn((2, 2, 64, 16), scale=0.3),
    "attention, grouped": cudnn((2, 4, 64, 16), *[(2, 2, 64, 16)] * 2, enable_gqa=True),
    "attention, three dimensions": cudnn((4, 64, 16)),
}
"""Kernels that run on a GPU only."""
if HAS_GPU:
    SAMPLES = {**SAMPLES, **{f"cuDNN's {name}": sample for name, sample in CUDNN.items()}}


FAST = ("attention, grouped", "loss, several blocks", "norm, no weight")
SLOW = (
    *("attention, causal, more keys", "attention, bf16", "loss, ignored", "loss, bf16"),
    *("norm, several blocks of rows", "norm, epsilon", "norm, bf16"),
)
"""Samples of slow runs. In interpret mode, the other samples take minutes."""


def tier(name: str) -> Any:
    if HAS_GPU or name in FAST:
        return ()
    return pytest.mark.slow if name in SLOW else pytest.mark.exhaustive


@pytest.mark.parametrize("name", [pytest.param(name, marks=tier(name)) for name in SAMPLES])
def test_a_kernel_has_the_numbers_of_the_decomposition(name: str, registry: Path) -> None:
    sample = SAMPLES[name]
    program, inputs = sample.program()
    assert compared(program, inputs, registry, sample.accepted, sample.module) == 2


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("maximize", [True, *exhaustive(False)])
def test_adamw_has_the_numbers_of_the_decomposition(
    dtype: torch.dtype, maximize: bool, registry: Path
) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(33, 47, dtype=dtype)  # more than a block, and less
    module = torch.nn.Sequential(layer, Calling(lambda y: y.square().mean()))
    optimizer = partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1, maximize=maximize)
    program = composites.export(module, (torch.randn(5, 33, dtype=dtype),), optimizer=optimizer)
    types = {"i64": torch.int64, "bf16": BF16, "f32": F32}
    inputs = [torch.rand(value.sizes).to(types[value.dtype]) for value in program.inputs]
    assert compared(program, arrays_of(program, inputs), registry, TOLERANCE[dtype]) == 2


def with_exact_products(program: Program) -> Module:
    dimensions = (
        r"(contracting_dims = \[[\d, ]*\] x \[[\d, ]*\])(, precision = \[DEFAULT, DEFAULT\])?"
    )
    return Module.parse(re.sub(dimensions, r"\1, precision = [HIGHEST, HIGHEST]", program.mlir))


def compared(
    program: Program,
    inputs: Sequence[np.ndarray],
    registry: Path,
    tolerance: float,
    module: str = "",
) -> int:
    """The number of calls with a kernel; all have the decompositions' numbers."""
    from gpu_kernels.pallas import interpreted

    kernels = kernels_of(program, registry, module)
    options: dict[str, Any] = {"inputs": inputs, "timed": False}
    if not HAS_GPU:
        with interpreted():
            comparison = compare(program.module, kernels, tolerance=tolerance, **options)
        assert not comparison.problems
        return len(comparison.calls)
    exact = with_exact_products(program)
    comparison = compare(exact, kernels, tolerance=math.inf, platform="cuda", **options)
    assert not comparison.problems
    for call in comparison.calls:
        assert call.numbers is not None
        assert call.numbers.kernel_error is not None, call.numbers.why_not_f64
        assert call.numbers.kernel_error <= tolerance, call.call.name
    return len(comparison.calls)
