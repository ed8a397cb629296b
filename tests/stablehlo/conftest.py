"""What the tests of lowering.stablehlo share: sample modules, and comparing numbers."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering.stablehlo import Module, compile_module
from lowering.stablehlo.dtypes import static_tensor

DATA = Path(__file__).parent / "data"


@pytest.fixture
def load() -> Callable[[str], Module]:
    """Read a module from the data folder by its name without `.mlir`."""
    return lambda name: Module.read(DATA / f"{name}.mlir")


@pytest.fixture
def same_numbers() -> Callable[..., None]:
    """Run modules on jax's CPU client with one set of random inputs and compare the outputs.

    `tolerance` is relative to the largest value of each output.
    """

    def check(before: Module, *afters: Module, tolerance: float = 0.0) -> None:
        reference = compile_module(before)
        inputs = random_inputs(reference.inputs)
        expected = reference(*inputs)
        for after in afters:
            for want, got in zip(expected, compile_module(after)(*inputs), strict=True):
                np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())

    return check


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels of double_kernels.cc, compiled once: what a process registers with XLA stays."""
    import jax

    path = tmp_path_factory.mktemp("kernels") / "double.so"
    options = ["-std=c++17", "-O0", "-shared", "-fPIC", "-isystem", jax.ffi.include_dir()]
    subprocess.run(["g++", *options, str(DATA / "double_kernels.cc"), "-o", str(path)], check=True)
    return path


def random_inputs(types: tuple[str, ...]) -> list[Any]:
    """Normally distributed arrays of these tensor types, the same on every call."""
    random = np.random.default_rng(0)
    static = [found for found in map(static_tensor, types) if found is not None]
    assert len(static) == len(types), types
    return [np.asarray(random.standard_normal(shape), dtype) for shape, dtype in static]
