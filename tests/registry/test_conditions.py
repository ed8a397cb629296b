"""Conditions are checked at load: types, sizes, and calls."""

import ast
import gc
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from composites.errors import RegistryError
from composites.registry.conditions import ConditionError, compile_condition
from composites.registry.operators import find_operator
from composites.registry.validation import parse_registry

SOFTMAX = find_operator("aten::_softmax").kinds  # self, dim, half_to_float
MEAN = find_operator("aten::mean.dim").kinds  # dim and dtype can be None
GELU = find_operator("aten::gelu").kinds  # approximate is text

WRONG = {
    "len(1) > 0": "'1' has no length",
    "len(dim) > 0": "'dim' has no length",
    "len((0,)*9999999999999) > 0": "'(0,)' is not a number",
    "len(9999999999999*(0,)) > 0": "'(0,)' is not a number",
    "'a' * 9 == 'aa'": "\"'a'\" is not a number",
    "'%9999999999d' % 1 == ''": "is not a number",
    "1 - 'a'": "is not a number",
    "(1,) + 1 == 2": "'1' is not a list",
    "dim % 0 == 1": "'dim % 0' divides by zero",
    "dim // 0 == 1": "'dim // 0' divides by zero",
    "-self.shape == 1": "'self.shape' is not a number",
    "self.shape < 3": "'3' cannot be ordered with 'self.shape'",
    "self.dtype < f32": "'f32' cannot be ordered with 'self.dtype'",
    "dim[0] == 1": "'dim' is neither a list nor text, so it has no parts",
    "self.shape['a'] == 1": "\"'a'\" is not a number",
    "dim in 3": "'3' is neither a list nor text",
    "dim in 'abc'": "'dim' is not text",
    "dim.shape == 3": "'dim' is not a tensor, so it has no shape",
    "dim.numel() == 3": "'dim' is not a tensor, so it has no numel()",
    "dim is -1": 'cannot be evaluated: "is" with',
    "(1, 2)[0.5] == 1": "cannot be evaluated: tuple indices must be integers",
    "dim is 1": "'1' cannot be compared with `is`; write `==`",
    "self == 1": "'self' is a tensor; compare its shape or dtype, or write `is None`",
    "self": "'self' is a tensor, which is neither true nor false",
    "dim == 1 and not self": "'self' is a tensor, which is neither true nor false",
    "len(self.shape, key=1) == 1": "'len(self.shape, key=1)' is not allowed in a condition",
    "len(self.shape, dim) == 1": "'len(self.shape, dim)' is not allowed in a condition",
    "len(*self.shape) == 1": "'len(*self.shape)' is not allowed in a condition",
    "self.dim(dim) == 1": "'self.dim(dim)' is not allowed in a condition",
    "self.dim(x=1) == 1": "'self.dim(x=1)' is not allowed in a condition",
    "dim == 99999999999999999999": "has a number of more than 64 bits",
    "dim == " + "9" * 5000: "has more than 4000 characters; write several conditions",
    "dim == " + "9" * 3900: "has a number of more than 64 bits",
    "dim == 0x" + "f" * 3900: "has a number of more than 64 bits",
    "dim ** 99 == 1": "'Pow' is not allowed in a condition",
    "dim == 1j": "'1j' is not allowed in a condition (use numbers, text and None)",
    "dim == ...": "'...' is not allowed in a condition (use numbers, text and None)",
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


RIGHT = {
    "dim is not None and len(dim) > 0": MEAN,
    "dtype in (f32, bf16) or dtype is None": MEAN,
    "dim[0] == -1 if dim else keepdim": MEAN,
    "self.shape[-1] % 32 == 0 and self.shape[1:] == (1, 2)": GELU,
    "(self.shape + (1,))[0] // 2 > 0": GELU,
    "self.numel() * 2 < 3.5 and self.is_floating_point()": GELU,
    "approximate in ('none', 'tanh') and 'a' in approximate": GELU,
    "len(approximate) == 4 and approximate[0] == 't' and approximate < 'u'": GELU,
    "self == None or self.dtype == f32": GELU,
    "1 < self.ndim <= 4": GELU,
    " and ".join(["self.dim() == 2"] * 100): GELU,
}


@pytest.mark.parametrize("text", RIGHT, ids=lambda text: text[:30])
def test_condition_that_calls_can_satisfy(text: str) -> None:
    assert ast.parse(compile_condition(text, RIGHT[text]), mode="eval")


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
