"""Exports of dtypes, dropout, ExportedProgram, meta tensors, and user passes."""

import copy
import json
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.example_models import compare, load_example
from composites_testing.modules import Calling, Computed
from composites_testing.processes import run_python
from composites_testing.tensors import gradient_of
from torch import nn
from torch.nn import functional as F

import composites
from lowering.stablehlo import Module, decompose


def test_ops_choose_the_composites() -> None:
    layers, x = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Softmax(-1)), torch.ones(2, 4)
    layers.append(Calling(lambda x: x.square().sum()))

    def counts(**options: Any) -> dict[str, int]:
        return dict(composites.export(layers, (x,), **options).composites)

    assert counts(train=True, ops=["gelu"]) == {"ptxla.gelu": 1, "ptxla.gelu_backward": 1}
    assert counts(train=True, ops=[]) == {}
    with composites.enabled("softmax"):
        assert counts() == {"ptxla.softmax": 1}
        assert composites.active() == ("ptxla.softmax", "ptxla.softmax_backward")
    assert counts() == {"ptxla.gelu": 1, "ptxla.softmax": 1}


def test_passes_run_before_the_text_is_written() -> None:
    seen: list[Module] = []

    def note(module: Module) -> Module:
        seen.append(module)
        return module

    layers, x = nn.Sequential(nn.GELU(), nn.Softmax(-1)), torch.ones(2, 4)
    passes: list[Any] = [note, partial(decompose, only="ptxla.gelu"), note]
    program = composites.export(layers, (x,), passes=passes)
    assert program.composites == {"ptxla.softmax": 1}
    assert "ptxla.gelu" in seen[0].text
    assert program.mlir == seen[1].text


def test_an_exported_program() -> None:
    model = load_example("vit")
    graph = torch.export.export(model.module, model.args, model.kwargs, strict=False)
    program = composites.export(graph, model.args, model.kwargs)
    assert program.composites["ptxla.gelu"] == 2
    assert program.composites["ptxla.softmax"] == 2
    compare(program.run(model.values(program)), model.outputs())


def test_arguments_may_be_nested_and_hold_constants() -> None:
    module = Computed(lambda self, pair, *, scale, mask: self.linear(pair[0]) * scale + mask["m"])
    x, m = torch.ones(2, 4), torch.full((2, 4), 3.0)
    program = composites.export(module, ((x, None),), {"scale": 2, "mask": {"m": m}})
    names = [value.name for value in program.inputs]
    assert names == ["param:linear.weight", "param:linear.bias", "arg:0.0", "kwarg:mask.m"]
    weights = program.module_weights(module)
    expected = {"out:0": module((x, None), scale=2, mask={"m": m})}
    compare(program.run({**weights, "arg:0.0": x, "kwarg:mask.m": m}), expected)


def test_outputs_that_are_inputs_constants_or_twice_the_same(x: torch.Tensor) -> None:
    def results(self: Any, x: torch.Tensor) -> dict[str, Any]:
        y = self.linear(x)
        return {"y": y, "again": [y, None], "x": x, "ones": torch.ones(3, device=x.device)}

    module = Computed(results)
    program = composites.export(module, (x,))
    assert [v.name for v in program.outputs] == ["out:y", "out:again.0", "out:x", "out:ones"]
    y = module.linear(x)
    expected = {"out:y": y, "out:again.0": y, "out:x": x, "out:ones": torch.ones(3)}
    compare(program.run(program.module_weights(module) | {"arg:0": x}), expected)


def test_frozen_and_unused_parameters_have_no_gradient(x: torch.Tensor) -> None:
    module = Computed(lambda self, x: self.linear(x).sum(), unused=nn.Linear(2, 2))
    module.linear.bias.requires_grad_(False)
    program = composites.export(
        module, (x,), optimizer=partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    )
    weight, moment = "param:linear.weight", "state:linear.weight.momentum_buffer"
    inputs = [value.name for value in program.inputs]
    assert inputs == [weight, "param:linear.bias", "arg:0", moment]
    outputs = [value.name for value in program.outputs]
    assert outputs == ["loss", "grad:linear.weight", weight, moment]


