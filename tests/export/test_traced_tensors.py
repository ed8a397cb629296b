"""Traced tensors have no values, and torch_xla ends the process where one is read. None is left
where a user would find it after an export."""

from __future__ import annotations

import traceback

import pytest
import torch
import torch_xla

import composites
from composites import ExportError


class Keeping(torch.nn.Module):
    """Keeps what it computes, in several places, and may read a value."""

    def __init__(self, *, reads: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.reads = reads
        self.calls = 0
        self.history: list[torch.Tensor] = [torch.ones(1)]
        self.by_name: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.last = self.linear(x)
        self.history.append(self.last[0])
        self.by_name["given"] = x
        if self.reads:
            self.last.sum().item()
        return self.last.sum()


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("train", [True, False])
def test_a_module_keeps_no_traced_tensor(train: bool, reads: bool) -> None:
    module, real = Keeping(reads=reads), torch.ones(2, device="xla") * 3
    first = module.history[0]
    try:
        composites.export(module, (torch.randn(2, 3),), train=train)
        assert not reads
    except ExportError:
        assert reads
    torch_xla.sync()  # computes every tensor that somebody holds
    assert not hasattr(module, "last")
    assert len(module.history) == 1
    assert module.history[0] is first
    assert module.by_name == {}
    assert module.calls == 1
    assert real.tolist() == [3, 3]


@pytest.mark.parametrize("train", [True, False])
def test_an_error_can_be_shown_with_its_local_variables(train: bool) -> None:
    with pytest.raises(ExportError) as raised:
        composites.export(Keeping(reads=True), (torch.randn(2, 3),), train=train)
    torch_xla.sync()  # while somebody keeps the error
    shown = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    text = "".join(shown.format())
    assert "self.last.sum().item()" in text  # the lines are there
