"""What the tests with consumers share: the example models, exported, and what PyTorch computes.

They need the extra `consumers`: pip install 'torch-xla-composites[torch-xla,models,consumers]'.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.selection import only_fast

from composites import Program, export
from composites.cli.factories import load_factory

EXAMPLES = Path(__file__).parents[2] / "examples"
MODELS = ("bert", "conv_net", "gpt2", "vit")


@dataclass(frozen=True)
class Subject:
    """An exported program, the values to run it with, and PyTorch's numbers on the CPU."""

    program: Program
    values: tuple[np.ndarray, ...]
    """In the order of the program's inputs."""
    expected: dict[str, np.ndarray]

    def check(self, results: Any) -> None:
        """Outputs agree within 1e-5 of the largest value of each (or 1e-6).

        The running variance of batch norm is not compared with PyTorch's: torch_xla 2.9 averages
        the biased one.
        """
        results = [np.asarray(result) for result in results]
        assert len(results) == len(self.program.outputs)
        for value, got in zip(self.program.outputs, results, strict=True):
            assert got.shape == value.shape, value.name
            if value.name.endswith("running_var"):
                continue
            want = self.expected[value.name]
            atol = 1e-6 + 1e-5 * np.abs(want).max()
            np.testing.assert_allclose(got, want, rtol=0, atol=atol, err_msg=value.name)


def make_subject(
    name: str, *, train: bool, optimizer: Callable[..., Any] | None = None, **options: Any
) -> Subject:
    torch.manual_seed(0)
    module, args, kwargs = load_factory(f"{EXAMPLES / 'models.py'}:{name}")
    module.train(name == "conv_net" and train)
    program = export(module, args, kwargs, train=train, optimizer=optimizer, **options)
    state = {
        value.name: torch.full(value.sizes, STATE[value.name.rpartition(".")[2]])
        for value in program.inputs
        if value.name.startswith("state:")
    }
    return Subject(
        program,
        in_order(program, module, args, kwargs, state),
        computed(module, args, kwargs, train, optimizer, state),
    )


# At the start Adam moves by the sign of a gradient, noise or not; so some steps on.
STATE = {"step": 10.0, "exp_avg": 0.1, "exp_avg_sq": 0.3}


def in_order(
    program: Program, module: Any, args: Any, kwargs: Any, state: Mapping[str, torch.Tensor]
) -> tuple[np.ndarray, ...]:
    named = {**program.module_weights(module), **state}
    named |= {f"arg:{number}": tensor for number, tensor in enumerate(args)}
    named |= {f"kwarg:{name}": tensor for name, tensor in kwargs.items()}
    # Copies: batch norm writes to its buffers, which numpy would see.
    return tuple(named[value.name].detach().numpy().copy() for value in program.inputs)


def computed(
    module: Any,
    args: Any,
    kwargs: Any,
    train: bool,
    optimizer: Callable[..., Any] | None,
    state: Mapping[str, torch.Tensor],
) -> dict[str, np.ndarray]:
    """Outputs, or loss, gradients and what the optimizer makes, of the module on the CPU, by output
    name."""
    module = copy.deepcopy(module)
    results = module(*args, **kwargs)
    if not isinstance(results, Mapping):
        results = dict(enumerate(results if isinstance(results, tuple) else (results,)))
    outputs = {f"out:{key}": value for key, value in results.items()}
    if train:
        loss = next(iter(results.values()))
        loss.backward()
        outputs = {"loss": loss}
        outputs |= {f"grad:{name}": p.grad for name, p in module.named_parameters()}
        if optimizer is not None:
            outputs |= stepped(optimizer, dict(module.named_parameters()), state)
    outputs |= {f"buffer:{name}": buffer for name, buffer in module.named_buffers()}
    return {name: value.detach().numpy() for name, value in outputs.items()}


def stepped(
    factory: Callable[..., Any],
    parameters: Mapping[str, torch.nn.Parameter],
    state: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """Parameters and state after a step of the optimizer, by output name."""
    optimizer = factory(parameters.values())
    for name, tensor in state.items():
        owner, _, key = name.removeprefix("state:").rpartition(".")
        optimizer.state[parameters[owner]][key] = tensor.clone()
    optimizer.step()
    names = {parameter: name for name, parameter in parameters.items()}
    outputs = {f"param:{name}": parameter for name, parameter in parameters.items()}
    return outputs | {
        f"state:{names[parameter]}.{key}": tensor
        for parameter, values in optimizer.state.items()
        for key, tensor in values.items()
    }


@cache
def cached_subject(name: str, train: bool, portable: bool) -> Subject:
    return make_subject(name, train=train, portable=portable)


@pytest.fixture(params=only_fast(MODELS, "conv_net"))
def model_name(request: pytest.FixtureRequest) -> str:
    """Each of the example models; the smallest for every change."""
    return request.param


@pytest.fixture(scope="session")
def subject() -> Callable[..., Subject]:
    """`subject(name, train=…, portable=…)`: an example model as a subject; made once."""
    return lambda name, *, train, portable=False: cached_subject(name, train, portable)


@pytest.fixture(scope="session")
def make() -> Callable[..., Subject]:
    """`make(name, train=…, optimizer=…)`: an example model as a subject, made anew."""
    return make_subject


@pytest.fixture(scope="session")
def kernels() -> Any:
    """The example kernels, compiled and registered."""
    return load_example("kernels/activations").load()


def load_example(name: str) -> ModuleType:
    """An example file as a module."""
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
