"""PyTorch counts devices at the first backward of a process; here that is before an export."""

import pytest
from composites_testing.processes import run_python

BACKWARD = """
import torch

class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.SiLU())

    def forward(self, x):
        return self.layer(x).square().sum()

module, x = Loss(), torch.linspace(-2, 2, 6).reshape(2, 3)
module(x).backward()
"""

EXPORT = """
import composites
program = composites.export(module, (x,), train=True)
results = program.run({**program.module_weights(module), "arg:0": x.numpy()})
for name, parameter in module.named_parameters():
    torch.testing.assert_close(torch.tensor(results[f"grad:{name}"]), parameter.grad)
print(program.composites["ptxla.silu_backward"])
"""


@pytest.mark.process
def test_an_export() -> None:
    assert run_python(BACKWARD + EXPORT).succeeded().stdout == "1\n"
