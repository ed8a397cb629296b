"""Norms and softmax whose sums are products: errors, gradients, what they leave to stock."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from composites_testing.selection import variants
from torch import Tensor

import composites


def outcome(
    call: Callable[..., Any], arguments: tuple[Any, ...], device: str, dtype: torch.dtype
) -> list[Tensor]:
    """Results, gradients and moving averages, on the CPU in f64."""

    def moved(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().to(device, dtype, copy=True).requires_grad_(value.requires_grad)

    inputs = [moved(value) for value in arguments]
    leaves = [value for value in inputs if isinstance(value, Tensor) and value.requires_grad]
    written = [value for value in inputs if isinstance(value, Tensor) and not value.requires_grad]
    returned = call(*inputs)
    results = [returned] if isinstance(returned, Tensor) else list(returned)
    generator = torch.Generator().manual_seed(1)
    factor = torch.randn(results[0].shape, generator=generator).to(device, dtype)
    gradients = torch.autograd.grad(results[0], leaves, factor)
    return [t.detach().cpu().double() for t in (*results, *gradients, *written)]


def taken(name: str) -> dict[str, int]:
    entry = composites.stats().entries.get(f"ptxla.{name}")
    return dict(entry.decompositions) if entry else {}


def error(actual: Tensor, exact: Tensor) -> float:
    """The greatest one, relative to the operands, which are about 1, or to larger results."""
    distance = (actual.reshape(exact.shape) - exact).abs().max() / exact.abs().max().clamp(min=1)
    return float(distance.nan_to_num(torch.inf))


def compare(name: str, call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Errors of results and gradients are at most 1.5 times stock's, or four roundings. Where stock
    has no digit left, they still have some."""
    right = outcome(call, arguments, "cpu", torch.float64)
    if name == "batch_norm_training":  # torch_xla's average is of the biased variance
        images, *_, average = arguments[:5]
        count = images.numel() / images.shape[1]
        kept = 0.9 * average.double()
        right[-1] = kept + (right[-1] - kept) * (1 - 1 / count)
    stock = outcome(call, arguments, "xla", torch.float32)
    before = taken(name)
    with composites.enabled(name, decompositions="fast"):
        ours = outcome(call, arguments, "xla", torch.float32)
    now = taken(name)  # calls of one form are counted once
    assert {"products", "products, backward"} <= set(now)
    for kind in ("stock", "stock, backward"):
        assert now.get(kind) == before.get(kind)
    for mine, theirs, exact in zip(ours, stock, right, strict=True):
        base = error(theirs, exact)
        allowed = max(1.5 * base, 4 * torch.finfo(torch.float32).eps) if base < 1e-3 else 1e-3
        assert error(mine, exact) <= allowed, (base, tuple(exact.shape))


HARD: dict[str, Callable[[Tensor], Tensor]] = {
    "far from zero": lambda rows: rows + 1000,
    "equal": lambda rows: (100 * rows[..., :1]).expand_as(rows).contiguous(),
    "near zero": lambda rows: 1e-4 * rows,
    "uneven": lambda rows: rows * (1 + 1000 * (torch.arange(rows.shape[-1]) % 97 == 0)),
}


@variants("kind", HARD)
@variants("shape", [(512, 128), (88, 768), (24, 4096), (5, 16384)])
@variants("name", ["layer_norm", "rms_norm"])
def test_rows_that_are_hard(name: str, shape: tuple[int, int], kind: str) -> None:
    torch.manual_seed(0)
    width = shape[-1]
    weight, bias = torch.randn(2, width).unbind()
    rows = HARD[kind](torch.randn(*shape))
    operands = [tensor.requires_grad_() for tensor in (rows, weight, bias)]
    if name == "layer_norm":
        compare(name, torch.native_layer_norm, (operands[0], [width], *operands[1:], 1e-5))
    else:
        compare(name, torch.rms_norm, (operands[0], [width], operands[1], 1e-6))


@pytest.mark.slow
@variants("kind", HARD)
def test_images_that_are_hard(kind: str) -> None:
    torch.manual_seed(0)
    images = torch.randn(16, 8, 52 * 54)
    if kind == "equal":
        images[:] = images[:1, :, :1]
    hard = HARD[kind](images).reshape(16, 8, 52, 54)
    weight, bias = (tensor.requires_grad_() for tensor in torch.randn(2, 8).unbind())
    averages = torch.zeros(8), torch.ones(8)
    operands = (hard.requires_grad_(), weight, bias, *averages)
    compare("batch_norm_training", torch.batch_norm, (*operands, True, 0.1, 1e-5, False))


def test_gradients_that_nobody_needs() -> None:
    x = torch.randn(128, 768, generator=torch.Generator().manual_seed(0))
    weight = torch.linspace(0.5, 2, 768).to("xla").requires_grad_()
    exact = weight.detach().cpu().double().requires_grad_()
    wide = F.layer_norm(x.double(), [768], exact).sin().sum()
    with composites.enabled("layer_norm", decompositions="fast"):
        ours = F.layer_norm(x.to("xla"), [768], weight).sin().sum()
        ours = torch.autograd.grad(ours, weight)[0]
    right = torch.autograd.grad(wide, exact)[0]
    torch.testing.assert_close(ours.cpu().double(), right, rtol=1e-5, atol=1e-4)
