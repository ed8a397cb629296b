"""XLA_COMPOSITE_OP on a script that knows nothing of this project, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REFERENCE_CASE = """
import sys
import torch, torch_xla
import torch_xla.core.xla_model as xm
x = torch.tensor([2.0], requires_grad=True, device="xla")
torch.nn.GELU(approximate="none")(x ** 2).backward()
print(xm.get_stablehlo([x.grad]))
print("activation imported:", "lowering.activation" in sys.modules)
"""


def run(script: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("XLA_COMPOSITE")}
    return subprocess.run(
        [sys.executable, *options, "-c", script],
        env=inherited | {"PJRT_DEVICE": "CPU"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def output(script: str, *options: str, **environment: str) -> str:
    done = run(script, *options, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_backward_of_gelu_is_one_composite() -> None:
    text = output(REFERENCE_CASE, XLA_COMPOSITE_OP="gelu")
    calls = [line for line in text.splitlines() if "stablehlo.composite " in line]
    (call,) = calls
    assert '"ptxla.gelu_backward"' in call
    assert 'composite_attributes = {approximate = "none"}' in call
    assert "version = 1 : i32" in call
    decomposition = text.split("func.func private @ptxla.gelu_backward.impl")[1]
    assert "@mhlo.erf" in decomposition
    assert "stablehlo.exponential" in decomposition


def test_unset_the_text_is_that_of_stock_torch_xla() -> None:
    without_autoload = output(REFERENCE_CASE, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    unset = output(REFERENCE_CASE)
    assert unset == without_autoload
    assert "stablehlo.composite" not in unset
    assert unset.endswith("activation imported: False\n")


@pytest.mark.parametrize(
    "imports", ["import torch, torch_xla", "import torch_xla, torch", "import torch_xla.runtime"]
)
def test_every_order_of_imports(imports: str) -> None:
    text = output(
        f"{imports}\nimport composites\nprint(composites.active())", XLA_COMPOSITE_OP="silu"
    )
    assert text == "('ptxla.silu', 'ptxla.silu_backward')\n"


def test_without_torch_xla_nothing_happens() -> None:
    script = "import sys, torch; print('lowering.activation' in sys.modules)"
    assert output(script, XLA_COMPOSITE_OP="gelu") == "False\n"


@pytest.mark.parametrize("imports", ["import torch, torch_xla", "import torch_xla"])
def test_an_unknown_name_stops_the_program_at_the_import(imports: str) -> None:
    done = run(f"{imports}\nprint('not reached')", XLA_COMPOSITE_OP="gelu,sofmax")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith(
        "composites.errors.AllowlistError: XLA_COMPOSITE_OP=gelu,sofmax: there is no composite"
        " 'sofmax'; did you mean 'softmax'?; `composites list` prints them all"
    )


def test_a_wrong_registry_stops_the_program_at_the_import(tmp_path: Path) -> None:
    wrong = tmp_path / "acme.yaml"
    wrong.write_text("schema: 1\nnamespace: acme\ncomposites: {a: {op: aten::gellu}}\n")
    done = run("import torch_xla", XLA_COMPOSITE_OP="gelu", XLA_COMPOSITE_REGISTRY=str(wrong))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"composites.errors.RegistryError: {wrong}:3: a: PyTorch has no operator aten::gellu;"
        " did you mean 'aten::gelu'?"
    )


def test_nothing_is_printed_and_no_warning_raised() -> None:
    script = (
        "import torch_xla, torch\n"
        "x = torch.ones(3, requires_grad=True, device='xla')\n"
        "torch.nn.functional.silu(x).sum().backward()\n"
        "x.grad.cpu()\n"
    )
    stock = run(script, "-W", "error::UserWarning")
    composites = run(script, "-W", "error::UserWarning", XLA_COMPOSITE_OP="all")
    assert (stock.returncode, composites.returncode) == (0, 0)
    assert (composites.stdout, composites.stderr) == (stock.stdout, stock.stderr)
