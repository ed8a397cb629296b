"""Exports have PyTorch's results where torch_xla takes a call in another way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import composites

X = torch.tensor([[3.0, -1.0, 2.0], [0.0, 5.0, -4.0]])
CALLS: Mapping[str, Callable[[torch.Tensor], Any]] = {
    "amin": lambda x: x.amin(),
    "amax": lambda x: torch.amax(x, (), keepdim=True),
    "aminmax": lambda x: x.aminmax()[0],
    "mean": lambda x: x.mean(()),
    "sum": lambda x: x.sum((), keepdim=True),
    "var": lambda x: x.var(()),
    "std": lambda x: x.std((), correction=0),
    "var_mean": lambda x: torch.var_mean(x, ())[1],
    "std_mean": lambda x: torch.std_mean(x, ())[0],
    "vector_norm": lambda x: torch.linalg.vector_norm(x, dim=()),
    "of a dimension": lambda x: x.amin(1),
    "count_nonzero": lambda x: torch.count_nonzero(x),
    "count_nonzero of a dimension": lambda x: torch.count_nonzero(x, 1).unsqueeze(1),
    "count_nonzero of i64": lambda x: torch.count_nonzero(x.to(torch.int64), (0,)).reshape(3, 1),
    "count_nonzero of booleans": lambda x: torch.count_nonzero(x > 0, ()),
    "behind others": lambda x: x * 2 - x.amax(),
    "cumsum": lambda x: x.cumsum(0),
    "cumsum of booleans": lambda x: (x > -9).repeat(200, 1).cumsum(0),
    "cumsum of i32": lambda x: (x * 0 + 2**30).to(torch.int32).cumsum(1),
    "product with a complex number": lambda x: x * (2 + 3j),
    "division by a complex number": lambda x: torch.complex(x, x) / 2j,
    "sum with a complex number": lambda x: x + 1j,
    "masked_fill with a complex number": lambda x: torch.complex(x, x).masked_fill(x > 0, 3j),
    "cumsum to i32": lambda x: x.to(torch.int16).cumsum(1, dtype=torch.int32),
}


class All(torch.nn.Module):
    """Calls all functions, each on its own as a composite or in none."""

    def __init__(self, *, composed: bool) -> None:
        super().__init__()
        named = {f"acme.call_{number}": call for number, call in enumerate(CALLS.values())}
        self.calls = [
            composites.composite(name)(call) if composed else call for name, call in named.items()
        ]

    def forward(self, x: torch.Tensor) -> Any:
        return [call(x) for call in self.calls]


@pytest.mark.parametrize("ops", [[], None, "inside"], ids=["stock", "composites", "inside"])
def test_results_are_those_of_pytorch(ops: Any) -> None:
    module = All(composed=ops == "inside")
    program = composites.export(module, (X,), ops=None if ops == "inside" else ops)
    if ops == "inside":
        own = [name for name in program.composites if name.startswith("acme.call_")]
        assert len(own) == len(CALLS)
    results = program.run(X.numpy())
    wrong = []
    for number, (name, call) in enumerate(CALLS.items()):
        expected, found = call(X).numpy(), np.asarray(results[f"out:{number}"])
        same = (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if not same or not np.allclose(found, expected, rtol=1e-6, atol=0):
            wrong.append((name, found, expected))
    assert not wrong
