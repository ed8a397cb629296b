"""A search for copies of a named function."""

import importlib
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from composites_testing.golden import read_cases

from composites.registry.validation import parse_registry
from lowering.copies.original import PATCH
from lowering.copies.search import Search

FILE = Path(__file__).parent / "search.txt"


@dataclass(frozen=True)
class Case:
    """A module, and which of its functions are copies of a named one."""

    named: str
    copies: frozenset[str]
    text: str


def cases() -> dict[str, Case]:
    """Cases by title. A part is named as in `copies of plain: one, two`."""
    by_title = {}
    for title, parts in read_cases(FILE).items():
        name, text = list(parts.items())[-1]
        named, _, copies = name.removeprefix("copies of ").partition(": ")
        by_title[title] = Case(named, frozenset(copies.split(", ")) - {"none"}, text)
    return by_title


CASES = cases()
NAMED = CASES.pop("acme_named").text  # the module of the named functions
TWO, CALLING = CASES["two names of one function"], CASES["what it calls is a copy too"]


@pytest.fixture(autouse=True)
def packages(module_folder: Path) -> Path:
    """A module `acme_named`, and a package `acme_models` to write modules into."""
    (module_folder / "acme_named.py").write_text(NAMED)
    (module_folder / "acme_models").mkdir()
    (module_folder / "acme_models" / "__init__.py").write_text("")
    importlib.invalidate_caches()
    return module_folder / "acme_models"


def find_copies(folder: Path, text: str, named: str, *, packages: str = "acme_models") -> set[str]:
    """The copies of a function of `acme_named` in a module with this text."""
    (folder / "model.py").write_text(text)
    return find_copies_in("acme_models.model", named, packages)


def find_copies_in(name: str, named: str, packages: str) -> set[str]:
    """The copies of a function of `acme_named` in a module."""
    module = importlib.import_module(name)
    registry = parse_registry(
        "schema: 1\nnamespace: acme\ncomposites:\n"
        f"  entry: {{function: 'acme_named:{named}', copies: {packages}, operands: [x]}}\n",
        "acme.yaml",
    )
    return {c.target.partition(":")[2] for c in Search(registry.composites).in_module(module)}


@pytest.mark.parametrize("title", CASES)
def test_copies_and_other_functions(packages: Path, title: str) -> None:
    case = CASES[title]
    assert find_copies(packages, case.text, case.named) == case.copies


def test_a_module_without_such_code_imports_nothing(packages: Path) -> None:
    other = CASES["other code"]
    assert find_copies(packages, other.text, other.named) == set()
    assert "acme_named" not in sys.modules


def test_only_the_named_packages_are_searched(packages: Path) -> None:
    elsewhere, own = "[acme_model, acme, acme_models.modelling]", "[acme, acme_models.model]"
    assert find_copies(packages, TWO.text, TWO.named, packages=elsewhere) == set()
    assert find_copies(packages, TWO.text, TWO.named, packages=own) == TWO.copies


def test_a_replaced_function_is_compared_as_it_was(packages: Path) -> None:
    find_copies(packages, CALLING.text, CALLING.named)
    module = sys.modules["acme_models.model"]
    for name in ("half", "turned"):
        original = vars(module)[name]

        def replacement(*arguments: object) -> None: ...

        replacement.__wrapped__ = original  # type: ignore[attr-defined]
        replacement.__module__ = original.__module__
        setattr(replacement, PATCH, None)
        setattr(module, name, replacement)
    assert find_copies(packages, CALLING.text, CALLING.named) == CALLING.copies


def test_a_helper_that_the_program_has_replaced(packages: Path) -> None:
    assert find_copies(packages, CALLING.text, CALLING.named) == CALLING.copies
    vars(sys.modules["acme_models.model"])["half"] = lambda x: x
    assert find_copies(packages, CALLING.text, CALLING.named) == set()


@pytest.mark.parametrize("named", ["missing", "Norm.missing", "Norm"])
def test_a_function_that_is_not_in_the_file_has_no_copies(packages: Path, named: str) -> None:
    assert find_copies(packages, TWO.text, named) == set()


@pytest.mark.parametrize("change", ["twice", "compiled", "gone"])
def test_a_file_that_does_not_tell(packages: Path, change: str) -> None:
    file = packages.parent / "acme_named.py"
    if change == "twice":
        file.write_text(NAMED + "\n\ndef plain(x):\n    return x\n")
    elif change == "compiled":
        file.rename(file.with_suffix(".txt"))
    else:
        file.unlink()
    importlib.invalidate_caches()
    assert find_copies(packages, TWO.text, "plain") == set()


def test_copies_in_a_zip_archive(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(packages / "acme.zip", "w") as archive:
        archive.writestr("acme_zipped/__init__.py", "")
        archive.writestr("acme_zipped/model.py", TWO.text)
    monkeypatch.syspath_prepend(packages / "acme.zip")
    assert find_copies_in("acme_zipped.model", TWO.named, "acme_zipped") == TWO.copies


def test_the_order_of_entries_is_kept(packages: Path) -> None:
    (packages / "model.py").write_text(TWO.text)
    module = importlib.import_module("acme_models.model")
    line = "{function: 'acme_named:plain', copies: acme_models, operands: [x]}"
    registry = parse_registry(
        f"schema: 1\nnamespace: acme\ncomposites:\n  b: {line}\n  a: {line}\n", "acme.yaml"
    )
    search: Callable[..., Search] = Search
    for entries in (registry.composites, registry.composites[::-1]):
        assert [c.entries for c in search(entries).in_module(module)] == [entries, entries]
