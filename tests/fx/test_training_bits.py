"""Loss and gradients of a training step have the same bits with composites and without.

The exceptions are named here, and docs/known-differences.md has their reasons.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.environment import WITHOUT_YNNPACK, full_level
from composites_testing.processes import run_python
from composites_testing.selection import exhaustive

import composites
from benchmarks.training_models import MODELS, Step

EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "bert": (),
    "gpt2": (),
    "llama": ("rms_norm",),  # its gradient is added to that of the residual in one sum
    "mamba": ("rms_norm",),
    "t5": ("rms_norm",),
    "unet": ("upsample_nearest2d_backward",),  # a decomposition of its own: sums, no scatter
    "vit": (),
}
WEEKLY = ("mamba", "t5", "vit")

CLOSE = 2e-6
"""The largest error of a gradient with other bits, relative to the model's largest gradient."""

Results = dict[str, np.ndarray[Any, Any]]


@cache
def step(name: str) -> tuple[Step, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    made = MODELS[name]()
    return Step(made).eval(), dict(made.batch)


def results_of(name: str, ops: Sequence[str]) -> Results:
    module, batch = step(name)
    program = composites.export(module, (), batch, train=True, ops=list(ops), frontend="fx")
    assert bool(program.composites) == bool(ops)
    arguments = {f"kwarg:{name}": tensor for name, tensor in batch.items()}
    return program.run({**program.module_weights(module), **arguments})


def other_bits(first: Results, second: Results) -> set[str]:
    assert first.keys() == second.keys()
    return {name for name in first if first[name].tobytes() != second[name].tobytes()}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.exhaustive if n in WEEKLY else ()) for n in EXCEPTIONS],
)
def test_a_step_has_the_same_bits_but_for_named_entries(name: str) -> None:
    plain = results_of(name, [])
    exceptions = EXCEPTIONS[name]
    assert not other_bits(results_of(name, ["all", *(f"-{e}" for e in exceptions)]), plain)
    largest = max(float(np.abs(value).max()) for key, value in plain.items() if key != "loss")
    for exception in exceptions:
        changed = results_of(name, [exception])
        keys = other_bits(changed, plain)
        assert keys, f"{exception} has the same bits: it is not an exception any more"
        assert "loss" not in keys
        for key in keys:
            assert np.abs(changed[key] - plain[key]).max() <= CLOSE * largest, key


def test_scans_of_mamba_are_composites() -> None:
    module: Any
    module, batch = step("mamba")
    program = composites.export(module, (), batch, ops=["selective_scan"], frontend="fx")
    assert dict(program.composites) == {"ptxla.selective_scan": len(module.module.backbone.layers)}


LOSS = """
import json
import torch
import composites

class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.randn(128, 1000))

    def forward(self, labels):
        return torch.nn.functional.cross_entropy(self.logits, labels)

torch.manual_seed(0)
module, labels = Loss(), torch.arange(128)
pairs = []
for ops in ([], ["cross_entropy_loss"]):
    program = composites.export(module, (labels,), train=True, ops=ops, frontend="fx")
    results = program.run({**program.module_weights(module), "arg:0": labels})
    pairs.append((float(results["loss"]), torch.tensor(results["grad:logits"])))
(loss, grad), (our_loss, our_grad) = pairs
print(json.dumps({
    "loss": loss == our_loss,
    "gradient": torch.equal(grad, our_grad),
    "distance": float((grad - our_grad).abs().max() / grad.abs().max()),
}))
"""


@pytest.mark.process
@pytest.mark.parametrize("flags", ["", *exhaustive(WITHOUT_YNNPACK)])
def test_the_gradient_of_the_loss_as_users_compile_it(flags: str) -> None:
    """XLA:CPU leaves the stock exponential and the sum beside it to YNNPACK."""
    environment = full_level()
    environment["XLA_FLAGS"] = f"{environment['XLA_FLAGS']} {flags}".strip()
    done = run_python(LOSS, **environment)
    assert done.code == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["loss"]
    assert report["distance"] <= CLOSE
    assert report["gradient"] or not flags
