"""The package of examples/cpu_kernels, as if it were installed.

Its kernels are compiled once, quickly and with the same bits on all processors. COMPOSITES_XLA=full
compiles them with the package's own flags.
"""

from pathlib import Path

import pytest
from composites_testing import environment

SOURCES = Path(__file__).parents[2] / "examples" / "cpu_kernels" / "src"


QUICKLY = """#!/bin/sh
exec g++ "$@" -O0 -ffp-contract=off
"""


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of compiled kernels, which all workers of a run share."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    return shared / "cpu_kernels"


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiler") / "g++"
    path.write_text(QUICKLY)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def registry(
    cache: Path, compiler: Path, monkeypatch: pytest.MonkeyPatch, nothing_on: None
) -> Path:
    """The package's registry file, which is in use, whatever was on before in this process."""
    path = SOURCES / "cpu_kernels" / "registry.yaml"
    monkeypatch.syspath_prepend(SOURCES)
    monkeypatch.setenv("CPU_KERNELS_CACHE", str(cache))
    if not environment.is_full_level():
        monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(path))
    return path
