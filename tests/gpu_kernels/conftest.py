"""The package of examples/gpu_kernels, as if it were installed.

No test needs a GPU. On a machine that has one which jax can use, kernels run there, those of cuDNN
too, and not in interpret mode.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "examples" / "gpu_kernels" / "src"


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch, nothing_on: None) -> Path:
    """The package's registry file, which is in use, whatever was on before in this process."""
    path = SOURCES / "gpu_kernels" / "registry.yaml"
    monkeypatch.syspath_prepend(SOURCES)
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(path))
    return path


@pytest.fixture
def h100() -> Iterator[None]:
    """Kernels are lowered for a GPU, which newer releases of jax want to know of."""
    from gpu_kernels.pallas import without_device

    with without_device():
        yield
