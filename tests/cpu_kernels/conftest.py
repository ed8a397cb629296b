"""The package of examples/cpu_kernels, as if it were installed. Its kernels are compiled once."""

from __future__ import annotations

from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "examples" / "cpu_kernels" / "src"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where kernels are compiled, shared by all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    return shared / "cpu_kernels"


@pytest.fixture(autouse=True)
def registry(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package's registry file, which is in use."""
    path = SOURCES / "cpu_kernels" / "registry.yaml"
    monkeypatch.syspath_prepend(SOURCES)
    monkeypatch.setenv("CPU_KERNELS_CACHE", str(cache))
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(path))
    return path
