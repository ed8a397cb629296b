"""Registries of vendors: files of examples/registries, and files that a test writes."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import composites
from lowering import activation

REGISTRIES = Path(__file__).parents[2] / "examples" / "registries"


@pytest.fixture
def nothing_on() -> Iterator[None]:
    """A test that begins and ends with nothing turned on, and with no registry read."""
    composites.disable()
    activation.catalog.cache_clear()
    yield
    composites.disable()
    activation.catalog.cache_clear()


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
def use(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nothing_on: None,
) -> Iterator[Callable[[str], str]]:
    """`use(ENTRIES)`: write a registry file of the namespace `umbra`, and give its path.

    The module `umbra_ops` has the functions: the source `FUNCTIONS` of the test's file.
    """
    sys.modules.pop("umbra_ops", None)  # another file's
    (tmp_path / "umbra_ops.py").write_text(getattr(request.module, "FUNCTIONS", ""))
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(entries: str) -> str:
        path = tmp_path / "umbra.yaml"
        path.write_text(f"schema: 1\nnamespace: umbra\ncomposites:\n{entries}")
        monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(path))
        activation.catalog.cache_clear()
        return str(path)

    yield write
    sys.modules.pop("umbra_ops", None)


@pytest.fixture
def enable(use: Callable[[str], str]) -> Callable[[str], None]:
    """`enable(ENTRIES)`: write entries as with `use`, and turn them on."""

    def turn_on(entries: str) -> None:
        use(entries)
        composites.enable("umbra.*")

    return turn_on
