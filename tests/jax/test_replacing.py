"""Functions that others make, replaced while they exist already: their code, for any variables."""

from collections.abc import Iterator
from typing import Any

import pytest

from composites.errors import UnusableFunctionError
from lowering.jax_programs.replacing import find_replaceable


def _maker(variable: Any, *, other: Any = 2) -> Any:
    def made(first: Any, /, second: Any, *rest: Any, third: Any = 3, **further: Any) -> Any:
        return variable, other, first, second, rest, third, further

    return made


def test_parameters_and_variables_of_a_local_function() -> None:
    seen = []

    def handler(original: Any, arguments: Any, keywords: Any) -> Any:
        seen.append((arguments, keywords))
        return original(*arguments, **keywords)

    before = _maker("before")
    code = before.__code__
    whole = find_replaceable(f"{__name__}:_maker.<locals>.made").replace(handler)
    try:
        after = _maker("after", other=5)
        assert before(1, 2) == ("before", 2, 1, 2, (), 3, {})
        assert after(1, 2, 7, third=4, x=8) == ("after", 5, 1, 2, (7,), 4, {"x": 8})
        assert seen == [((1, 2), {"third": 3}), ((1, 2, 7), {"third": 4, "x": 8})]
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'second'"):
            before(1)
    finally:
        whole.restore()
    assert before.__code__ is after.__code__ is _maker(0).__code__ is code
    assert len(seen) == 2


def _maker_of_two(variable: int) -> Any:
    if variable:

        def twice() -> int:
            return variable
    else:

        def twice() -> int:
            return 0

    return twice


def _maker_of_others(variable: int) -> Any:
    class Klass:
        value = variable

    def generator() -> Iterator[int]:
        yield variable

    async def coroutine() -> int:
        return variable

    def counter() -> None:
        nonlocal variable
        variable += 1

    def inner() -> Any:
        def count() -> None:
            nonlocal variable
            variable += 1

        return count

    return Klass, generator, coroutine, counter, inner


NOT_PLAIN = "cannot be caught: it is not a plain function"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("_maker.<locals>.mad", r"_maker defines no function mad.*mean 'made'"),
        ("_maker_of_two.<locals>.twice", "_maker_of_two defines several functions twice"),
        *(
            (f"_maker_of_others.<locals>.{name}", NOT_PLAIN)
            for name in ("Klass", "generator", "coroutine", "counter", "inner")
        ),
    ],
)
def test_what_cannot_be_replaced(name: str, message: str) -> None:
    with pytest.raises(UnusableFunctionError, match=message):
        find_replaceable(f"{__name__}:{name}")
