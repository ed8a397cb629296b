"""The generated hooks, unchanged, at the keys of this frontend."""

import numpy as np
import torch
from composites_testing.modules import Computed
from composites_testing.processes import run_python

import composites
from lowering import activation


def test_an_entry_that_is_off_leaves_no_kernel() -> None:
    """See tests/export/test_models.py for training steps with entries of all kinds."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.GELU())
    arguments = (torch.ones(2, 4),)
    before = composites.export(module, arguments, ops=[]).module.text
    assert composites.export(module, arguments).composites
    assert composites.active() == ()
    assert composites.export(module, arguments, ops=[]).module.text == before
    assert activation.backend().frontend.dispatching.dispatch_key == "Lazy"


def test_a_backward_takes_what_the_forward_named() -> None:
    def gated(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        gate = composites.intermediate(x @ weight, "gate")
        return torch.nn.functional.silu(gate).square().sum()

    function = composites.composite("acme.gated_on_fx", intermediates=["gate"])(gated)
    composed, plain = (
        Computed(lambda module, x, call=call: call(x, module.linear.weight))
        for call in (function, gated)
    )
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    program = composites.export(composed, (x,), train=True, frontend="fx")
    assert program.mlir.count("stablehlo.dot_general") == 2  # one each way
    plain(x).backward()
    results = program.run(program.module_weights(plain) | {"arg:0": x})
    assert plain.linear.weight.grad is not None
    np.testing.assert_allclose(results["grad:linear.weight"], plain.linear.weight.grad, 1e-5, 1e-6)


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
