"""Targets: the passes of a consumer, and what it does not take."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from composites_testing.cases import cases
from composites_testing.modules import Calling
from composites_testing.passes import DATA
from composites_testing.stablehlo_commands import invoke

import composites
from lowering import export, stablehlo
from lowering.stablehlo.bindings import operator_name, source_line

SOLVE = DATA / "solve.mlir"
CALL = DATA / "kernel_call.mlir"
FORMS = DATA.parent / "forms_of_litert.mlir"
POOL = torch.nn.Sequential(
    torch.nn.Conv2d(1, 2, 3), torch.nn.GELU(), torch.nn.MaxPool2d(3, 2, 1), torch.nn.Flatten(0)
)


def exported(**options: Any) -> composites.Program:
    module = torch.nn.Sequential(POOL, Calling(lambda x: x.square().sum()))
    return composites.export(module, (torch.ones(1, 1, 10, 10),), train=True, **options)


def test_what_a_target_lacks_is_replaced() -> None:
    texts = {name: exported(target=name).mlir for name in stablehlo.TARGETS}
    for name, text in texts.items():
        is_xla = name in ("xla", "cuda")
        assert ("stablehlo.select_and_scatter" in text) == is_xla, name
        assert ("chlo.erf" in text) == is_xla, name
    assert texts["xla"] == texts["cuda"] == exported().mlir
    assert texts["portable"] == exported(portable=True).mlir
    assert texts["portable"] == exported(portable=True, target="portable").mlir


def test_what_cannot_be_replaced_is_named() -> None:
    message = "IREE 3.13 does not take stablehlo.cholesky of f32, which is in @factor; replace it"
    with pytest.raises(stablehlo.UnsupportedOperationError, match=message):
        stablehlo.run_passes(stablehlo.Module.read(SOLVE), stablehlo.target_passes("iree"))
    message = "does not take stablehlo.custom_call @acme.kernel, which is in @main"
    with pytest.raises(stablehlo.UnsupportedOperationError, match=message):
        stablehlo.run_passes(stablehlo.Module.read(CALL), stablehlo.target_passes("iree"))
    for name in ("xla", "cuda", "portable"):
        stablehlo.run_passes(stablehlo.Module.read(SOLVE), stablehlo.target_passes(name))


def test_a_form_that_is_refused_is_described() -> None:
    """Programs of forms_of_litert.mlir have no message about a form that is taken."""
    for case in cases(FORMS.read_text(encoding="utf-8")):
        (message,) = case.all("says")
        error = pytest.raises(
            stablehlo.RefusedOperationError, match=f"does not take stablehlo.{message}"
        )
        with error if message else nullcontext():
            stablehlo.run_passes(case.module(), stablehlo.target_passes("litert"))


WITH_LINES = DATA / "lines.mlir"


def test_a_refusal_names_the_composite_and_the_line() -> None:
    module = stablehlo.Module.read(WITH_LINES)
    message = (
        "LiteRT 2.3 does not take stablehlo.multiply of f64, which is in @square,"
        " of composite acme.square, at models/net.py:12; replace it, or leave the target out"
    )
    with pytest.raises(stablehlo.UnsupportedOperationError) as raised:
        stablehlo.run_passes(module, stablehlo.target_passes("litert"))
    assert str(raised.value) == message


TORCH = '"/env/site-packages/torch/optim/sgd.py":3:0'
EXPORT = f'"{Path(export.__file__).parent}/tracing.py":9:0'


@pytest.mark.parametrize(
    ("stack", "source"),
    [
        ([TORCH, '"net.py":7:0', EXPORT, '"train.py":1:0'], "net.py:7"),
        ([TORCH, EXPORT, '"train.py":1:0'], "/env/site-packages/torch/optim/sgd.py:3"),
        (['"net.py":7:0', '"layers.py":8:0'], "net.py:7"),
    ],
)
def test_the_line_is_one_of_the_module_that_is_exported(stack: list[str], source: str) -> None:
    *outer, last = (f'"f"({frame})' for frame in stack)
    location = last
    for frame in reversed(outer):
        location = f"callsite({frame} at {location})"
    text = WITH_LINES.read_text()
    text = text.replace('"mul"("models/net.py":12:3)', f'"aten__mul"({location})')
    with pytest.raises(stablehlo.RefusedOperationError) as raised:
        stablehlo.run_passes(stablehlo.Module.parse(text), stablehlo.target_passes("litert"))
    assert raised.value.source == f", from aten::mul, at {source}"


def test_what_is_not_checked() -> None:
    """Decompositions of native composites, and computations on constants, are not checked."""
    native = stablehlo.Module.parse(WITH_LINES.read_text().replace("acme.square", "tfl.square"))
    constant = stablehlo.Module.parse("""
        func.func @main() -> tensor<f32> {
          %0 = stablehlo.constant dense<0.1> : tensor<f64>
          %1 = stablehlo.multiply %0, %0 : tensor<f64>
          %2 = stablehlo.convert %1 : (tensor<f64>) -> tensor<f32>
          return %2 : tensor<f32>
        }
    """)
    for module in (native, constant):
        assert stablehlo.run_passes(module, stablehlo.target_passes("litert")).text == module.text


def test_mistakes() -> None:
    with pytest.raises(
        stablehlo.StableHLOError, match=r"no target 'ire' \(did you mean 'iree'\?\)|'ire'"
    ):
        exported(target="ire")
    with pytest.raises(composites.ExportError, match="portable=True and target='iree' are two"):
        exported(portable=True, target="iree")


def test_on_the_command_line(tmp_path: Path) -> None:
    file, out = tmp_path / "step.mlir", tmp_path / "out.mlir"
    file.write_text(exported().mlir)
    command = ("lower", file, "--target", "iree", "-o", out)
    assert invoke(*command)[0] == 0
    assert out.read_text() == exported(target="iree").mlir
    code, _, message = invoke("lower", SOLVE, *command[2:])
    assert code == 1
    assert "stablehlo.cholesky" in message
    assert "stablehlo.select_and_scatter" not in out.read_text()


LOCATIONS = {
    'loc("aten__sin"("m.py":3:0))': ("aten::sin", "m.py:3"),
    'loc("aten__sin"(callsite("m.py":3:0 at "n.py":4:0)))': ("aten::sin", "m.py:3"),
    'loc(fused["aten__sin", "m.py":3:0])': ("aten::sin", "m.py:3"),
    'loc("aten__sin")': ("aten::sin", ""),
    'loc(fused["uniform", "m.py":3:0])': ("", "m.py:3"),
    'loc(fused["m.py":3:0, "aten__sin"])': ("", "m.py:3"),
    'loc("m.py":3:0)': ("", "m.py:3"),
    "loc(unknown)": ("", ""),
}


def test_operators_and_lines_of_locations() -> None:
    assert {text: (operator_name(text), source_line(text)) for text in LOCATIONS} == LOCATIONS
