"""What the tests with consumers share: the example models, exported, and what PyTorch computes.

They need the extra `consumers`: pip install 'torch-xla-composites[torch,models,consumers]'.
"""

from __future__ import annotations

# ruff: noqa: E402 - torch_xla reads its environment when it is imported
import copy
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

for variable in ("XLA_COMPOSITE_OP", "XLA_COMPOSITE_REGISTRY"):
    os.environ.pop(variable, None)
os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import pytest
import torch

from composites import Program, export
from composites.factories import load_factory

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


def make_subject(name: str, *, train: bool, **options: Any) -> Subject:
    torch.manual_seed(0)
    module, args, kwargs = load_factory(f"{EXAMPLES / 'models.py'}:{name}")
    module.train(name == "conv_net" and train)
    program = export(module, args, kwargs, train=train, **options)
    return Subject(
        program, in_order(program, module, args, kwargs), computed(module, args, kwargs, train)
    )


def in_order(program: Program, module: Any, args: Any, kwargs: Any) -> tuple[np.ndarray, ...]:
    named = program.module_weights(module)
    named |= {f"arg:{number}": tensor for number, tensor in enumerate(args)}
    named |= {f"kwarg:{name}": tensor for name, tensor in kwargs.items()}
    # Copies: batch norm writes to its buffers, which numpy would see.
    return tuple(named[value.name].detach().numpy().copy() for value in program.inputs)


def computed(module: Any, args: Any, kwargs: Any, train: bool) -> dict[str, np.ndarray]:
    """Outputs, or loss and gradients, of the module on the CPU, by output name."""
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
    outputs |= {f"buffer:{name}": buffer for name, buffer in module.named_buffers()}
    return {name: value.detach().numpy() for name, value in outputs.items()}


@cache
def cached_subject(name: str, train: bool, portable: bool) -> Subject:
    return make_subject(name, train=train, portable=portable)


@pytest.fixture(params=MODELS)
def model_name(request: pytest.FixtureRequest) -> str:
    """Each of the example models."""
    return request.param


@pytest.fixture(scope="session")
def subject() -> Callable[..., Subject]:
    """`subject(name, train=…, portable=…)`: an example model as a subject; made once."""
    return lambda name, *, train, portable=False: cached_subject(name, train, portable)


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
