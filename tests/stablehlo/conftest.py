"""The library of kernels that several tests register with XLA."""

import subprocess
from pathlib import Path

import pytest
from composites_testing.passes import DATA


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels of double_kernels.cc, compiled once: what a process registers with XLA stays."""
    import jax

    path = tmp_path_factory.mktemp("kernels") / "double.so"
    options = ["-std=c++17", "-O0", "-shared", "-fPIC", "-isystem", jax.ffi.include_dir()]
    subprocess.run(["g++", *options, str(DATA / "double_kernels.cc"), "-o", str(path)], check=True)
    return path


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of stand_ins.py can be imported, as those beside a user's files are."""
    monkeypatch.syspath_prepend(str(DATA.parent))
