"""Traced tensors have no values, and torch_xla ends the process where one is read. None is left
where a user would find it after an export."""

import traceback

import pytest
import torch

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
    """The error can be shown with its local variables."""
    module = Keeping(reads=reads)
    first = module.history[0]
    try:
        composites.export(module, (torch.randn(2, 3),), train=train)
        assert not reads
    except ExportError as error:
        assert reads
        shown = traceback.TracebackException.from_exception(error, capture_locals=True)
        assert "self.last.sum().item()" in "".join(shown.format())  # the lines are there
    assert not hasattr(module, "last")
    assert len(module.history) == 1
    assert module.history[0] is first
    assert module.by_name == {}
    assert module.calls == 1
