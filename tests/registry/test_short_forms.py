"""Short forms of registry files mean what the long ones mean, and so does a formatted file."""

from functools import partial
from pathlib import Path

import pytest
from composites_testing.command_line import invoke
from composites_testing.golden import read_cases

from composites.registry.formatting import formatted
from composites.registry.model import Registry
from composites.registry.validation import parse_registry

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"


def file(entries: str, schema: int = 2) -> str:
    """A file whose entries begin on line 4."""
    return f"schema: {schema}\nnamespace: acme\ncomposites:\n{entries}"


def read(entries: str, schema: int = 2) -> Registry:
    return parse_registry(file(entries, schema), "acme.yaml")


SAME = read_cases(GOLDEN / "short_forms.txt")
run = partial(invoke, "format")


@pytest.mark.parametrize("case", SAME)
def test_short_and_long_forms(case: str) -> None:
    short, long = SAME[case].values()
    assert read(short).composites == read(long).composites
    assert read(long).composites == read(long, schema=1).composites


def test_a_file_of_schema_1_has_the_backwards_that_it_names() -> None:
    entries = "  silu: aten::silu\n  silu_backward: aten::silu_backward\n"
    backwards = [read(entries, schema).composites[0].backward for schema in (1, 2)]
    assert backwards == [None, "silu_backward"]


BEFORE, AFTER = read_cases(GOLDEN / "formatted.txt")["a file of schema 1"].values()


def test_formatted_files_mean_the_same() -> None:
    for newline in ("\n", "\r\n"):
        before, after = (text.replace("\n", newline) for text in (BEFORE, AFTER))
        assert formatted(before, "acme.yaml") == after
        assert formatted(after, "acme.yaml") == after
    for case, forms in SAME.items():
        for text in (file(forms[""]), file(forms["long"], 1)):
            again = formatted(text, "acme.yaml")
            assert formatted(again, "acme.yaml") == again, case


def test_files_of_the_project_are_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = ROOT / "examples"
    monkeypatch.syspath_prepend(examples / "registries")
    vendors = (*examples.glob("*/src/*/registry.yaml"), *examples.glob("registries/*.yaml"))
    for path in (ROOT / "registry.yaml", *vendors):
        text = path.read_text()
        assert formatted(text, str(path)) == text, f"run: composites format {path}"


def test_the_command(tmp_path: Path) -> None:
    long, short, wrong = (tmp_path / f"{name} file.yaml" for name in ("long", "short", "wrong"))
    long.write_text(BEFORE)
    short.write_text(AFTER)
    wrong.write_text(file("  e: relu\n"))
    checked = run("--check", long, short)
    message = f"error: not in short form: '{long}'; run: composites format '{long}'\n"
    assert (checked.exit_code, checked.stderr) == (1, message)
    refused = run(long, wrong)
    assert (refused.exit_code, refused.stderr.startswith(f"{wrong}:4: e: 'relu'")) == (1, True)
    assert long.read_text() == BEFORE
    assert run(long, short).stdout == "1 file rewritten, 1 file in short form already\n"
    assert (long.read_text(), short.read_text()) == (AFTER, AFTER)
    assert run("--check", long, short).exit_code == 0
    assert len(list(tmp_path.iterdir())) == 3
