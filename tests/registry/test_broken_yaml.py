"""Files that YAML cannot read: values, nesting and sizes that break its constructors."""

import time
from pathlib import Path

import pytest
from composites_testing.selection import variants

from composites.errors import RegistryError
from composites.registry.validation import load_registry, parse_registry

HEAD = "schema: 1\nnamespace: acme\ncomposites:\n  e:\n    op: aten::gelu\n"


def messages(text: str) -> list[str]:
    with pytest.raises(RegistryError) as raised:
        parse_registry(text, "acme.yaml")
    return [str(problem) for problem in raised.value.problems]


def constant(written: str) -> str:
    return f"{HEAD}    attributes: {{a: {{value: {written}}}}}\n"


DIGITS = "9" * 5000


def test_numbers_that_no_attribute_type_can_hold() -> None:
    for written in (DIGITS, f"0x{DIGITS}"):
        number = f"{written[:37]}..."
        message = f"the number {number} is too large; no attribute type can hold it"
        assert messages(constant(written)) == [f"acme.yaml:6: {message}"]


def test_quoted_values_are_text() -> None:
    for written in ("2024-99-99", "1:30"):
        entry = parse_registry(constant(f"'{written}'"), "acme.yaml").composites[0]
        assert entry.attributes[0].value == written


NESTED = (
    "".join(f"{' ' * n}a:\n" for n in range(500)),
    "- " * 500 + "a\n",
    "a: " + "[" * 1000 + "]" * 1000,
    "a: " + "[" * 100_000,
    "a: " + "{a: " * 1000 + "}" * 1000,
    "? " * 1000 + "a\n",
)


def test_deep_nesting() -> None:
    for text in NESTED:
        (message,) = messages(text)
        end = ": nested more than 20 levels deep; no key of a registry needs this"
        assert message.endswith(end), text[:20]


def test_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(f"{HEAD}    operands: [{'self, ' * 200_000}]\n" + "# comment\n" * 1_000_000)
    with pytest.raises(RegistryError) as raised:
        load_registry(path)
    assert str(raised.value) == (
        f"{path}:1: the file has more than 256 kB, the limit for a registry file; split it into"
        " several files"
    )


MANY = {
    "unknown operators": "".join(f"  a{n}: {{op: aten::gell{n}}}\n" for n in range(2000)),
    "unknown operators to rewrite": "  e:\n    op: aten::gelu\n    rewrites:\n"
    + "".join(f"      aten::gell{n}: torch:mm\n" for n in range(2000)),
    "one unknown operator": "".join(f"  a{n}: {{op: aten::gellu}}\n" for n in range(2000)),
    "unknown backwards": "".join(
        f"  a{n}: {{op: aten::gelu, backward: a{n}b}}\n" for n in range(2000)
    ),
    "unknown keys": "  e:\n    op: aten::gelu\n"
    + "".join(f"    operand{n}: 1\n" for n in range(5000)),
    "unknown operands": "  e:\n    op: aten::gelu\n    operands:\n"
    + "".join(f"      - sel{n}\n" for n in range(5000)),
    "long name": f"  e:\n    op: aten::{'gelu' * 50_000}\n",
}


@variants("case", MANY, fast=["unknown operands"])
def test_many_problems_take_little_time(case: str) -> None:
    # CPU time, which other processes do not add to. A search for each name took minutes.
    begin = time.process_time()
    problems = messages(f"schema: 1\nnamespace: acme\ncomposites:\n{MANY[case]}")
    assert time.process_time() - begin < 30
    if case != "long name":
        assert len(problems) >= 2000
        assert ("did you mean" in problems[0], "did you mean" in problems[-1]) == (True, False)