@pytest.mark.parametrize("write", ["in place", "by assignment"])
def test_a_buffer_that_is_written_is_an_output(write: str, x: torch.Tensor) -> None:
    def count(self: Any, x: torch.Tensor) -> torch.Tensor:
        if write == "in place":
            self.seen.add_(2)
        else:
            self.seen = self.seen + 2
        return self.linear(x)

    module = Computed(count)
    module.register_buffer("seen", torch.ones(3))
    program = composites.export(module, (x,))
    assert torch.equal(module.get_buffer("seen"), torch.ones(3))
    assert [(v.name, v.updates) for v in program.outputs] == [
        ("out:0", None),
        ("buffer:seen", "buffer:seen"),
    ]
    outputs = program.run(program.module_weights(module) | {"arg:0": x})
    compare(outputs, {"out:0": module.linear(x), "buffer:seen": torch.full((3,), 3.0)})


def test_export_leaves_the_process_as_it_was(x: torch.Tensor) -> None:
    """An export that fails leaves the process as it was, too."""
    import torch_xla.core.xla_model as xm

    model, failing = load_example("conv_net"), Computed(lambda self, x: 1 / 0)
    xm.set_rng_state(123)
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    random, on = torch.get_rng_state(), composites.active()
    for fails in (False, True):
        if fails:
            with pytest.raises(ZeroDivisionError):
                composites.export(failing, (x,), ops=["gelu"])
        else:
            model.export(optimizer=model.optimizer)
        assert composites.active() == on
        assert torch.equal(torch.get_rng_state(), random)
        assert xm.get_rng_state() == 123
        assert (torch.compiler.is_compiling(), torch.compiler.is_exporting()) == (False, False)
        assert torch.is_grad_enabled()
    after = model.module.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert all(p.grad is None and p.device.type == "cpu" for p in model.module.parameters())
    assert not model.module._forward_hooks
    assert not failing._forward_hooks
    assert (torch.ones(2, device="xla") + 1).tolist() == [2, 2]  # values can be read again


SCRIPT = """
import json, resource, sys
import torch, torch_xla
from torch import nn
import composites

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4096, 4096) for _ in range(60))

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.gelu(layer(x))
        return x.mean()

with torch.device("meta"):
    module, x = Net(), torch.empty(8, 4096)
composites.export(nn.Linear(4, 4), (torch.ones(2, 4),))  # what the first export loads
before = peak()
program = composites.export(module, (x,), optimizer=torch.optim.AdamW)
parameters = sum(p.numel() for p in module.parameters())
json.dump([parameters, program.composites, peak() - before], sys.stdout)
"""


@pytest.mark.process
def test_a_model_of_a_billion_parameters_needs_no_memory_for_them() -> None:
    parameters, counts, growth = json.loads(run_python(SCRIPT).succeeded().stdout)
    assert parameters > 1e9
    assert counts == {"ptxla.gelu": 60, "ptxla.gelu_backward": 60, "ptxla.adamw": 120}
    assert growth < 500e6  # 60 layers of text and IR; the parameters alone would be 4e9 bytes


def test_groups_of_an_optimizer_have_the_state_of_their_own() -> None:
    def factory(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        weights, biases = [[p for p in parameters if p.dim() == dim] for dim in (2, 1)]
        groups: list[dict[str, Any]] = [
            {"params": weights[:1]},
            {"params": weights[1:], "momentum": 0.9},
        ]
        assert biases
        return torch.optim.SGD(groups, lr=0.1)  # biases stay as they are

    loss_of = Calling(lambda x: x.square().mean())
    module, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), loss_of), torch.randn(2, 4)
    program = composites.export(module, (x,), optimizer=factory)
    state = {"state:1.weight.momentum_buffer": torch.full((4, 4), 0.5)}
    assert [v.name for v in program.inputs if v.name.startswith("state:")] == [*state]
    outputs = program.run(program.module_weights(module) | {"arg:0": x} | state)
    optimizer = factory(list(module.parameters()))
    (momentum,) = state.values()
    optimizer.state[module.get_parameter("1.weight")]["momentum_buffer"] = momentum
    loss = module(x)
    loss.backward()
    expected = {f"grad:{name}": gradient_of(p).clone() for name, p in module.named_parameters()}
    optimizer.step()
    expected |= {f"param:{name}": p for name, p in module.named_parameters()}
    compare(outputs, expected | state | {"loss": loss})


