"""The variables of docs/usage.md with which a process keeps its memory from step to step."""

import re
from pathlib import Path

import pytest
from composites_testing.processes import run_python

PAGE = Path(__file__).parents[2] / "docs" / "usage.md"

STEPS = """
import resource
import torch, torch_xla

# 36 MB, and so is each result. What is freed of up to 32 MB, glibc keeps by itself.
x = torch.randn(3000, 3000).to("xla")

def step():
    products = [x + i for i in range(4)]
    torch_xla.sync()
    return [product[0, 0].item() for product in products]

# Memory grows in the first steps, and once in a while later, where results are freed late.
for _ in range(12):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.torch_xla
@pytest.mark.exhaustive
def test_memory_that_is_kept_is_not_cleared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = re.findall(r"^MALLOC_.*(?= XLA_COMPOSITE_OP)", PAGE.read_text(), re.MULTILINE)
    variables = dict(assignment.split("=") for assignment in line.split())
    assert len(variables) == 3
    for name in (*variables, "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    assert faults(variables) < faults({}) / 10


def faults(variables: dict[str, str]) -> int:
    """The number of fresh memory pages that twenty steps write to."""
    done = run_python(STEPS, PJRT_DEVICE="CPU", **variables)
    assert done.code == 0, done.stderr
    return int(done.stdout)
