"""Fixtures of the tests with consumers: the example kernels, and files of examples/ as modules.

They need the extra `consumers`: pip install '.[torch-xla,models,consumers]'.
"""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

KERNELS = Path(__file__).parents[2] / "examples" / "kernels" / "activations.py"


@pytest.fixture(scope="session")
def kernels() -> Any:
    """The example kernels, compiled and registered."""
    spec = importlib.util.spec_from_file_location(KERNELS.stem, KERNELS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load()
