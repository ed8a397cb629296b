"""The table of attribute types, and the page of the documentation that shows it."""

from __future__ import annotations

import re
from pathlib import Path

from composites import attribute_types
from composites.attribute_types import TABLE, ArgumentKind, types_of_argument, types_of_constant

PAGE = Path(__file__).parents[2] / "docs" / "registry.md"
# As a schema writes them; see composites.registry.operators.
KINDS: dict[str, ArgumentKind] = {
    "int": "int",
    "float": "float",
    "Scalar": "scalar",
    "bool": "bool",
    "str": "string",
    "int[]": "ints",
    "float[]": "floats",
    "bool[]": "bools",
    "ScalarType": "dtype",
}


def test_the_page_has_the_table() -> None:
    row = r"^\| `([\w\[\]]+)`[^|]*\| `([\w\[\]]+)`[^|]*\|([^|]*)\|$"
    rows = re.findall(row, PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {kind: (default, *re.findall(r"`([^`]+)`", also)) for kind, default, also in rows}
    shown = {kind: types for kind, types in shown.items() if kind in KINDS}
    assert {kind: set(types) for kind, types in shown.items()} == {
        kind: set(types_of_argument(argument)) for kind, argument in KINDS.items()
    }
    assert {kind: types[0] for kind, types in shown.items()} == {
        kind: types_of_argument(argument)[0] for kind, argument in KINDS.items()
    }


def test_every_type_can_be_reached() -> None:
    """A row that no argument becomes, or that holds no constant, is a mistake in the table."""
    for type_ in TABLE:
        assert type_.default_for or type_.also_for
        assert type_.constants
        assert getattr(attribute_types, type_.write.__name__) is type_.write


def test_types_of_constants() -> None:
    assert types_of_constant(True) == ("bool",)
    assert types_of_constant(1) == ("i64", "i32", "f32", "f64")
    assert types_of_constant(1.5) == ("f32", "f64")
    assert types_of_constant("tanh") == ("string",)
    assert types_of_constant([1, 2]) == ("i64[]", "f32[]")
    assert types_of_constant([1, 2.5]) == ("f32[]",)
    assert types_of_constant([True]) == ("bool[]",)
    assert types_of_constant([1, "a"]) == types_of_constant([]) == types_of_constant(["a"]) == ()
