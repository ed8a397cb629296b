"""legalize_chlo: no CHLO left, same numbers."""

from composites_testing.passes import load, same_numbers

from lowering.stablehlo import clean, legalize_chlo


def test_no_chlo_is_left() -> None:
    before = clean(load("wrapped_gelu"))
    after = legalize_chlo(before)
    assert "chlo." in before.text
    assert "chlo." not in after.text
    assert "stablehlo.composite" in after.text
    same_numbers(before, after, tolerance=1e-6)
