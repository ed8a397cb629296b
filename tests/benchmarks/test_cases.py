"""Every alternative and kernel is measured."""

from pathlib import Path

import pytest

from benchmarks import gpu_kernels
from benchmarks.cases import BF16, cross_entropy, rms_norm
from benchmarks.decomposition_cases import ALL, ROWS
from benchmarks.decompositions import builtin_entries
from benchmarks.kernel_cases import GROWING
from composites.registry.listed_kernels import listed_in

REPOSITORY = Path(__file__).parents[2]


def test_every_alternative_has_a_row() -> None:
    built_in = builtin_entries()
    named = {name for row in ROWS for name in row.entries if row.entries != ALL}
    reached = named | {built_in[name].backward for name in named}
    assert {name for name, entry in built_in.items() if entry.alternatives} <= reached
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert named <= set(built_in)


def test_every_kernel_for_the_cpu_has_a_case() -> None:
    measured = {name for growing in GROWING for name in growing.composites}
    # In the step of GPT-2.
    linear = {"ptxla.linear_cross_entropy", "ptxla.linear_cross_entropy_backward"}
    assert listed("cpu_kernels") == measured | linear


@pytest.mark.slow
def test_every_kernel_for_gpus_has_a_case() -> None:
    cases = gpu_kernels.attention_case(16), rms_norm(2, 8, BF16), cross_entropy(2, 8)
    trained = [*map(gpu_kernels.of_case, cases), gpu_kernels.adamw(2)]
    assert listed("gpu_kernels") <= {name for one in trained for name in one.export().composites}
    # These are small ones of the cases that are measured.
    kinds = {name.partition("-")[0] for name in gpu_kernels.CASES}
    assert kinds == {"attention", "gpt", "loss", "norm", "adamw", "alternative"}


def listed(package: str) -> set[str]:
    path = REPOSITORY / "examples" / package / "src" / package / "registry.yaml"
    return {kernel.composite for kernel in listed_in(path)}
