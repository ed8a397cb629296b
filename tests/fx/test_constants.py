"""Arrays that decompositions hold: the numbers, and the composite."""

from collections.abc import Callable

import numpy as np
import torch
from composites_testing.modules import Calling

import composites


@composites.composite("umbra.signs")
def signs(x: torch.Tensor) -> torch.Tensor:
    return torch.copysign(x, torch.tensor([0.0, -0.0] * 10, device=x.device))


@composites.composite("umbra.table")
def table(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor([float(number) for number in range(100)], device=x.device)


def test_arrays_in_decorated_functions() -> None:
    for function, size in ((signs, 20), (table, 100)):
        program = composites.export(Calling(function), (torch.ones(size),))
        assert sum(program.composites.values()) == 1
        (result,) = program.run(torch.ones(size).numpy()).values()
        expected = function(torch.ones(size)).numpy()
        assert np.asarray(result).tobytes() == expected.tobytes()


FUNCTIONS = """
import numpy as np

TABLE = np.linspace(0, 1, 100, dtype=np.float32)

def gelu(self, *, approximate="none"):
    return self * TABLE
"""


def test_an_array_in_a_jax_decomposition(use: Callable[[str], str]) -> None:
    use("  gelu: {op: aten::gelu, decomposition: 'jax:umbra_ops:gelu'}\n")
    gelu = Calling(torch.nn.functional.gelu)
    program = composites.export(gelu, (torch.ones(2, 100),), ops=["umbra.gelu"])
    assert dict(program.composites) == {"umbra.gelu": 1}
    (result,) = program.run(np.ones((2, 100), np.float32)).values()
    np.testing.assert_array_equal(np.asarray(result)[1], np.linspace(0, 1, 100, dtype=np.float32))
