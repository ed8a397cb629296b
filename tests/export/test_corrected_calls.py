"""Exports have PyTorch's results where torch_xla takes a call in another way."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
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
    "slice from before the first": lambda x: x[:, -8:-1] * x[-9:1, -8::2].exp(),
    "writes from there": lambda x: torch.cat([y := x * 1, y[:, -8:-1].neg_()], 1) * 2,
    "cumsum to i32": lambda x: x.to(torch.int16).cumsum(1, dtype=torch.int32),
}


SCALARS: Mapping[str, Callable[[torch.Tensor], Any]] = {
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "cummax": lambda x: x.cummax(0)[0],
    "sum": lambda x: x.sum(0, keepdim=True),
    "mean": lambda x: x.mean(-1),
    "amax": lambda x: x.amax(0),
    "max": lambda x: x.max(0)[0],
    "median": lambda x: x.median(0)[0],
    "argmax": lambda x: x * (x.argmax(0) + 1),
    "var_mean": lambda x: torch.var_mean(x, 0, correction=0)[1],
    "sort": lambda x: x.sort(0)[0],
    "topk": lambda x: x.topk(1, 0)[0],
    "prod": lambda x: x.prod(0),
    "all": lambda x: x * (x > 0).all(0),
    "flip": lambda x: x.flip(0),
    "normalize": lambda x: torch.nn.functional.normalize(x, dim=0),
    "gather": lambda x: x.gather(0, torch.zeros_like(x).long()),
    "index_select": lambda x: x.index_select(0, torch.zeros_like(x).long().reshape(1)),
    "scatter": lambda x: torch.zeros_like(x).scatter(0, torch.zeros_like(x).long(), x),
}
"""Calls with a dimension, on a tensor without one. Most are refused where torch_xla is missing."""
LIVE = find_spec("torch_xla") is not None


class Differentiated(torch.nn.Module):
    """Sums functions of a parameter without dimensions, and squares of frozen batch norms."""

    def __init__(self) -> None:
        super().__init__()
        self.number = torch.nn.Parameter(torch.tensor(2.0))
        self.first = torch.nn.Linear(4, 4)
        self.norms = torch.nn.ModuleList(
            torch.nn.BatchNorm1d(3, affine=affine).eval() for affine in (True, False)
        )
        for buffer in self.norms.buffers():
            buffer.add_(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = [norm(self.first(x)).square().sum() for norm in self.norms]
        calls = SCALARS if LIVE else {"exp": torch.exp}
        numbers = [call(self.number) * (n + 1) for n, call in enumerate(calls.values())]
        assert all(number.dim() == 0 for number in numbers)
        return torch.stack([*normed, *numbers]).sum()


@pytest.mark.parametrize("ops", [[], None], ids=["stock", "composites"])
def test_gradients_are_those_of_pytorch(ops: Any) -> None:
    """Gradients are PyTorch's for tensors without dimensions, and for batch norm in evaluation."""
    module, x = Differentiated(), torch.linspace(-1, 1, 24).reshape(2, 3, 4).sin()
    loss = module(x)
    loss.backward()
    program = composites.export(module, (x,), train=True, ops=ops)
    results = program.run(program.module_weights(module) | {"arg:0": x})
    np.testing.assert_allclose(results["loss"], loss.detach(), rtol=1e-5)
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None
        np.testing.assert_allclose(
            results[f"grad:{name}"], parameter.grad, rtol=1e-4, atol=1e-5, err_msg=name
        )


@pytest.mark.parametrize("ops", [[], None, "inside"], ids=["stock", "composites", "inside"])
def test_results_are_those_of_pytorch(ops: Any) -> None:
    """All calls of one program have PyTorch's results, also with a composite for each call."""
    calls = [*CALLS.values()]
    if ops == "inside":
        calls = [composites.composite(f"acme.call_{n}")(call) for n, call in enumerate(calls)]
    module = Calling(lambda x: [call(x) for call in calls])
    program = composites.export(module, (X,), ops=None if ops == "inside" else ops)
    if ops == "inside":
        own = [name for name in program.composites if name.startswith("acme.call_")]
        assert len(own) == len(CALLS)
    results = program.run(X.numpy())
    wrong = []
    for number, (name, call) in enumerate(CALLS.items()):
        expected, actual = call(X).numpy(), np.asarray(results[f"out:{number}"])
        same = (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        if not same or not np.allclose(actual, expected, rtol=1e-6, atol=0):
            wrong.append((name, actual, expected))
    assert not wrong
