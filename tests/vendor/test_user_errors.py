"""Errors inside the functions that registries name: each names the line of the user's file."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

import composites
from lowering.cli.app import app
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
    checked = CliRunner().invoke(app, ["check", path])
    assert f"{path}:4: gelu: {expected}" in checked.stderr
    verified = CliRunner().invoke(app, ["verify", "umbra.gelu", "--json"])
    assert f"{tmp_path}/umbra_ops.py:{line}: {error.__name__}: " in verified.stdout


def test_a_kernel(use: Callable[[str], str], tmp_path: Path) -> None:
    use("  tanh: {op: aten::tanh}\nkernels:\n  ptxla.gelu: {cpu: [{function: umbra_ops:kernel}]}\n")
    program = composites.export(torch.nn.GELU(), (X,), ops=["ptxla.gelu"])
    with pytest.raises(BindError) as raised:
        program.compile("cpu")
    assert str(raised.value).startswith(
        "ptxla.gelu: kernel cannot be lowered for (tensor<2x3xf32>) with approximate='none':"
        f" {tmp_path}/umbra_ops.py:11: TypeError: "
    )
