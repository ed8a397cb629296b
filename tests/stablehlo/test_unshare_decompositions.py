"""unshare_decompositions: a function for each call."""

from composites_testing.passes import load, same_numbers

from lowering.stablehlo import share_decompositions, unshare_decompositions


def test_unshare_gives_each_call_its_own() -> None:
    before = share_decompositions(load("nested_duplicates"))
    after = unshare_decompositions(before)
    # Two outers, an inner in each, one inner and one other in main.
    assert after.text.count("func.func private") == 6
    assert share_decompositions(after).text.count("func.func private") == 3
    same_numbers(before, after)
