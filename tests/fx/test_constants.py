"""Arrays that decompositions hold: the numbers, and the composite."""

from pathlib import Path

import numpy as np
import pytest
import torch
from composites_testing.modules import Calling

import composites
from lowering import activation


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


def test_an_array_in_a_jax_decomposition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "umbra_table.py").write_text(
        "import numpy as np\nTABLE = np.linspace(0, 1, 100, dtype=np.float32)\n"
        "def gelu(self, *, approximate='none'):\n    return self * TABLE\n"
    )
    registry = tmp_path / "umbra.yaml"
    entry = "{op: aten::gelu, decomposition: 'jax:umbra_table:gelu'}"
    registry.write_text(f"schema: 2\nnamespace: umbra\ncomposites:\n  gelu: {entry}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(registry))
    activation.catalog.cache_clear()
    gelu = Calling(torch.nn.functional.gelu)
    program = composites.export(gelu, (torch.ones(2, 100),), ops=["umbra.gelu"])
    monkeypatch.undo()
    activation.catalog.cache_clear()
    assert dict(program.composites) == {"umbra.gelu": 1}
    (result,) = program.run(np.ones((2, 100), np.float32)).values()
    np.testing.assert_array_equal(np.asarray(result)[1], np.linspace(0, 1, 100, dtype=np.float32))
