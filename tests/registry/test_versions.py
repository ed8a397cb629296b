"""Versions of one entry side by side: how files write them, and what the allowlist's items mean."""

import pytest

from composites.allowlist import resolve, split_allowlist
from composites.errors import AllowlistError, RegistryError
from composites.registry.catalog import Catalog, builtin_registry
from composites.registry.model import Registry
from composites.registry.validation import parse_registry

TWO = """
  gelu: {op: aten::gelu, version: 2, backward: gelu_backward}
  gelu_backward: {op: aten::gelu_backward, version: 2}
  gelu@1: {op: aten::gelu, backward: gelu_backward}
  gelu_backward@1: {op: aten::gelu_backward}
"""


def registry(entries: str, source: str = "acme.yaml", namespace: str = "acme") -> Registry:
    head = f"schema: 1\nnamespace: {namespace}\ncomposites:\n"
    return parse_registry(head + entries.strip("\n"), source)


def names(text: str, *registries: Registry) -> list[str]:
    catalog = Catalog((*registries, builtin_registry()))
    return [entry.identity for entry in resolve(split_allowlist(text), catalog)]


FIRST = ["acme.gelu@1", "acme.gelu_backward@1"]
SECOND = ["acme.gelu@2", "acme.gelu_backward@2"]


ITEMS: dict[str, list[str]] = {
    "acme.gelu": SECOND,
    "gelu": SECOND,
    "acme.gelu@2": SECOND,
    "acme.gelu@1": FIRST,
    "gelu@1": FIRST,
    "acme.*": SECOND,
    "acme.*,acme.gelu@1": FIRST,
    "acme.gelu@1,acme.gelu": FIRST,
    "acme.gelu@1,acme.gelu@2": [*SECOND, *FIRST],
    "acme.gelu@1,acme.gelu@2,-acme.gelu@2": FIRST,
    "acme.*,-acme.gelu": [],
    "acme.*,-acme.gelu_backward@2": SECOND[:1],
    "acme.gelu@1,-acme.*": [],
}


def test_items() -> None:
    assert {text: names(text, registry(TWO)) for text in ITEMS} == ITEMS


def test_all_means_the_highest_versions() -> None:
    chosen = names("all", registry(TWO))
    assert [name for name in chosen if name.startswith("acme.")] == SECOND
    assert "ptxla.gelu@1" not in chosen


def test_versions_in_two_files() -> None:
    old = registry("  gelu: {op: aten::gelu}\n", "old.yaml")
    new = registry("  gelu: {op: aten::gelu, version: 2}\n", "new.yaml")
    assert names("acme.gelu", old, new) == ["acme.gelu@2"]
    assert names("acme.gelu@1", old, new) == ["acme.gelu@1"]
    with pytest.raises(RegistryError, match=r"acme\.gelu is already defined in .*another `version"):
        Catalog((old, registry("  gelu: {op: aten::gelu}\n", "copy.yaml"), builtin_registry()))


def test_nobody_adds_a_version_to_a_builtin_entry() -> None:
    mine = registry("  gelu: {op: aten::gelu, version: 7}\n", namespace="ptxla")
    with pytest.raises(RegistryError, match=r"ptxla\.gelu is already defined in .*; use your own"):
        Catalog((mine, builtin_registry()))


def test_a_version_that_is_not_there() -> None:
    with pytest.raises(
        AllowlistError, match=r"no version 3 of 'acme\.gelu'; write acme\.gelu@1 or acme\.gelu@2"
    ):
        names("acme.gelu@3", registry(TWO))
    with pytest.raises(AllowlistError, match=r"no composite 'acme\.glue'; did you mean"):
        names("acme.glue@1", registry(TWO))
    with pytest.raises(AllowlistError, match=r"no composite 'gelu@one'"):
        names("gelu@one", registry(TWO))


def test_a_backward_has_the_version_of_its_forward_or_the_highest() -> None:
    read = registry(TWO)
    backwards = ["acme.gelu_backward@2", "acme.gelu_backward@1"]
    entries = [read.backward_of(entry) for entry in read.composites]
    assert [entry.identity for entry in entries if entry] == backwards
    other = registry(
        "  gelu: {op: aten::gelu, version: 3, backward: gelu_backward}\n"
        "  gelu@4: {op: aten::gelu, backward: gelu_backward@1}\n"
        "  gelu_backward@2: {op: aten::gelu_backward}\n"
        "  gelu_backward@1: {op: aten::gelu_backward}\n"
    )
    entries = [other.backward_of(entry) for entry in other.composites[:2]]
    assert [entry.identity for entry in entries if entry] == backwards


def test_keys_have_versions() -> None:
    read = registry(TWO)
    keys = [read.key(entry) for entry in read.composites]
    assert keys == ["gelu@2", "gelu_backward@2", "gelu@1", "gelu_backward@1"]


def test_examples_are_checked() -> None:
    read = registry("  gelu: {op: aten::gelu, example: {self: 2x3xf32, approximate: tanh}}\n")
    example = [(name, str(value)) for name, value in read.composites[0].example]
    assert example == [("self", "2x3xf32"), ("approximate", "tanh")]
