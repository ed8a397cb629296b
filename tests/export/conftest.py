"""What the tests of export share: the example models, and a module that computes a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.example_models import (
    OPTIMIZERS,
    Example,
    compare,
    export_example,
    load_example,
)

import composites
from composites import Program


@pytest.fixture(params=sorted(OPTIMIZERS))
def model(request: pytest.FixtureRequest) -> Example:
    """Each of the example models."""
    return load_example(request.param)


@pytest.fixture(scope="session")
def example() -> Callable[[str], Example]:
    """An example model by name."""
    return load_example


@pytest.fixture(scope="session")
def exported() -> Callable[[str, str], Program]:
    """`exported(name, kind)`: an example as `inference`, `gradients` or `step`; made once."""
    return export_example


@pytest.fixture(scope="session")
def agree() -> Callable[[Mapping[str, np.ndarray], Mapping[str, torch.Tensor]], None]:
    return compare


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    """Export leaves the process as it was."""
    composites.disable()
    yield
    assert not composites.active()


class Computed(torch.nn.Module):
    """A linear layer, and what `function(module, *arguments)` makes of it."""

    def __init__(self, function: Callable[..., Any], **attributes: Any) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.function = function
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


@pytest.fixture(scope="session")
def computed() -> type[Computed]:
    return Computed


@pytest.fixture
def x() -> torch.Tensor:
    """An argument for `computed`."""
    return torch.linspace(-1, 1, 8).reshape(2, 4)