OWN_TENSORS = {
    "attribute": lambda self, x: self.linear(x) + self.offset.to(x.device),
    "made of a list": lambda self, x: x + torch.tensor([3, 1, 4, 1], device=x.device),
    "of the CPU": lambda self, x: x * torch.arange(4),
    "index": lambda self, x: x[:, [2, 0]],
    "bfloat16": lambda self, x: x * torch.tensor([3, 0.3], dtype=torch.bfloat16)[[0, 1, 1, 0]],
    "bool": lambda self, x: torch.where(
        torch.tensor([True, False, False, True], device=x.device), x, -x
    ),
    "complex": lambda self, x: torch.view_as_real(
        torch.tensor([1 + 2j, 3j, 0.5, -1], device=x.device) * x
    ),
}


def test_small_tensors_of_the_module_are_constants(x: torch.Tensor) -> None:
    def results(self: Any, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {name: function(self, x) for name, function in OWN_TENSORS.items()}

    module = Computed(results, offset=torch.tensor([1.0, 2.0, 3.0, 5.0]))
    program = composites.export(module, (x,))
    outputs = program.run(program.module_weights(module) | {"arg:0": x})
    for name, expected in module(x).items():
        np.testing.assert_allclose(
            outputs[f"out:{name}"], expected.detach().numpy(), rtol=1e-6, err_msg=name
        )


def test_an_argument_that_is_written_to_is_an_output(x: torch.Tensor) -> None:
    def write(self: Any, x: torch.Tensor, cache: dict[str, torch.Tensor]) -> torch.Tensor:
        cache["keys"][:, 1] = x.sum(1)
        return cache["keys"] * cache["values"]

    module = Computed(write)
    cache = {"keys": torch.zeros(2, 3), "values": torch.ones(2, 3)}
    program = composites.export(module, (x, cache))
    assert [(value.name, value.updates) for value in program.outputs] == [
        ("out:0", None),
        ("arg:1.keys", "arg:1.keys"),
    ]
    values = program.run({"arg:0": x, "arg:1.keys": cache["keys"], "arg:1.values": cache["values"]})
    expected = module(x, cache)
    np.testing.assert_array_equal(values["out:0"], expected.numpy())
    np.testing.assert_array_equal(values["arg:1.keys"], cache["keys"].numpy())


def test_what_the_short_way_to_stablehlo_cannot_take(x: torch.Tensor) -> None:
    """torch_xla's own converter has to convert such an operation."""

    def solve(self: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = F.gelu(F.gelu(self.linear(x)))
        solved = torch.triangular_solve(h.mT, self.factor.to(x.device))[0]
        return F.dropout(solved, 0.5), torch.topk(h, 2)[0]

    module = Computed(solve, factor=torch.randn(4, 4) + 4 * torch.eye(4)).eval()
    program = composites.export(module, (x,))
    assert "stablehlo.triangular_solve" in program.mlir
    assert "tuple" not in program.mlir
    assert program.composites == {"ptxla.dropout": 1, "ptxla.gelu": 2, "ptxla.topk": 1}
    inputs = [value.name for value in program.inputs]
    assert inputs == ["param:linear.weight", "param:linear.bias", "arg:0", "rng_seed"]
    outputs = program.run(program.module_weights(module) | {"arg:0": x, "rng_seed": 3})
    h = F.gelu(F.gelu(module.linear(x)))
    solved = torch.linalg.solve_triangular(module.factor, h.mT, upper=True).detach().numpy()
    kept = np.asarray(outputs["out:0"]) != 0
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(outputs["out:0"][kept], 2 * solved[kept], rtol=1e-4)
    np.testing.assert_allclose(outputs["out:1"], torch.topk(h, 2)[0].detach().numpy(), rtol=1e-5)


@pytest.mark.slow
def test_an_export_leaves_what_runs_alone(x: torch.Tensor) -> None:
    module = Computed(lambda self, x: F.gelu(torch.mm(self.linear(x), x.mT)).sum()).bfloat16()
    x = x.bfloat16()

    def run() -> torch.Tensor:
        moved = copy.deepcopy(module).to("xla")
        moved(x.to("xla")).backward()
        return gradient_of(moved.linear.weight).cpu()

    with composites.enabled("all"):
        before = run()
        first = composites.export(module, (x,), train=True).mlir
        assert torch.equal(run(), before)
        assert composites.export(module, (x,), train=True).mlir == first
    assert composites.export(module, (x,), train=True).mlir == first
    assert torch.equal(run(), before)
