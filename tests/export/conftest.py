"""Fixtures of the export tests: the example models, and registry files."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from composites_testing.example_models import Example, load_example

import composites
from lowering import activation


@pytest.fixture(
    params=["conv_net", "vit", *(pytest.param(n, marks=pytest.mark.slow) for n in ("bert", "gpt2"))]
)
def model(request: pytest.FixtureRequest) -> Example:
    """An example model."""
    return load_example(request.param)


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    """Export leaves the process as it was."""
    composites.disable()
    yield
    assert not composites.active()


@pytest.fixture
def x() -> torch.Tensor:
    """An argument for `Computed`."""
    return torch.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture
def listed(
    module_folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[[str, str], tuple[Path, str]]:
    """`listed(functions, text)` writes a registry file, which XLA_COMPOSITE_REGISTRY then names.

    MODULE in its text is the module of the functions. Returns the file, and that module's name,
    which no other test has.
    """
    module = f"listed_{abs(hash(request.node.name))}"

    def write(functions: str, text: str) -> tuple[Path, str]:
        (module_folder / f"{module}.py").write_text(functions)
        path = module_folder / "acme.yaml"
        head = "schema: 1\nnamespace: acme\ncomposites: {}\n"
        path.write_text(head + text.replace("MODULE", module))
        activation.catalog()  # that of the process is loaded once, and must not have this file
        monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(path))
        return path, module

    return write
