"""Composites in every way of running PyTorch on XLA: the numbers are those of stock."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from torch_xla.utils.checkpoint import checkpoint

import composites

VALUES = torch.linspace(-3, 3, 64).reshape(8, 8)


@pytest.fixture(autouse=True)
def all_off() -> Iterator[None]:
    composites.disable()
    torch._dynamo.reset()
    yield
    composites.disable()
    torch._dynamo.reset()


def model(x: torch.Tensor) -> torch.Tensor:
    return F.silu(F.softmax(F.gelu(x), -1)).sum()


def under_autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("xla", dtype=torch.bfloat16):
        return model(x @ x)


def names(*tensors: torch.Tensor) -> set[str]:
    text = xm.get_stablehlo(list(tensors))
    return {part.split('"')[1] for part in text.split("stablehlo.composite ")[1:]}


def gradient(function: Callable[[torch.Tensor], torch.Tensor]) -> tuple[torch.Tensor, set[str]]:
    x = VALUES.to("xla").requires_grad_()
    function(x).backward()
    found = names(x.grad)
    return x.grad.cpu(), found


MODES = {
    "plain": lambda: model,
    "compile": lambda: torch.compile(model, backend="openxla"),
    "autocast": lambda: under_autocast,
    "checkpoint": lambda: lambda x: checkpoint(model, x),
}


@pytest.mark.parametrize("mode", MODES)
def test_gradients(mode: str) -> None:
    stock, nothing = gradient(MODES[mode]())
    assert nothing == set()
    torch._dynamo.reset()
    with composites.enabled("all"):
        got, found = gradient(MODES[mode]())
    assert torch.equal(got, stock)
    # A compiled graph has run when its result is there, and shows nothing any more.
    if mode != "compile":
        backwards = {"ptxla.gelu_backward", "ptxla.softmax_backward", "ptxla.silu_backward"}
        assert found >= backwards


def test_compiled_graphs_hold_composites(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "composites")
    with composites.enabled("all"):
        gradient(torch.compile(model, backend="openxla"))
    lowered = {record.args[0] for record in caplog.records if record.msg.startswith("%s for ")}
    for name in ("gelu", "softmax", "silu"):
        assert {f"ptxla.{name}", f"ptxla.{name}_backward"} <= lowered


def test_inference_mode() -> None:
    with torch.inference_mode():
        stock = model(VALUES.to("xla")).cpu()
        with composites.enabled("all"):
            result = model(VALUES.to("xla"))
            assert names(result) == {"ptxla.gelu", "ptxla.softmax", "ptxla.silu"}
            assert torch.equal(result.cpu(), stock)


TRANSFORMS = {
    "grad": lambda x: torch.func.grad(model)(x),
    "vmap of grad": lambda x: torch.func.vmap(torch.func.grad(model))(x),
    "jacrev": lambda x: torch.func.jacrev(F.gelu)(x[0]),
    "jvp": lambda x: torch.func.jvp(F.gelu, (x,), (x,))[1],
    "hessian": lambda x: torch.func.jacrev(torch.func.jacrev(lambda r: F.gelu(r).sum()))(x[0]),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_torch_func(transform: str) -> None:
    stock = TRANSFORMS[transform](VALUES.to("xla")).cpu()
    with composites.enabled("all"):
        result = TRANSFORMS[transform](VALUES.to("xla"))
        # The Hessian of gelu is made of plain operations: PyTorch differentiates gelu_backward.
        assert transform in ("hessian", "jvp") or "ptxla.gelu_backward" in names(result)
        assert torch.equal(result.cpu(), stock)


def test_batched_gradients() -> None:
    def batched() -> torch.Tensor:
        x = VALUES.to("xla").requires_grad_()
        grads = torch.stack([torch.ones(8, 8), VALUES]).to("xla")
        return torch.autograd.grad(F.silu(x), x, grads, is_grads_batched=True)[0]

    stock = batched().cpu()
    with composites.enabled("all"):
        assert torch.equal(batched().cpu(), stock)


SPMD = """
import numpy as np, torch, torch_xla, torch_xla.runtime as xr, torch_xla.distributed.spmd as xs
import torch.nn.functional as F
import composites

xr.use_spmd()
assert xr.global_runtime_device_count() == 4
mesh = xs.Mesh(np.arange(4), (4,), ("d",))

def step():
    x = torch.linspace(-3, 3, 64).reshape(8, 8).to("xla").requires_grad_()
    xs.mark_sharding(x, mesh, ("d", None))
    y = F.silu(F.softmax(F.gelu(x), -1))
    y.sum().backward()
    torch_xla.sync()
    return torch_xla._XLAC._get_xla_sharding_spec(y), y.cpu(), x.grad.cpu()

stock = step()
with composites.enabled("all"):
    on = step()
assert stock[0] == on[0] == "{devices=[4,1]0,1,2,3}", (stock[0], on[0])
assert torch.equal(stock[1], on[1]) and torch.equal(stock[2], on[2])
"""


def test_spmd_keeps_shardings_and_numbers() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPMD],
        env=os.environ | {"CPU_NUM_DEVICES": "4", "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
