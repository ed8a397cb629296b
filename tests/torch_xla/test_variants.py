"""Calls in place of operators that entries catch at autograd's key; those with `out=` stay."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.selection import exhaustive, variants

import composites

REGISTRY = Path(__file__).with_name("variants.yaml").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def umbra(use_registry: Callable[[str], None]) -> None:
    """A registry with operators of each form, caught at autograd's key."""
    use_registry(REGISTRY)


def _written_after_use(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return F.silu(y, inplace=True) + y * 3


def _column(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    F.silu(y[:, :2], inplace=True)
    return y


def _turned(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    F.silu(y.t(), inplace=True)
    return y


def _compiled(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.reset()
    called = torch.compile(lambda t: F.silu(t * 2, inplace=True), backend="openxla")
    result: torch.Tensor = called(x)
    return result


IN_PLACE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "on a result": lambda x: F.silu(x * 2, inplace=True),
    "on a result that is used again": _written_after_use,
    "on some columns": _column,
    "on a transposed view": _turned,
    "on a leaf": lambda x: F.silu(x, inplace=True),
    "on what another backward reads": lambda x: F.silu(x.exp(), inplace=True),
    "dropout": lambda x: F.dropout(x * 2, 0.3, inplace=True),
    "dropout in evaluation": lambda x: F.dropout(x * 2, 0.3, training=False, inplace=True),
    "module": lambda x: torch.nn.SiLU(inplace=True)(x * 2),
}
OUT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "out": lambda x: torch.ops.aten.silu.out(x, out=torch.zeros(3, 4, device="xla")),
    "out is the operand": lambda x: torch.ops.aten.silu.out(x, out=x),
}
ALIASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "the target twice": lambda x: (x * x).add_(x * x),
    "the target itself": lambda x: (y := x * x).add_(y),
    "a part of the target": lambda x: _shifted(x * x),
}
NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda x: x + 3,
    "product": lambda x: x * 1.1,
    "whole numbers": lambda x: ((x * 9).to(torch.int32) + 1.5).float() * x,
    "bf16": lambda x: (x.bfloat16() + 1.1).float(),
    "f64": lambda x: (x.double() * 1.1).float(),
    "without dimensions": lambda x: x.sum() + 1.1,
    "in place": lambda x: (x * x).add_(3).mul_(1.7),
    "truth value": lambda x: x + True,
}


def _shifted(y: torch.Tensor) -> torch.Tensor:
    y[:, :2].add_(y[:, 2:])
    return y


CLAIMED_WITHOUT_GRADIENTS = set(IN_PLACE) - {"dropout in evaluation"}


def outcome(call: Callable[[torch.Tensor], torch.Tensor], how: str) -> tuple[object, int]:
    """The result's bytes, and its gradient's, or the error's first line; and the composites."""
    xm.set_rng_state(0)
    x = torch.linspace(-2.0, 2.0, 12).reshape(3, 4).to("xla").requires_grad_(how == "gradients")
    try:
        if how == "inference":
            with torch.inference_mode():
                results = [call(x.clone()).clone()]
        else:
            y = call(x)
            results = [y.detach()]
            if how == "gradients":
                results += torch.autograd.grad((y * y).sum(), x)
    except RuntimeError as error:
        return str(error).partition("\n")[0], 0
    count = torch_xla._XLAC._get_xla_tensors_text(results).count
    composites_written = count("umbra::") + count("ptxla::")
    return [t.cpu().reshape(-1).view(torch.uint8).tolist() for t in results], composites_written


@variants("how", ["gradients", "no gradients", *exhaustive("inference")])
@variants("name", [*IN_PLACE, *OUT], fast=[*[*IN_PLACE][:5], *OUT])
def test_a_call_has_stocks_bits_or_stocks_error(name: str, how: str) -> None:
    call = (IN_PLACE | OUT)[name]
    stock, _ = outcome(call, how)
    with composites.enabled("umbra.silu", "dropout"):
        actual, count = outcome(call, how)
    assert actual == stock
    if how == "gradients" and isinstance(stock, list) and name in CLAIMED_WITHOUT_GRADIENTS:
        assert count == 2, "forward and backward"
    elif how != "gradients":
        assert (count > 0) == (name in CLAIMED_WITHOUT_GRADIENTS)


@variants("how", ["gradients", "no gradients", *exhaustive("inference")])
@variants("name", [*ALIASES, *NUMBERS], fast=4)
def test_aliases_of_the_target_and_numbers_have_stocks_bits(name: str, how: str) -> None:
    call = (ALIASES | NUMBERS)[name]
    stock, _ = outcome(call, how)
    assert isinstance(stock, list)
    with composites.enabled("umbra.add", "umbra.mul"):
        actual, count = outcome(call, how)
    assert actual == stock
    assert count or name in NUMBERS


def test_a_number_is_a_reason_and_the_kernel_that_stays_takes_it() -> None:
    x = torch.ones(3, device="xla")
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        composites.enable("umbra.add", "umbra.mul")
        for call in (lambda: x + 3, lambda: x * 3, lambda: x.clone().add_(1)):
            call()
        composites.disable()
        assert (x + 3).tolist() == [4, 4, 4]
        assert (x * 3).tolist() == [3, 3, 3]
        assert x.clone().add_(1).tolist() == [2, 2, 2]
    finally:
        ended.set()
        thread.join()
    composites.disable()
    for name in ("umbra.add", "umbra.mul"):
        reasons = [f.reason for f in composites.stats().entries[name].fallbacks]
        assert "other is a number" in reasons


def test_a_compiled_call_in_place_is_a_composite() -> None:
    x = torch.linspace(-2.0, 2.0, 12).reshape(3, 4).to("xla").requires_grad_()
    stock = _compiled(x)
    with composites.enabled("umbra.silu"):
        before = composites.stats().entries["umbra.silu"].calls
        result = _compiled(x)
        assert composites.stats().entries["umbra.silu"].calls > before
    assert torch.equal(stock.cpu(), result.cpu())
