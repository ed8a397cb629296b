"""docs/versions.md has a line for what each version of a built-in composite is called with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest

from composites.registry.catalog import builtin_registry_path
from composites.registry.model import Attribute, Composite, Registry
from composites.registry.validation import load_registry

PAGE = Path(__file__).parents[2] / "docs" / "versions.md"
ROW = re.compile(
    r"\| `(?P<name>[^`|]+)` \| (?P<version>\d+) \| (?P<since>[\d-]+) \| `(?P<text>[^`|]+)` \| .+ \|"
)


@dataclass(frozen=True, order=True)
class Form:
    """One way in which a version of a composite is called; entries of one composite can differ."""

    name: str
    version: int
    text: str

    @property
    def line(self) -> str:
        return f"| `{self.name}` | {self.version} | {date.today()} | `{self.text}` | WHAT CHANGED |"


@dataclass(frozen=True)
class Row:
    """One line of the page."""

    form: Form
    since: date


def recorded() -> list[Row]:
    """The lines of the page's table."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [_row(line) for line in lines]


def _row(line: str) -> Row:
    found = ROW.fullmatch(line)
    assert found is not None, f"{PAGE.name}: not a line of the table: {line}"
    form = Form(found["name"], int(found["version"]), found["text"])
    return Row(form, date.fromisoformat(found["since"]))


def current(registry: Registry) -> Iterator[Form]:
    """What the registry says now: each entry, and each backward that is derived from one."""
    for entry in registry.composites:
        attributes = tuple(map(_attribute, entry.attributes))
        forward = f"{entry.op or ''}{_text(entry.operands, attributes)}{_results(entry)}"
        yield Form(entry.composite_name, entry.version, forward)
        if entry.derives:
            saved = entry.operands if entry.saves is None else entry.saves
            text = _text(("gradients", *saved), (*attributes, "output_mask: bool[]"))
            yield Form(f"{entry.composite_name}_backward", entry.version, text)


def _text(operands: tuple[str, ...], attributes: tuple[str, ...]) -> str:
    written = f" {{{', '.join(attributes)}}}" if attributes else ""
    return f"({', '.join(operands)}){written}"


def _results(entry: Composite) -> str:
    kept = entry.gradients or entry.results
    return f" -> {', '.join(map(str, kept))}" if kept else ""


def _attribute(attribute: Attribute) -> str:
    name = f"{attribute.name}?" if attribute.optional else attribute.name
    if attribute.argument is None:
        return f"{name} = {attribute.value}"
    type_ = f": {attribute.type}" if attribute.type else ""
    return f"{name}{type_}{' >= 0' if attribute.normalize else ''}"


def problems(registry: Registry, rows: list[Row]) -> list[str]:
    """What the page and the registry say differently, and what to do."""
    forms, lines = set(current(registry)), {row.form for row in rows}
    versions = {(form.name, form.version) for form in forms}
    known = {(line.name, line.version) for line in lines}
    gone = {line for line in lines - forms if (line.name, line.version) in versions}
    found = []
    for form in sorted(forms - lines):
        here = f"{form.name} version {form.version}"
        if (form.name, form.version) not in known:
            found.append(f"docs/versions.md has no line for {here}; add:\n{form.line}")
        else:
            raised = replace(form, version=form.version + 1)
            found.append(
                f"registry.yaml calls {here} as {form.text}, which is not recorded. Kernels rely on"
                " what is: raise `version` of the entry and of its backward in registry.yaml, and"
                f" add:\n{raised.line}\nIf kernels of version {form.version} take this form too,"
                f" add instead:\n{form.line}"
            )
    found += [
        f"docs/versions.md records {line.name} version {line.version} as {line.text}, and no entry"
        " of registry.yaml is called so; put the entry back, or raise its `version`"
        for line in sorted(gone)
    ]
    return found


@pytest.fixture(scope="module")
def builtin() -> Registry:
    return load_registry(builtin_registry_path(), builtin=True)


def changed(registry: Registry, name: str, **fields: object) -> Registry:
    entries = tuple(
        replace(entry, **fields) if entry.name == name else entry  # type: ignore[arg-type]
        for entry in registry.composites
    )
    return replace(registry, composites=entries)


def test_every_version_is_recorded(builtin: Registry) -> None:
    found = problems(builtin, recorded())
    assert not found, "\n\n".join(found)


def test_a_changed_meaning_asks_for_a_new_version(builtin: Registry) -> None:
    missing, gone = problems(changed(builtin, "gelu", attributes=()), recorded())
    assert "raise `version`" in missing
    assert "| `ptxla.gelu` | 2 |" in missing
    assert "`aten::gelu(self)`" in missing
    assert gone.startswith("docs/versions.md records ptxla.gelu version 1 as aten::gelu(self) {")


def test_a_new_version_asks_for_a_line(builtin: Registry) -> None:
    (missing,) = problems(changed(builtin, "silu", version=2), recorded())
    assert missing.startswith("docs/versions.md has no line for ptxla.silu version 2; add:\n| ")


def test_what_a_derived_backward_takes_is_part_of_the_meaning(builtin: Registry) -> None:
    missing, gone = problems(changed(builtin, "layer_norm", saves=("input",)), recorded())
    assert "(gradients, input)" in missing
    assert "result.1" in gone


def test_versions_of_a_composite_are_dated_in_their_order() -> None:
    rows = sorted(recorded(), key=lambda row: row.form)
    for row, following in pairwise(rows):
        if row.form.name == following.form.name:
            assert following.form.version - row.form.version in (0, 1)
            if following.form.version > row.form.version:
                assert row.since <= following.since
