"""The table of attribute types, and the page of the documentation that shows it."""

import re
from pathlib import Path

import torch

from composites import attribute_types
from composites.attribute_types import TABLE, ArgumentKind, attribute_type, types_of_argument
from composites.registry.operators import find_operator
from composites.registry.validation import parse_registry
from lowering.dispatch.call import CallForm, CallSpec

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


def test_names_of_no_type() -> None:
    too_deep = "array<" * 4 + "i64" + ">" * 4
    for name in ("array<>", "array<i33>", "array<i64", "array", "i64[][]", too_deep):
        assert attribute_type(name) is None, name


CONSTANTS: dict[str, tuple[list[object], list[object]]] = {
    "array<i32>": ([[1, 2], []], [[1.5], [True], 1, ["a"], [[1]]]),
    "array<string>": ([["DEFAULT"]], [[1], "DEFAULT"]),
    "array<i64[]>": ([[[1], [], [2, 3]]], [[1], [[1.5]]]),
    "array<array<i64>>": ([[[], [1]], []], [[1], [[[1]]]]),
    "type": (["f32"], [1, ["f32"]]),
}


def test_constants_of_arrays() -> None:
    for name, (takes, refuses) in CONSTANTS.items():
        parsed = attribute_type(name)
        assert parsed is not None
        assert all(map(parsed.takes_constant, takes)), name
        assert not any(map(parsed.takes_constant, refuses)), name


def test_arguments_of_arrays() -> None:
    def kinds(name: str) -> set[ArgumentKind]:
        parsed = attribute_type(name)
        assert parsed is not None
        return {kind for kind in KINDS.values() if parsed.takes_argument(kind)}

    assert kinds("array<i32>") == {"ints"}
    assert kinds("array<f64>") == {"ints", "floats"}
    assert kinds("array<bool>") == {"bools"}
    assert kinds("array<i64[]>") == set()
    lists = attribute_type("array<i64[]>")
    assert lists is not None
    assert lists.takes_argument("other")
    assert kinds("type") == {"dtype"}


ENTRY = """\
schema: 1
namespace: acme
composites:
  mean:
    op: aten::mean.dim
    attributes:
      dims: {from: dim, normalize: dim, optional: true, type: array<i32>}
      kind: {from: dtype, optional: true, type: type}
      nested: {value: [[[1], []], []], type: "array<array<i64[]>>"}
      names: {value: [A, B], type: array<string>}
"""


def test_attributes_of_a_call() -> None:
    (entry,) = parse_registry(ENTRY, "acme.yaml").composites
    operator = find_operator("aten::mean.dim")
    x = torch.zeros(2, 3, 4)
    arguments = {"self": x, "dim": [-1, 0], "keepdim": False, "dtype": torch.bfloat16}
    assert CallSpec.from_named(CallForm(entry, operator), arguments).attributes() == {
        "dims": "[2 : i32, 0 : i32]",
        "kind": "bf16",
        "nested": "[[dense<[1]> : tensor<1xi64>, dense<> : tensor<0xi64>], []]",
        "names": '["A", "B"]',
    }
    absent = CallSpec.from_named(CallForm(entry, operator), dict(arguments, dim=None, dtype=None))
    assert absent.attributes()["dims"] is None
    assert absent.attributes()["kind"] is None
