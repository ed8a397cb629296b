"""Random numbers: gradients see those of the forward. tests/export has the numbers."""

from collections.abc import Callable
from functools import partial
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
    assert "rng_seed" in [array.name for array in program.inputs]
    values = {**program.module_weights(module), "arg:0": np.ones(SHAPE, np.float32)}
    read = {array.name for array in program.inputs}
    return program.run(
        {name: array for name, array in values.items() if name in read}
        | {"rng_seed": np.int64(seed)}
    )


@pytest.mark.parametrize("ops", [None, []])
def test_the_gradient_of_dropout_has_its_mask(ops: Any) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5).square().sum()

    outputs = drawn(loss, 3, train=True, ops=ops)
    kept = np.asarray(outputs["grad:weight"])
    assert set(np.unique(kept)) == {0.0, 8.0}
    assert float(outputs["loss"]) == pytest.approx((kept > 0).sum() * 4)


def test_random_numbers_that_nothing_reads() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        torch.rand_like(x)
        return x * 2 + torch.randn_like(x)

    results = []
    for call in (composites.composite("acme.noisy")(noisy), noisy):
        loss = partial(lambda call, x: torch.dropout(call(x), 0.5, True).sum(), call)
        results.append(drawn(loss, 3, train=True))
    np.testing.assert_equal(*results)  # keys too


def test_the_states_of_other_generators_are_kept_outside_of_exports() -> None:
    composites.export(torch.nn.Dropout(), (torch.ones(4),))
    before = torch.get_rng_state()
    with torch.random.fork_rng():
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_complex_numbers_are_refused_by_name() -> None:
    with pytest.raises(composites.ExportError, match="random numbers of complex types"):
        drawn(lambda x: torch.randn_like(x.to(torch.complex64)).real, 1)
