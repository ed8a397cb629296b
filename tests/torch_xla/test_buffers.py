"""Updates of parameters and of an optimizer's state stay in their buffers, as in stock graphs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import torch_xla
from composites_testing.processes import run_python

import composites
from composites.torch_internals import assign

SCRIPT = """
import re, sys
from pathlib import Path
import torch, torch_xla, composites

dumps, names = Path(sys.argv[1]), sys.argv[2]
MAKERS = {
    "AdamW": lambda p: torch.optim.AdamW(p),
    "AdamW, amsgrad": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "Adam": lambda p: torch.optim.Adam(p),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adafactor": lambda p: torch.optim.Adafactor(p),
    "Muon": lambda p: torch.optim.Muon(p),
}
if names:
    composites.enable(*names.split())
for name, make in MAKERS.items():
    parameters = [torch.nn.Parameter(torch.ones(96, 96).to("xla")) for _ in range(3)]
    optimizer = make(parameters)
    for _ in range(3):
        for number, parameter in enumerate(parameters):
            parameter.grad = torch.full_like(parameter, number + 1.5)
        torch_xla.sync(wait=True)
        before = set(dumps.glob("*after_optimizations.txt"))
        optimizer.step()
        torch_xla.sync(wait=True)
        new = set(dumps.glob("*after_optimizations.txt")) - before
        graph = max(new, key=lambda path: path.stat().st_size).read_text() if new else graph
    print(name, len(re.findall(r"f32\\[96,96\\]\\S* copy\\(", graph)), sep=": ")
"""


def copies(folder: Path, names: str) -> list[str]:
    folder.mkdir()
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
    script = f"import sys; sys.argv[1:] = {[str(folder), names]}\n{SCRIPT}"
    done = run_python(script, XLA_FLAGS=flags)
    assert done.code == 0, done.stderr
    return done.stdout.splitlines()


def test_updates_copy_no_more_buffers_than_those_of_stock(tmp_path: Path) -> None:
    stock = copies(tmp_path / "stock", "")
    ours = copies(tmp_path / "composites", "adamw adam sgd adafactor muon")
    assert ours == stock


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
