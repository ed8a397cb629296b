"""Updates of parameters and of an optimizer's state stay in their buffers."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import torch_xla
from composites_testing.processes import run_python

import composites
from composites.torch_internals import assign

REGISTRY = Path(__file__).with_name("buffers.yaml").read_text(encoding="utf-8")

SCRIPT = """
import re, sys
from functools import partial
from pathlib import Path
import torch, torch_xla, composites

dumps, names, chosen = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]

def optimizer(make):
    return lambda parameters: make(parameters).step

def momentum(parameters, update):
    buffers = [torch.ones_like(parameter) for parameter in parameters]
    return lambda: update(parameters, [p.grad for p in parameters], buffers)

@torch.no_grad()
def in_lists(parameters, grads, buffers):
    torch._foreach_add_(buffers, grads)
    torch._foreach_add_(parameters, buffers, alpha=-0.1)

@torch.no_grad()
def in_place(parameters, grads, buffers):
    for parameter, grad, buffer in zip(parameters, grads, buffers):
        parameter.add_(buffer.add_(grad), alpha=-0.1)

@torch.no_grad()
def with_out(parameters, grads, buffers):
    for parameter, grad, buffer in zip(parameters, grads, buffers):
        torch.add(buffer, grad, out=buffer)
        torch.add(parameter, buffer, alpha=-0.1, out=parameter)

def step(make, bias=True):
    # Forward, backward and update are one graph, in which the gradients are results too.
    def made(_):
        linears = [torch.nn.Linear(96, 96, bias) for _ in range(4)]
        module = torch.nn.Sequential(*linears).to("xla")
        update, x = make(module.parameters()), torch.ones(2, 96, device="xla")
        def called():
            update.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            update.step()
            return loss
        return called
    return made

def norm(parameters):
    module = torch.nn.BatchNorm1d(96 * 96, affine=False).to("xla")
    grads = torch.ones(2, 96 * 96, device="xla")
    return lambda: module(grads)

MAKERS = {
    "AdamW": optimizer(torch.optim.AdamW),
    "AdamW, amsgrad": optimizer(partial(torch.optim.AdamW, amsgrad=True)),
    "Adam": optimizer(torch.optim.Adam),
    "SGD": optimizer(partial(torch.optim.SGD, lr=0.1, momentum=0.9)),
    "Adafactor": optimizer(torch.optim.Adafactor),
    "Muon": optimizer(torch.optim.Muon),
    "lists": partial(momentum, update=in_lists),
    "in place": partial(momentum, update=in_place),
    "out": partial(momentum, update=with_out),
    "clipping": lambda parameters: partial(torch.nn.utils.clip_grad_norm_, parameters, 1.0),
    "batch norm": norm,
    "step with AdamW": step(torch.optim.AdamW),
    "step with AdamW, amsgrad": step(partial(torch.optim.AdamW, amsgrad=True)),
    "step with AdamW, capturable": step(partial(torch.optim.AdamW, capturable=True)),
    "step with AdamW, foreach": step(partial(torch.optim.AdamW, foreach=True)),
    "step with SGD": step(partial(torch.optim.SGD, lr=0.1)),
    "step with SGD, momentum": step(partial(torch.optim.SGD, lr=0.1, momentum=0.9)),
    "step with Adafactor": step(torch.optim.Adafactor),
    "step with Muon": step(torch.optim.Muon, bias=False),
}
if names:
    composites.enable(*names.split())
for name in chosen or MAKERS:
    make = MAKERS[name]
    parameters = [torch.nn.Parameter(torch.ones(96, 96).to("xla")) for _ in range(3)]
    called = make(parameters)
    for _ in range(3):
        for number, parameter in enumerate(parameters):
            parameter.grad = torch.full_like(parameter, number + 1.5)
        torch_xla.sync(wait=True)
        before = set(dumps.glob("*after_optimizations.txt"))
        result = called()  # a loss that is alive is a result
        torch_xla.sync(wait=True)
        new = set(dumps.glob("*after_optimizations.txt")) - before
        graph = max(new, key=lambda path: path.stat().st_size).read_text() if new else graph
    print(name, len(re.findall(r"f32\\[(?:96,96|9216)\\]\\S* copy\\(", graph)), sep=": ")
