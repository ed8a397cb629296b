"""unshare_decompositions: a function for each call."""

from collections.abc import Callable

from lowering.stablehlo import Module, share_decompositions, unshare_decompositions

Load = Callable[[str], Module]
Same = Callable[..., None]


def test_unshare_gives_each_call_its_own(load: Load, same_numbers: Same) -> None:
    before = share_decompositions(load("nested_duplicates"))
    after = unshare_decompositions(before)
    # Two outers, an inner in each, one inner and one other in main.
    assert after.text.count("func.func private") == 6
    assert share_decompositions(after).text.count("func.func private") == 3
    same_numbers(before, after)
