"""Tests of other files, compiled with all of XLA's optimizations, as users' programs are.

The tests of one file after the other run in a process at the full level of optimization, where XLA
fuses what composites and stock have in different places, and vectorizes it. Of entries'
samples, it is those of the types that most training has.
"""

import sys
from pathlib import Path

import pytest
from composites_testing.environment import full_level
from composites_testing.processes import run

HERE = Path(__file__).parent
SLICES = {
    "calls": ("test_call_fidelity.py", ""),
    "modes": ("test_modes.py", "not sync"),
    "autograd": ("test_autograd_composites.py", "not gradcheck"),
    "training": ("test_training_fidelity.py", ""),
    "cross entropy": ("test_cross_entropy.py", "stock"),
    "known differences": ("test_known_differences.py", ""),
    "functions": ("test_functions.py", "optimizer or rotary"),
    "samples in f32": ("test_sample_fidelity.py", "run-f32"),
    "samples in bf16": ("test_sample_fidelity.py", "run-bf16"),
}
EVERYTHING = "exhaustive or not exhaustive"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SLICES)
def test_fidelity_where_xla_optimizes(name: str) -> None:
    file, keyword = SLICES[name]
    pytest_ = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    done = run(*pytest_, str(HERE / file), "-m", EVERYTHING, "-k", keyword, **full_level())
    assert " passed" in done.succeeded().stdout
