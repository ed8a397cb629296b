"""Kernels that registry files list: which calls they take in a step, and why not others."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.golden import Parts, check_cases
from composites_testing.kernel_uses import answer
from composites_testing.modules import Calling
from composites_testing.processes import run_python

import composites
from composites import Program, ProgramError

KERNELS = """
import jax
import jax.numpy as jnp

from composites import UnsupportedCallError

def gelu(x, *, approximate):
    return jax.nn.gelu(x, approximate=approximate == "tanh")

def zeros(x):
    return jnp.zeros_like(x)

def softmax(x, *, dim):
    if x.ndim == 2:
        raise UnsupportedCallError("needs three dimensions")
    return jax.nn.softmax(x, axis=dim)

def library():
    import pathlib, subprocess  # compiled when it is needed, as a package of kernels does

    folder = pathlib.Path(__file__).parent
    options = ["-std=c++17", "-O0", "-shared", "-fPIC", "-isystem", jax.ffi.include_dir()]
    command = ["g++", *options, "-o", folder / "kernel.so", folder / "kernel.cc"]
    subprocess.run(command, check=True)
    return folder / "kernel.so"

def no_library():
    return "/nowhere/kernels.so"
"""

GOLDEN = Path(__file__).parent / "golden"
X = torch.linspace(-2, 2, 24).reshape(6, 4).sin()


MODEL = Calling(lambda x: torch.nn.functional.gelu(x).softmax(-1))


@pytest.fixture(scope="module")
def program() -> Program:
    return composites.export(MODEL, (X,))


@pytest.fixture
def listing(listed: Callable[[str, str], tuple[Path, str]]) -> Callable[[str], Path]:
    """Writes a registry file with these kernels, which XLA_COMPOSITE_REGISTRY then names."""
    return lambda kernels: listed(KERNELS, f"kernels:\n{kernels}")[0]


def choices(program: Program, kernels: Any = "auto") -> dict[str, tuple[str, str]]:
    step = program.compile("cpu", kernels)
    outputs, _ = step(step.init({}), X)
    np.testing.assert_allclose(outputs["out:0"], MODEL(X).numpy(), atol=1e-6)
    return {use.composite: (_plain(use.kernel), _plain(use.reason)) for use in step.kernels}


def _plain(text: str | None) -> str:
    """Remove the name of the kernels' module, which is another one in each test."""
    return re.sub(r"listed_\d+:", "", text or "")


def test_a_listed_kernel_takes_its_calls(program: Program, listing: Any) -> None:
    listing("""
  ptxla.gelu:
    cpu:
      - {function: MODULE:gelu, operands: [x], when: {dtypes: f32, rank: 2, approximate: none,
         where: ["x.shape[-1] % 4 == 0 and x.dtype == f32 and x.numel() < 100"]}}
  ptxla.softmax:
    cpu:
      - {function: MODULE:softmax}
    cuda:
      - {target: acme_softmax}
""")
    assert choices(program) == {
        "ptxla.gelu": ("gelu", ""),
        "ptxla.softmax": ("", "softmax: needs three dimensions"),
    }
    reason = "none of the kernels that were named is listed for it"
    assert choices(program, ["ptxla.g*"])["ptxla.softmax"] == ("", reason)
    assert not choices(program, None)["ptxla.gelu"][0]
    with pytest.raises(ProgramError, match=r"for 'ptxla\.gell'; did you mean 'ptxla\.gelu'"):
        program.compile("cpu", ["ptxla.gell"])
    with pytest.raises(ProgramError, match="ignored is for passed kernels"):
        program.compile("cpu", ignored={"ptxla.gelu": ["approximate"]})


def test_why_a_kernel_is_not_taken(program: Program, listing: Any) -> None:
    """The function is not even imported where a condition does not hold."""

    def reasons(parts: Parts) -> str:
        path = listing("".join(f"  {line}\n" for line in parts[""].splitlines()))
        return answer(lambda: program.compile("cpu").kernels, path.parent)

    check_cases(GOLDEN / "listed_kernels.txt", reasons)


def test_priority(program: Program, listing: Any) -> None:
    """The next kernel is asked where one does not take a call. Reasons are in the same order."""
    listing("""
  ptxla.gelu:
    cpu:
      - {function: MODULE:zeros, ignores: [approximate], priority: -1}
      - {function: MODULE:gelu}
      - {function: MODULE:zeros, priority: 2, when: {rank: 3}}
  ptxla.softmax@1: {cpu: [{function: MODULE:softmax, priority: 1}, {target: nobody, version: 7}]}
""")
    assert choices(program) == {
        "ptxla.gelu": ("gelu", "zeros: takes rank 3, not 2"),
        "ptxla.softmax": ("", "softmax: needs three dimensions; nobody: is for version 7"),
    }


@pytest.mark.process
def test_a_library(program: Program, listing: Any, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("quarter.cc"), tmp_path / "kernel.cc")
    listing("""
  ptxla.softmax:
    cpu: [{target: listed_test_quarter, library: MODULE:library, ignores: [dim]}]
""")
    step = program.compile("cpu")
    outputs, _ = step(step.init({}), X)
    np.testing.assert_array_equal(outputs["out:0"], np.full((6, 4), 0.25))
    assert [use.kernel for use in step.kernels] == [None, "listed_test_quarter"]


WITHOUT_TORCH = """
import json, sys
import numpy as np
from composites import Program

step = Program.load(FOLDER).compile("cpu")
outputs, _ = step(step.init({}), np.zeros((6, 4), np.float32))
assert "torch" not in sys.modules
alternatives = [use.alternative for use in Program.load(OTHER).compile("cpu").kernels]
print(json.dumps([*(use.kernel for use in step.kernels), *alternatives]))
"""


@pytest.mark.process
def test_without_torch(program: Program, listing: Any, tmp_path: Path) -> None:
    path = listing("  ptxla.gelu: {cpu: [{function: MODULE:gelu}]}\n")
    program.save(tmp_path / "program")
    up = torch.nn.Upsample(scale_factor=2, mode="bilinear")
    composites.export(up, (torch.ones(1, 1, 4, 4),)).save(tmp_path / "other")
    script = (
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
        f"FOLDER, OTHER = {[str(tmp_path / name) for name in ('program', 'other')]}\n"
        f"{WITHOUT_TORCH}"
    )
    finished = run_python(script, XLA_COMPOSITE_REGISTRY=str(path), JAX_PLATFORMS="cpu")
    taken, left, alternative = json.loads(finished.succeeded().stdout.splitlines()[-1])
    assert (_plain(taken), left) == ("gelu", None)
    assert alternative == "ptxla.upsample_bilinear2d=by_axis"
