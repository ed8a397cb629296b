"""Short forms of registry files mean what the long ones mean."""

from pathlib import Path

import pytest
from composites_testing.golden import read_cases

from composites.registry.model import Registry
from composites.registry.validation import parse_registry

GOLDEN = Path(__file__).parent / "golden"


def file(entries: str, schema: int = 2) -> str:
    """A file whose entries begin on line 4."""
    return f"schema: {schema}\nnamespace: acme\ncomposites:\n{entries}"


def read(entries: str, schema: int = 2) -> Registry:
    return parse_registry(file(entries, schema), "acme.yaml")


SAME = read_cases(GOLDEN / "short_forms.txt")


@pytest.mark.parametrize("case", SAME)
def test_short_and_long_forms(case: str) -> None:
    short, long = SAME[case].values()
    assert read(short).composites == read(long).composites
    assert read(long).composites == read(long, schema=1).composites


def test_a_file_of_schema_1_has_the_backwards_that_it_names() -> None:
    entries = "  silu: aten::silu\n  silu_backward: aten::silu_backward\n"
    backwards = [read(entries, schema).composites[0].backward for schema in (1, 2)]
    assert backwards == [None, "silu_backward"]
