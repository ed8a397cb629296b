"""What the tests of export share: the example models, their values, and PyTorch's numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import composites
from composites import Program, export
from composites.cli.factories import load_factory
from lowering.export.manifest import Value

EXAMPLES = Path(__file__).parents[2] / "examples" / "models.py"

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "bert": partial(torch.optim.AdamW, lr=1e-3),
    "gpt2": partial(torch.optim.AdamW, lr=1e-3, amsgrad=True),
    "vit": partial(torch.optim.SGD, lr=1e-2, momentum=0.9, weight_decay=1e-2),
    "conv_net": partial(torch.optim.SGD, lr=1e-2, momentum=0.9, nesterov=True),
}


@dataclass(frozen=True)
class Example:
    """A model, what it is called with, and an optimizer for it."""

    name: str
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def export(self, **options: Any) -> Program:
        return export(self.module, self.args, self.kwargs, **options)

    @property
    def optimizer(self) -> Callable[..., torch.optim.Optimizer]:
        return OPTIMIZERS[self.name]

    def values(self, program: Program) -> dict[str, np.ndarray]:
        """The values of a program's inputs: the module's own, and for optimizer state any."""
        known = tensors_by_name(self.module, self.args, self.kwargs)
        return {
            value.name: numbers(known[value.name]) if value.name in known else state_like(value)
            for value in program.inputs
        }

    def outputs(self) -> dict[str, torch.Tensor]:
        """What PyTorch gives on the CPU for inference, by output name."""
        module = copy.deepcopy(self.module)
        with torch.no_grad():
            result = module(*self.args, **self.kwargs)
        results = result if isinstance(result, Mapping) else dict(enumerate(result))
        outputs = {f"out:{key}": tensor for key, tensor in results.items()}
        return outputs | self._changed_buffers(module)

    def step(self, state: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
        """What a training step gives in PyTorch on the CPU, from this optimizer state."""
        module = copy.deepcopy(self.module)
        result = module(*self.args, **self.kwargs)
        loss = result["loss"] if isinstance(result, Mapping) else result[0]
        loss.backward()
        parameters = dict(module.named_parameters())
        outputs = {"loss": loss.detach()}
        outputs |= {
            f"grad:{n}": p.grad.clone() for n, p in parameters.items() if p.grad is not None
        }
        outputs |= self._changed_buffers(module)
        if state:
            optimizer = self.optimizer(parameters.values())
            for name, value in state.items():
                owner, _, key = name.removeprefix("state:").rpartition(".")
                optimizer.state[parameters[owner]][key] = torch.tensor(value)
            optimizer.step()
            outputs |= {f"param:{name}": p.detach() for name, p in parameters.items()}
            for name in state:
                owner, _, key = name.removeprefix("state:").rpartition(".")
                outputs[name] = optimizer.state[parameters[owner]][key]
        return outputs

    def _changed_buffers(self, module: torch.nn.Module) -> dict[str, torch.Tensor]:
        before = dict(self.module.named_buffers())
        return {
            f"buffer:{name}": self._as_torch_xla(name, before[name], after)
            for name, after in module.named_buffers()
            if not torch.equal(before[name], after)
        }

    def _as_torch_xla(self, name: str, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        """torch_xla 2.9 averages the biased variance into `running_var`; PyTorch the unbiased."""
        if not name.endswith("running_var"):
            return after
        count = {"features.1.running_var": 4 * 16 * 16, "features.5.running_var": 4 * 8 * 8}[name]
        return 0.9 * before + (after - 0.9 * before) * (count - 1) / count


def tensors_by_name(module: torch.nn.Module, args: Any, kwargs: Any) -> dict[str, torch.Tensor]:
    named: dict[str, torch.Tensor] = {f"param:{n}": t for n, t in module.named_parameters()}
    named |= {f"buffer:{name}": tensor for name, tensor in module.named_buffers()}
    named |= {f"arg:{number}": tensor for number, tensor in enumerate(args)}
    return named | {f"kwarg:{name}": tensor for name, tensor in kwargs.items()}


def numbers(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy().copy()


def state_like(value: Value) -> np.ndarray:
    """A state some steps on. At the start Adam moves by the sign of the gradient, noise or not."""
    if value.name.endswith(".step"):
        return np.asarray(10, np.float32)
    random = np.random.default_rng(len(value.name))
    return np.asarray(random.uniform(0.1, 0.2, value.sizes), np.float32)


@cache
def load_example(name: str) -> Example:
    torch.manual_seed(0)
    module, args, kwargs = load_factory(f"{EXAMPLES}:{name}")
    # Without dropout, whose random numbers are the device's; batch norm is in training mode.
    return Example(name, module.train(name == "conv_net"), tuple(args), dict(kwargs))


@cache
def export_example(name: str, kind: str) -> Program:
    model = load_example(name)
    optimizer = model.optimizer if kind == "step" else None
    return model.export(train=kind != "inference", optimizer=optimizer)


def compare(got: Mapping[str, np.ndarray], want: Mapping[str, torch.Tensor]) -> None:
    """The same names, and numbers within 1e-5 of each output's largest value (or 1e-6)."""
    assert sorted(got) == sorted(want)
    for name, tensor in want.items():
        expected = tensor.detach().numpy()
        assert got[name].dtype == expected.dtype, name
        atol = 1e-6 + 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(got[name], expected, rtol=0, atol=atol, err_msg=name)


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


def leaves(tree: Any) -> list[Any]:
    return pytree.tree_leaves(tree)
