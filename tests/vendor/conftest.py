"""Registries of vendors: files of examples/registries, a package, and files that a test writes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import composites
from lowering import activation

REGISTRIES = Path(__file__).parents[2] / "examples" / "registries"


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch, nothing_on: None) -> Callable[..., None]:
    """`registries(FILE, …)`: files of examples/registries, and nothing else, are the vendors'."""
    monkeypatch.syspath_prepend(str(REGISTRIES))

    def use(*files: str) -> None:
        paths = [str(REGISTRIES / f"{file}.yaml") for file in files]
        monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", os.pathsep.join(paths))
        activation.catalog.cache_clear()

    return use


@pytest.fixture
def enable(use: Callable[[str], str]) -> Callable[[str], None]:
    """`enable(ENTRIES)`: write entries as with `use`, and turn them on."""

    def turn_on(entries: str) -> None:
        use(entries)
        composites.enable("umbra.*")

    return turn_on


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch, nothing_on: None) -> None:
    """acme_package as if it were installed: its metadata stands on the import path."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "acme_package"))
