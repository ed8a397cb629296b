"""Errors inside the functions that registries name: each names the line of the user's file."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from composites_testing.command_line import invoke
from composites_testing.processes import run_python

import composites
from lowering.stablehlo import BindError

FUNCTIONS = """
import jax.numpy as jnp

def in_torch(self, approximate="none"):
    return self.reshape(7)

def in_jax(self, approximate="none"):
    return jnp.reshape(self, 7)

def kernel(self, *, approximate):
    return jnp.reshape(self, 7)
"""
X = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("function", "line", "error"),
    [("umbra_ops:in_torch", 5, RuntimeError), ("jax:umbra_ops:in_jax", 8, TypeError)],
)
def test_a_decomposition(
    use: Callable[[str], str], tmp_path: Path, function: str, line: int, error: type[Exception]
) -> None:
    path = use(
        f"  gelu: {{op: aten::gelu, attributes: [approximate], decomposition: {function}}}\n"
    )
    expected = (
        f"decomposition {function.removeprefix('jax:')} failed for tensor<2x3xf32>:"
        f" {tmp_path}/umbra_ops.py:{line}: {error.__name__}: "
    )
    calls = (
        lambda: composites.export(torch.nn.GELU(), (X,), ops=["umbra.gelu"]),
        lambda: F.gelu(X.to("xla")),
    )
    for call in calls:
        with composites.enabled("umbra.gelu"), pytest.raises(composites.LoweringError) as raised:
            call()
        assert str(raised.value).startswith(f"{path}:4: umbra.gelu: {expected}")
        assert isinstance(raised.value.__cause__, error)
    assert f"{path}:4: gelu: {expected}" in invoke("check", path).stderr
    verified = invoke("verify", "umbra.gelu", "--json")
    assert f"{tmp_path}/umbra_ops.py:{line}: {error.__name__}: " in verified.stdout


KEPT = """
import torch, torch_xla
import composites
from lowering.suggestion.suggest import suggest

x = torch.ones(2, 3)

class Keeping(torch.nn.Module):
    def __init__(self, reads):
        super().__init__()
        self.linear, self.reads = torch.nn.Linear(3, 3), reads

    def forward(self, x):
        self.last = self.linear(x)
        return self.last.sum() * (self.last.sum().item() if self.reads else 1)

real, kept = torch.ones(2, device="xla") * 3, [Keeping(True), Keeping(False)]
composites.enable("umbra.gelu")
for call in (
    *(
        lambda module=module, train=train: composites.export(module, (x,), train=train)
        for module in kept
        for train in (True, False)
    ),
    lambda: torch.nn.functional.gelu(torch.ones(2, 3, device="xla")),
    lambda: composites.export(torch.nn.GELU(), (x,), ops=["umbra.gelu"]),
    lambda: suggest(kept[0], (x,)),
):
    try:
        call()
    except composites.errors.CompositesError as error:
        kept.append(error)
    torch_xla.sync(wait=True)
print(real.tolist(), len(kept))
"""


@pytest.mark.process
def test_a_sync_while_somebody_keeps_the_errors(use: Callable[[str], str], tmp_path: Path) -> None:
    use("  gelu: {op: aten::gelu, attributes: [approximate], decomposition: umbra_ops:in_torch}\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run_python(KEPT, PYTHONPATH=path)
    assert done.stdout == "[3.0, 3.0] 7\n", done.stderr  # two modules, and five errors


def test_a_kernel(use: Callable[[str], str], tmp_path: Path) -> None:
    use("  tanh: {op: aten::tanh}\nkernels:\n  ptxla.gelu: {cpu: [{function: umbra_ops:kernel}]}\n")
    program = composites.export(torch.nn.GELU(), (X,), ops=["ptxla.gelu"])
    with pytest.raises(BindError) as raised:
        program.compile("cpu")
    assert str(raised.value).startswith(
        "ptxla.gelu: kernel cannot be lowered for (tensor<2x3xf32>) with approximate='none':"
        f" {tmp_path}/umbra_ops.py:11: TypeError: "
    )
