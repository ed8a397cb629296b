"""Cross entropy: what its forward saves, and the gradient made of it."""

import math
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.selection import variants
from composites_testing.written import decomposition_of
from torch import Tensor

import composites
from lowering.verification.bits import same_bits

LOSS = "ptxla.cross_entropy_loss"


def operands(rows: int, classes: int, ignored: int = -100) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 20 * torch.randn(rows, classes, generator=generator)
    target = torch.randint(0, classes, (rows,), generator=generator)
    target[::3] = ignored
    return logits, target


def loss(
    logits: Tensor, target: Tensor, grad: float = 1.0, device: str = "xla", **options: Any
) -> list[Tensor]:
    """The loss, and the gradients of all operands that can have one."""
    leaf = logits.to(device).requires_grad_()
    keywords: dict[str, Any] = {
        k: v.to(device) if isinstance(v, Tensor) else v for k, v in options.items()
    }
    result = F.cross_entropy(leaf, target.to(device), **keywords)
    grads = torch.full(result.shape, grad, dtype=logits.dtype).to(device)
    (gradient,) = torch.autograd.grad(result, [leaf], grads)
    if device == "xla":
        torch_xla.sync()
    return [result.detach().cpu(), gradient.cpu()]


def check_bits(logits: Tensor, target: Tensor, grad: float = 1.0, **options: Any) -> None:
    """Loss and gradient have the bits of stock."""
    stock = loss(logits, target, grad, **options)
    with composites.enabled(LOSS):
        ours = loss(logits, target, grad, **options)
    assert all(map(same_bits, ours, stock)), (grad, options)


def test_gradients_of_any_factor_have_the_bits_of_stock() -> None:
    for reduction in ("mean", "sum", "none"):
        for grad, ignored in ((-3.3, 2), (0.0, 2)):
            check_bits(*operands(37, 53, ignored), grad, reduction=reduction, ignore_index=ignored)


@variants("dtype", [torch.float32, torch.float64], ids=str)
@variants("classes", [100, 128, 300, 1000, 5000])
@pytest.mark.parametrize(("rows", "reduction"), [(3, "mean"), (64, "none")])
def test_sums_of_many_classes_have_the_bits_of_stock(
    rows: int, classes: int, reduction: str, dtype: torch.dtype
) -> None:
    logits, target = operands(rows, classes)
    logits = logits.to(dtype)
    logits[1] = -math.inf
    check_bits(logits, target, reduction=reduction)


def graph_of_both(logits: Tensor, target: Tensor) -> str:
    """The graph of a loss and its gradient."""
    with composites.enabled(LOSS):
        result = F.cross_entropy(logits, target)
        (gradient,) = torch.autograd.grad(result, [logits])
        return str(xm.get_stablehlo([result.detach(), gradient]))


@pytest.mark.parametrize("shape", [(4, 5), (3, 5, 2)], ids=str)
@variants("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_is_saved(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """The saved tensor has the logits' shape without classes, in f32."""
    logits = torch.randn(shape).to(dtype).to("xla").requires_grad_()
    target = torch.zeros(shape[:1] + shape[2:], dtype=torch.int64)
    text = graph_of_both(logits, target.to("xla"))
    rows = "".join(f"{size}x" for size in target.shape)
    forward = re.search(r'composite "ptxla.cross_entropy_loss" .*-> tuple<(.*)>', text)
    assert forward is not None
    assert forward[1].split(", ")[1:] == [f"tensor<{rows}f32>"] * 2
    backward = re.search(r'composite "ptxla.cross_entropy_loss_backward" .*: \((.*)\) ->', text)
    assert backward is not None
    assert backward[1].split(", ")[-2:] == [f"tensor<{rows}f32>"] * 2


@variants("value", [math.inf, -math.inf, math.nan, torch.finfo().min, -0.0], ids=str)
@variants("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_special_logits_keep_the_bits_of_stock(value: float, dtype: torch.dtype) -> None:
    logits, target = operands(6, 5)
    logits[0], logits[1, 2], logits[2, :3] = value, value, value
    check_bits(logits.to(dtype), target % 5, reduction="none")


def test_what_is_saved_is_computed_on_the_way() -> None:
    logits, target = (t.to("xla") for t in operands(37, 53))
    text = graph_of_both(logits.requires_grad_(), target)
    for name in (LOSS, f"{LOSS}_backward"):
        assert decomposition_of(name, text).count("stablehlo.exponential") == 1


def test_the_gradient_needs_no_sum_over_the_logits() -> None:
    """Stock sums one-hot rows twice, and may compute the forward's two sums again."""
    logits, target = (t.to("xla") for t in operands(37, 53))
    logits.requires_grad_()
    with composites.enabled(LOSS):
        (gradient,) = torch.autograd.grad(F.cross_entropy(logits, target), [logits])
        text = xm.get_stablehlo([gradient])
    backward = decomposition_of(f"{LOSS}_backward", text)
    assert "stablehlo.exponential" in backward
    sums = re.findall(r"stablehlo\.reduce\(.*: \(tensor<([0-9x]*)x\w+>", backward)
    assert sums == ["37"]  # the number of rows that count


def test_probabilities_have_gradients_too() -> None:
    tensors = {}
    for device in ("cpu", "xla"):
        logits = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
        leaves = [t.to(device).requires_grad_() for t in (logits, logits.softmax(1))]
        with composites.enabled(LOSS):
            result = F.cross_entropy(leaves[0].sin(), leaves[1])
            gradients = torch.autograd.grad(result, leaves)
        tensors[device] = [t.detach().cpu() for t in (result, *gradients)]
    torch.testing.assert_close(tensors["xla"], tensors["cpu"])


def test_smoothing_of_large_logits() -> None:
    """The rows' alternative subtracts the maximum before it adds the logarithm of the sum."""
    logits = 15000 + torch.randn(16384, 4, generator=torch.Generator().manual_seed(0))
    target = torch.zeros(16384, dtype=torch.int64)
    options: dict[str, Any] = {"reduction": "none", "label_smoothing": 0.5}
    right, _ = loss(logits.double(), target, device="cpu", **options)
    with composites.enabled(LOSS, decompositions="rows"):
        actual, _ = loss(logits, target, **options)
    assert float((actual - right).abs().max()) < 2e-6