"""


def copies(folder: Path, names: str, chosen: tuple[str, ...]) -> dict[str, int]:
    """The number of buffers that the optimized graph of each update copies."""
    folder.mkdir()
    (folder / "umbra.yaml").write_text(REGISTRY)
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
    script = f"import sys; sys.argv[1:] = {[str(folder), names, *chosen]}\n{SCRIPT}"
    registry = str(folder / "umbra.yaml")
    done = run_python(script, XLA_FLAGS=flags, XLA_COMPOSITE_REGISTRY=registry)
    lines = done.succeeded().stdout.splitlines()
    return {name: int(n) for name, n in (line.split(": ") for line in lines)}


FAST = (
    "AdamW", "SGD", "lists", "out", "clipping", "batch norm",
    "step with AdamW", "step with SGD, momentum", "step with Muon",
)  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("chosen", [FAST, ()], ids=["some", "all"])
def test_updates_copy_no_more_buffers_than_those_of_stock(
    tmp_path: Path, chosen: tuple[str, ...]
) -> None:
    stock = copies(tmp_path / "stock", "", chosen)
    entries = "adamw adam fused_adamw sgd adafactor muon clip_grad_norm batch_norm_training umbra.*"
    ours = copies(tmp_path / "composites", entries, chosen)
    assert len(ours) == len(stock) == (len(chosen) or 19)
    assert not {name: n for name, n in ours.items() if n > stock[name]}
    steps = {name for name in ours if name.startswith("step")}
    # Of all weights but the first one, as their last use in the backward is not known to come
    # before their update.
    assert {ours[name] for name in steps} == {3}
    assert all(stock[name] > 10 for name in steps)


def test_assigning_is_seen_by_views_and_by_autograd() -> None:
    tensor = torch.ones(4, 4).to("xla").requires_grad_()
    square = tensor.square().sum()
    with torch.no_grad():
        row, value = tensor[1], torch.full((4, 4), 3.0).to("xla")
        torch_xla.sync()
        assign(tensor, value)
        value.zero_()
        assert tensor._version == 1
        assert row.tolist() == [3.0] * 4
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.backward()
    with torch.no_grad():
        row.mul_(2)
    assert tensor.tolist() == [[3.0] * 4, [6.0] * 4, [3.0] * 4, [3.0] * 4]


def test_gradients_share_memory_after_a_step_as_before() -> None:
    weight = torch.nn.Parameter(torch.ones(3, 4).to("xla"))
    optimizer = torch.optim.AdamW([weight])
    x = torch.arange(8.0).reshape(2, 4).to("xla")
    with composites.enabled("adamw"):
        for part in (lambda grad: grad[1], lambda grad: grad.detach(), lambda grad: grad):
            optimizer.zero_grad()
            torch.nn.functional.linear(x, weight).sum().backward()
            assert weight.grad is not None
            grad, shared, version = weight.grad, part(weight.grad), weight.grad._version
            optimizer.step()
            assert weight.grad is grad
            assert grad._version == version
            shared.mul_(0)
            torch_xla.sync()
            row = [0.0] * 4
            rows = grad.tolist()
            assert rows[1] == row
            assert rows[0] == (x.sum(0).tolist() if shared.dim() == 1 else row)


def test_assigning_casts_and_broadcasts_as_copies_do() -> None:
    tensor = torch.ones(2, 3, dtype=torch.bfloat16).to("xla")
    assign(tensor, torch.full((3,), 1.00390625).to("xla"))
    assert tensor.dtype == torch.bfloat16
    assert tensor.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False), "adamw"),
        (lambda p: torch.optim.Adam(p, lr=0.1, foreach=False), "adam"),
        (lambda p: torch.optim.AdamW(p, lr=0.1), "fused_adamw"),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False), "sgd"),
        (lambda p: torch.optim.Adafactor(p, lr=0.1), "adafactor"),
        (lambda p: torch.optim.Muon(p, lr=0.1), "muon"),
    ],
)
def test_parameters_that_share_memory_are_updated_one_after_the_other(
    make: Callable[..., torch.optim.Optimizer], name: str
) -> None:
    def stepped(names: tuple[str, ...]) -> torch.Tensor:
        shared = torch.arange(6.0).view(2, 3).to("xla")
        parameters = [torch.nn.Parameter(shared), torch.nn.Parameter(shared)]
        optimizer = make(parameters)
        with composites.enabled(*names) if names else nullcontext():
            for step in range(2):
                for number, parameter in enumerate(parameters):
                    parameter.grad = torch.full_like(shared, step - 3.0 * number)
                optimizer.step()
        return shared.cpu()

    assert torch.equal(stepped((name,)), stepped(()))
    reasons = [
        fallback.reason for fallback in composites.stats().entries[f"ptxla.{name}"].fallbacks
    ]
    assert "some of the parameters share memory" in reasons
