"""clean: what torch_xla 2.9 printed, as clean text with the same numbers."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from composites_testing.processes import run_python

from lowering.stablehlo import Module, clean

Load = Callable[[str], Module]
SAMPLES = ("transformer_torch_xla_2_9", "transformer_step_torch_xla_2_9", "wrapped_gelu")


@pytest.mark.parametrize("name", SAMPLES)
def test_numbers_stay(name: str, load: Load, same_numbers: Callable[..., None]) -> None:
    before = load(name)
    once = clean(before)
    same_numbers(before, once, clean(before, share=False), tolerance=1e-6)
    assert clean(once).text == once.text


def test_text_holds_nothing_but_what_is_meant(load: Load) -> None:
    text = clean(load("transformer_step_torch_xla_2_9")).text
    assert "mhlo." not in text
    assert " call @" not in text
    assert "xla_shape" not in text
    assert text.startswith("module @IrToHlo {\n")
    for name in ("gelu", "gelu_backward", "softmax", "softmax_backward"):
        assert text.count(f"func.func private @ptxla.{name}.impl(") == 1
    assert text.count("func.func private") == 4


def test_each_call_can_have_its_own_decomposition(load: Load) -> None:
    text = clean(load("transformer_step_torch_xla_2_9"), share=False).text
    assert text.count("func.func private") == 8
    assert "@ptxla.gelu.impl_0" in text


@pytest.mark.process
def test_text_is_the_same_in_every_process(load: Load) -> None:
    path = Path(__file__).parent / "data" / "transformer_step_torch_xla_2_9.mlir"
    script = (
        "import sys; from lowering.stablehlo import Module, clean; "
        f"sys.stdout.write(clean(Module.read({str(path)!r})).text)"
    )
    for seed in ("1", "2"):
        done = run_python(script, PYTHONHASHSEED=seed, PYTHONPATH=":".join(sys.path))
        assert done.stdout == clean(Module.read(path)).text
