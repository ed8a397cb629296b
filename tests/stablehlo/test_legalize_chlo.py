"""legalize_chlo: no CHLO left, same numbers."""

from composites_testing.passes import load, same_numbers

from lowering.stablehlo import Module, clean, legalize_chlo


def test_no_chlo_is_left() -> None:
    before = clean(load("wrapped_gelu"))
    after = legalize_chlo(before)
    assert "chlo." in before.text
    assert "chlo." not in after.text
    assert "stablehlo.composite" in after.text
    same_numbers(before, after, tolerance=1e-6)


def test_named_operations_stay() -> None:
    module = Module.parse("""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = chlo.erf %x : tensor<2xf32> -> tensor<2xf32>
          %1 = chlo.asinh %0 : tensor<2xf32> -> tensor<2xf32>
          return %1 : tensor<2xf32>
        }""")
    text = legalize_chlo(module, kept=("chlo.erf",)).text
    assert "chlo.erf %arg0 : tensor<2xf32> -> tensor<2xf32>" in text
    assert "chlo.asinh" not in text
