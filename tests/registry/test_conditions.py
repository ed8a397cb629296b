"""Conditions that are long or odd, and threads that read them; golden/mistakes.txt has more."""

import ast
import ctypes
import gc
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from composites.errors import RegistryError
from composites.registry.conditions import ConditionError, compile_condition
from composites.registry.model import Tensor, When
from composites.registry.selection import DescribedCall, comparable
from composites.registry.validation import parse_registry

SOFTMAX = ("self", "dim", "half_to_float")

WRONG = {
    "dim == " + "9" * 5000: "has more than 4000 characters; write several conditions",
    "dim == " + "9" * 3900: "has a number of more than 64 bits",
    "dim == 0x" + "f" * 3900: "has a number of more than 64 bits",
    "dim == '\0'": "is not an expression",
    "not " * 3000 + "dim": "has more than 4000 characters",
    "not " * 900 + "dim": "is nested",
    "-" * 3900 + "dim == 1": "is nested",
    "1+" * 20000 + "1 == 1": "has more than 4000 characters",
    "1+" * 1900 + "1 == 1": "is nested more than 50 levels deep; write several conditions",
    "(" * 1000 + "dim" + ")" * 1000: "too many nested parentheses",
    "[" * 150 + "]" * 150: "is nested more than 50 levels deep",
    "self" + ".shape" * 600: "is nested more than 50 levels deep",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:30].replace("\0", "0"))
def test_condition_that_no_call_can_satisfy(text: str) -> None:
    with pytest.raises(ConditionError) as raised:
        compile_condition(text, SOFTMAX)
    assert WRONG[text] in str(raised.value)
    assert len(str(raised.value)) < 1000


def test_many_conditions_in_one() -> None:
    text = " and ".join(["self.dim() == 2"] * 100)
    assert ast.parse(compile_condition(text, SOFTMAX), mode="eval")


@pytest.mark.parametrize(
    "text",
    [
        "alpha == 0.3 and alpha <= 0.3 and not alpha > 0.3 and alpha in (0.3, 1)",
        "large == 2147483648 and large > 2147483520 and low == -3.4028234663852886e+38",
        "dim == [1] and dim == (1,)",
        "dtype == f32 and dtype == x.dtype",
    ],
)
def test_an_attribute_has_the_value_that_the_call_had(text: str) -> None:
    numbers = {"alpha": 0.3, "large": 2.0**31, "low": -3.4028234663852886e38}
    attributes: dict[str, Any] = {n: ctypes.c_float(x).value for n, x in numbers.items()}
    attributes |= {"dim": (1,), "dtype": "f32"}
    x = Tensor("f32", (2, 3))
    call = DescribedCall([x], comparable(attributes) | {"x": x})
    assert call.unmet(When(where=(text,)), "kernel") is None


def test_conditions_of_a_function_are_parsed_at_load() -> None:
    text = (
        "schema: 1\nnamespace: acme\ncomposites:\n  e:\n    function: acme.gelu:gelu\n"
        f"    operands: [x]\n    when: {{where: ['{'not ' * 900}x', 'x ==', len(unknown) > 0]}}\n"
    )
    with pytest.raises(RegistryError) as raised:
        parse_registry(text, "acme.yaml")
    nested, cut = (str(problem) for problem in raised.value.problems)
    assert nested.startswith("acme.yaml:7: e: when: where: 'not not ")
    assert cut == "acme.yaml:7: e: when: where: 'x ==' is not an expression: invalid syntax"


def test_conditions_are_read_in_several_threads() -> None:
    """CPython 3.11.7 fails where two threads parse at once, and filters of warnings are shared."""
    limits, interval = gc.get_threshold(), sys.getswitchinterval()
    filters = list(warnings.filters)

    def read(thread: int) -> None:
        for number in range(400):
            cycle: list[object] = [_SlowToDelete()]
            cycle.append(cycle)  # the collector, which runs during parsing, lets other threads run
            compile_condition(f"dim == {number} and self.dim() == {thread}", SOFTMAX)

    try:
        gc.set_threshold(20)
        sys.setswitchinterval(1e-6)
        with ThreadPoolExecutor(8) as threads:
            for done in [threads.submit(read, thread) for thread in range(8)]:
                done.result()
    finally:
        gc.set_threshold(*limits)
        sys.setswitchinterval(interval)
    assert warnings.filters == filters


class _SlowToDelete:
    def __del__(self) -> None:
        sum(range(50))
