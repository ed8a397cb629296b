"""The JSON Schema for editors accepts what the project accepts, and finds what it refuses.

Yaml-language-server showed the same when it was tried by hand; what is here is the part of JSON
Schema that pydantic writes for these models.
"""

from pathlib import Path

import pytest
import yaml
from composites_testing.json_schema import accepts

from composites.registry.document import json_schema
from composites.registry.validation import parse_registry

ROOT = Path(__file__).parents[2]
SCHEMA = json_schema()
FILES = [
    ROOT / "registry.yaml",
    ROOT / "tests" / "codegen" / "golden" / "sample.yaml",
    *sorted((ROOT / "examples" / "registries").glob("*.yaml")),
    *sorted(ROOT.glob("examples/*/src/*/registry.yaml")),
    ROOT / "composites" / "alternatives" / "kernels.yaml",
]
PUBLISHED = ROOT / "docs" / "registry.schema.json"
SHORT_FORMS = (Path(__file__).parent / "files" / "short_forms.yaml").read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_registries_of_the_project(file: Path) -> None:
    """The schema accepts each file, whose first line leads editors to it."""
    text = file.read_text(encoding="utf-8")
    assert accepts(SCHEMA, yaml.safe_load(text))
    if "golden" not in file.parts:
        schema = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
        assert (file.parent / schema).resolve() == PUBLISHED


def test_short_forms() -> None:
    assert parse_registry(SHORT_FORMS, "short.yaml")
    assert accepts(SCHEMA, yaml.safe_load(SHORT_FORMS))


WRONG = {
    "schema: 1": "schema: 3",
    "attributes: [dim, half_to_float: {type: bool}]": "attributes: [3]",
    "attributes: forward": "attributes: backward",
    "silu: aten::silu": "silu: [aten::silu]",
    "op: aten::gelu": "opp: aten::gelu",
    "approximate: approximate": "approximate: [approximate]",
    "tile: {value: [8, 128]}": "tile: {values: [8, 128]}",
    "rank: 2": "rank: {value: 2}",
    "operands: [x]": "operands: x",
    "namespace: acme": "name: acme",
}


def test_mistakes() -> None:
    for right, wrong in WRONG.items():
        assert right in SHORT_FORMS
        assert not accepts(SCHEMA, yaml.safe_load(SHORT_FORMS.replace(right, wrong))), wrong
