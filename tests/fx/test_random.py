"""Random numbers: they follow from the seed, and gradients see the same ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import composites

SHAPE = (64, 128)


class Random(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.ones(SHAPE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x * self.weight)


def drawn(function: Callable[[torch.Tensor], torch.Tensor], seed: int, **options: Any) -> Any:
    module = Random(function)
    program = composites.export(module, (torch.ones(SHAPE),), **options)
    assert "rng_seed" in [value.name for value in program.inputs]
    given = {**program.module_weights(module), "arg:0": np.ones(SHAPE, np.float32)}
    read = {value.name for value in program.inputs}
    return program.run(
        {name: value for name, value in given.items() if name in read}
        | {"rng_seed": np.int64(seed)}
    )


FUNCTIONS: list[Any] = [
    pytest.param(torch.rand_like, 0.5, 1 / 12**0.5, id="rand_like"),
    pytest.param(torch.randn_like, 0, 1, id="randn_like"),
    pytest.param(lambda x: torch.rand(SHAPE, device=x.device), 0.5, 1 / 12**0.5, id="rand"),
    pytest.param(lambda x: torch.bernoulli(x * 0.25), 0.25, 0.433, id="bernoulli"),
    pytest.param(lambda x: torch.empty_like(x).uniform_(-1, 1), 0, 1 / 3**0.5, id="uniform_"),
    pytest.param(lambda x: torch.empty_like(x).normal_(2, 3), 2, 3, id="normal_"),
    pytest.param(lambda x: torch.empty_like(x).exponential_(), 1, 1, id="exponential_"),
    pytest.param(
        lambda x: torch.randint(0, 11, SHAPE, device=x.device).float(), 5, 10**0.5, id="randint"
    ),
    pytest.param(lambda x: torch.nn.functional.dropout(x, 0.25), 1, 1 / 3**0.5, id="dropout"),
]


@pytest.mark.parametrize(("function", "mean", "deviation"), FUNCTIONS)
def test_the_distribution(function: Any, mean: float, deviation: float) -> None:
    numbers = np.asarray(drawn(function, 5)["out:0"], np.float64)
    error = deviation / numbers.size**0.5
    assert abs(numbers.mean() - mean) < 5 * error
    assert abs(numbers.std() - deviation) < 0.05 * deviation
    assert np.array_equal(numbers, drawn(function, 5)["out:0"])
    assert not np.array_equal(numbers, drawn(function, 6)["out:0"])


def test_two_calls_draw_different_numbers() -> None:
    found = drawn(lambda x: torch.stack([torch.rand_like(x), torch.rand_like(x)]), 1)["out:0"]
    assert not np.array_equal(found[0], found[1])


@pytest.mark.parametrize("ops", [None, []])
def test_the_gradient_of_dropout_has_its_mask(ops: Any) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5).square().sum()

    found = drawn(loss, 3, train=True, ops=ops)
    kept = np.asarray(found["grad:weight"])
    assert set(np.unique(kept)) == {0.0, 8.0}
    assert float(found["loss"]) == pytest.approx((kept > 0).sum() * 4)


def test_a_permutation() -> None:
    found = drawn(lambda x: torch.randperm(100, device=x.device), 2)["out:0"]
    assert sorted(found.tolist()) == list(range(100))
    assert found.tolist() != list(range(100))


def test_the_states_of_other_generators_are_kept_outside_of_exports() -> None:
    composites.export(torch.nn.Dropout(), (torch.ones(4),))
    before = torch.get_rng_state()
    with torch.random.fork_rng():
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_complex_numbers_are_refused_by_name() -> None:
    with pytest.raises(composites.ExportError, match="random numbers of complex types"):
        drawn(lambda x: torch.randn_like(x.to(torch.complex64)).real, 1)


def test_normal_numbers_have_the_type_of_their_mean() -> None:
    found = drawn(lambda x: torch.normal(x.half(), x.abs()), 1)["out:0"]
    assert found.dtype == np.float16
