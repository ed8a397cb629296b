"""The generated hooks, unchanged, at the keys of this frontend."""

from functools import partial
from typing import Any

import numpy as np
import torch
from composites_testing.processes import run_python

import composites
from lowering import activation


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(12, 8)
        self.norm = torch.nn.RMSNorm(8)
        self.layer_norm = torch.nn.LayerNorm(8)
        self.hidden = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 10)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embed(tokens))
        x = x + torch.nn.functional.silu(self.hidden(self.layer_norm(x)))
        q = x.unflatten(-1, (2, 4)).transpose(-2, -3)
        x = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        x = x.transpose(-2, -3).flatten(-2)
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


BATCH = torch.arange(10).reshape(2, 5) % 7, torch.arange(10).reshape(2, 5)


def test_a_training_step() -> None:
    module = Classifier()
    factory = partial(torch.optim.AdamW, lr=1e-2)
    program = composites.export(module, BATCH, optimizer=factory)
    for name in (
        "rms_norm", "layer_norm", "silu", "scaled_dot_product_attention", "cross_entropy_loss",
    ):  # fmt: skip
        assert program.composites[f"ptxla.{name}"] == 1, name
        assert program.composites[f"ptxla.{name}_backward"] == 1, name
    plain = composites.export(module, BATCH, optimizer=factory, ops=[])
    assert not plain.composites
    compiled = [one.compile(kernels=None) for one in (program, plain)]
    states = [step.init(module) for step in compiled]
    steady = factory(module.parameters())
    for _ in range(3):
        losses = []
        for number, step in enumerate(compiled):
            loss, states[number] = step(states[number], *(t.numpy() for t in BATCH))
            losses.append(float(loss))
        steady.zero_grad()
        expected = module(*BATCH)
        expected.backward()
        steady.step()
        np.testing.assert_allclose(losses, [expected.item()] * 2, rtol=2e-6)


def test_an_entry_that_is_off_leaves_no_kernel() -> None:
    before = composites.export(Classifier(), BATCH, ops=[]).module.text
    composites.export(Classifier(), BATCH)
    assert composites.active() == ()
    assert composites.export(Classifier(), BATCH, ops=[]).module.text == before
    assert activation.backend().frontend.dispatching.dispatch_key == "Lazy"


def test_a_backward_takes_what_the_forward_named() -> None:
    def gated(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        gate = composites.intermediate(x @ weight, "gate")
        return torch.nn.functional.silu(gate).square().sum()

    class Gated(torch.nn.Module):
        def __init__(self, function: Any) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3, 5))
            self.function = function

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(x, self.weight)

    function = composites.composite("acme.gated_on_fx", intermediates=["gate"])(gated)
    x = torch.linspace(-1, 1, 12).reshape(4, 3)
    program = composites.export(Gated(function), (x,), train=True, frontend="fx")
    assert program.mlir.count("stablehlo.dot_general") == 2  # one each way
    plain = Gated(gated)
    plain(x).backward()
    results = program.run(plain.weight.detach().numpy(), x.numpy())
    assert plain.weight.grad is not None
    np.testing.assert_allclose(results["grad:weight"], plain.weight.grad.numpy(), rtol=1e-6)


def test_the_variable_means_the_program_and_not_its_rules() -> None:
    """The rules run under JAX, whose functions the variable means in JAX programs."""
    code = (
        "import torch, composites\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.nn.functional.silu(x) + torch.nn.functional.gelu(x)\n"
        "program = composites.export(Net(), (torch.ones(2, 3),))\n"
        "import jax; jax.devices()\n"
        "import composites.jax\n"
        "on = 'ptxla.gelu' in composites.active()\n"
        "print(dict(program.composites), on, composites.jax.active())\n"
    )
    done = run_python(code, XLA_COMPOSITE_OP="gelu")
    assert done.stdout == "{'ptxla.gelu': 1} True ()\n", done.stderr
