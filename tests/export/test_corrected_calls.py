"""Exports have PyTorch's results where torch_xla takes a call in another way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.modules import Calling

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


def check(name: str, program: composites.Program) -> None:
    expected = CALLS[name](X).numpy()
    found = np.asarray(program.run(X.numpy())["out:0"])
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("ops", [[], None], ids=["stock", "composites"])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_pytorch(name: str, ops: list[str] | None) -> None:
    check(name, composites.export(Calling(CALLS[name]), (X,), ops=ops))


@pytest.mark.parametrize("name", CALLS)
def test_inside_a_composite(name: str) -> None:
    function = composites.composite("acme.corrected")(CALLS[name])
    program = composites.export(Calling(function), (X,))
    check(name, program)
    assert program.composites["acme.corrected"] == 1
