"""The models of examples/models.py, their values, and what PyTorch computes on the CPU."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from composites import Program, export
from lowering.cli.export import load_factory
from lowering.export.manifest import Value
from lowering.frontends.chosen import chosen

MODELS = Path(__file__).parents[3] / "examples" / "models.py"

Optimizer = Callable[..., torch.optim.Optimizer]
OPTIMIZERS: dict[str, Optimizer] = {
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
    optimizer: Optimizer

    def export(self, **options: Any) -> Program:
        return export(self.module, self.args, self.kwargs, **options)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Parameters, buffers and arguments by the names of a program's inputs, in order."""
        named: dict[str, torch.Tensor] = {}
        named |= {f"param:{name}": value for name, value in self.module.named_parameters()}
        named |= {f"buffer:{name}": value for name, value in self.module.named_buffers()}
        named |= {f"arg:{number}": value for number, value in enumerate(self.args)}
        return named | {f"kwarg:{name}": value for name, value in self.kwargs.items()}

    def values(self, program: Program) -> dict[str, np.ndarray]:
        """The values of a program's inputs: the module's own, and for optimizer state any."""
        tensors = self.tensors()
        return {
            value.name: tensors[value.name].detach().numpy().copy()
            if value.name in tensors
            else state_like(value)
            for value in program.inputs
        }

    def outputs(self) -> dict[str, torch.Tensor]:
        """Results of inference, by output name."""
        module = copy.deepcopy(self.module)
        with torch.no_grad():
            result = module(*self.args, **self.kwargs)
        several = (result,) if isinstance(result, torch.Tensor) else result
        results = result if isinstance(result, Mapping) else dict(enumerate(several))
        outputs = {f"out:{key}": tensor for key, tensor in results.items()}
        return outputs | self._changed_buffers(module)

    def step(self, state: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
        """Results of a training step from this state of the optimizer, by output name; without a
        state, loss and gradients."""
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
        if not state:
            return outputs
        optimizer = self.optimizer(parameters.values())
        slots = {}
        for name, value in state.items():
            owner, _, key = name.removeprefix("state:").rpartition(".")
            slots[name] = parameters[owner], key
            optimizer.state[parameters[owner]][key] = torch.tensor(value)
        optimizer.step()
        outputs |= {f"param:{name}": p.detach() for name, p in parameters.items()}
        return outputs | {name: optimizer.state[p][key] for name, (p, key) in slots.items()}

    def _changed_buffers(self, module: torch.nn.Module) -> dict[str, torch.Tensor]:
        before = dict(self.module.named_buffers())
        return {
            f"buffer:{name}": _as_torch_xla(name, before[name], after)
            for name, after in module.named_buffers()
            if not torch.equal(before[name], after)
        }


def _as_torch_xla(name: str, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """torch_xla 2.9 averages the biased variance into `running_var`; PyTorch the unbiased one."""
    if not name.endswith("running_var") or chosen() != "xla":
        return after
    count = {"features.1.running_var": 4 * 16 * 16, "features.5.running_var": 4 * 8 * 8}[name]
    return 0.9 * before + (after - 0.9 * before) * (count - 1) / count


def state_like(value: Value) -> np.ndarray:
    """A state after some steps. Adam begins by the sign of the gradient, noise or not."""
    if value.name.endswith(".step"):
        return np.asarray(10, np.float32)
    random = np.random.default_rng(len(value.name))
    return np.asarray(random.uniform(0.1, 0.2, value.sizes), np.float32)


@cache
def load_example(name: str) -> Example:
    """A model without dropout, whose random numbers are the device's; batch norm is trained."""
    torch.manual_seed(0)
    module, args, kwargs = load_factory(f"{MODELS}:{name}")
    module = module.train(name == "conv_net")
    return Example(name, module, tuple(args), dict(kwargs), OPTIMIZERS[name])


@cache
def export_example(name: str, kind: str, **options: Any) -> Program:
    """An example as `inference`, `gradients` or `step`; made once."""
    model = load_example(name)
    optimizer = model.optimizer if kind == "step" else None
    return model.export(train=kind != "inference", optimizer=optimizer, **options)


def compare(outputs: Mapping[str, np.ndarray], references: Mapping[str, torch.Tensor]) -> None:
    """Check names, and numbers within 1e-5 of each output's largest value (or 1e-6)."""
    assert sorted(outputs) == sorted(references)
    for name, tensor in references.items():
        expected = tensor.detach().numpy()
        actual = np.asarray(outputs[name])
        assert actual.dtype == expected.dtype, name
        atol = 1e-6 + 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(actual, expected, rtol=0, atol=atol, err_msg=name)
