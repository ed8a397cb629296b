"""clean: what torch_xla 2.9 printed, as clean text with the same numbers."""

from composites_testing.passes import load, same_numbers

from lowering.stablehlo import clean

SAMPLES = ("transformer_torch_xla_2_9", "transformer_step_torch_xla_2_9", "wrapped_gelu")


def test_numbers_stay() -> None:
    for name in SAMPLES:
        before = load(name)
        once = clean(before)
        same_numbers(before, once, clean(before, share=False), tolerance=1e-6)
        assert clean(once).text == once.text


def test_text_holds_nothing_but_what_is_meant() -> None:
    text = clean(load("transformer_step_torch_xla_2_9")).text
    assert "mhlo." not in text
    assert " call @" not in text
    assert "xla_shape" not in text
    assert text.startswith("module @IrToHlo {\n")
    for name in ("gelu", "gelu_backward", "softmax", "softmax_backward"):
        assert text.count(f"func.func private @ptxla.{name}.impl(") == 1
    assert text.count("func.func private") == 4


def test_each_call_can_have_its_own_decomposition() -> None:
    text = clean(load("transformer_step_torch_xla_2_9"), share=False).text
    assert text.count("func.func private") == 8
    assert "@ptxla.gelu.impl_0" in text
