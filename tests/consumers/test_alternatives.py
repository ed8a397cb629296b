"""What an export has with `decompositions="fast"` runs on jax's CPU client and on IREE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from composites_testing.on_iree import run_on_iree
from torch import Tensor

import composites
from composites import Program

LENGTH = 640


class Attention(torch.nn.Module):
    """Causal attention of one layer, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = torch.nn.Linear(16, 48)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.inputs(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        query, key, value = heads
        return F.scaled_dot_product_attention(query, key, value, is_causal=True).sin().sum()


@pytest.fixture(scope="module")
def step() -> tuple[dict[str, Program], list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """The programs of stock and fast, their operands, and PyTorch's numbers in f64."""
    torch.manual_seed(0)
    module, x = Attention(), torch.randn(2, LENGTH, 16)
    programs = {
        choice: composites.export(module, (x,), train=True, portable=True, decompositions=choice)
        for choice in ("stock", "fast")
    }
    named = {**programs["fast"].module_weights(module), "arg:0": x}
    values = [named[value.name].detach().numpy().copy() for value in programs["fast"].inputs]
    module = module.double()
    loss = module(x.double())
    loss.backward()
    right = {"loss": loss} | {f"grad:{name}": p.grad for name, p in module.named_parameters()}
    results = [right[value.name].detach().numpy() for value in programs["fast"].outputs]
    return programs, values, results


def errors(found: list[Any], right: list[np.ndarray[Any, Any]]) -> list[float]:
    """Of each result, the greatest error, in parts of its greatest number."""
    return [
        float(np.abs(np.asarray(one) - other).max() / np.abs(other).max())
        for one, other in zip(found, right, strict=True)
    ]


def agrees(fast: list[Any], stock: list[Any], right: list[np.ndarray[Any, Any]]) -> None:
    pairs = zip(errors(fast, right), errors(stock, right), strict=True)
    assert all(mine <= 3 * max(known, 2**-23) for mine, known in pairs)


def test_attention_in_blocks_is_what_jax_runs(step: Any) -> None:
    programs, values, right = step
    texts = {name: program.module.text for name, program in programs.items()}
    scores = f"x{LENGTH}x{LENGTH}xf32"
    assert scores in texts["stock"]
    assert scores not in texts["fast"]
    assert texts["fast"].count("stablehlo.while") == 2
    inside = ("ptxla.softmax", "ptxla.softmax_backward")  # stock's decomposition has them
    stock = programs["stock"].composites
    assert programs["fast"].composites == {n: c for n, c in stock.items() if n not in inside}
    results = {name: list(p.run(*values).values()) for name, p in programs.items()}
    agrees(results["fast"], results["stock"], right)


def test_attention_in_blocks_is_what_iree_runs(step: Any, tmp_path: Path) -> None:
    programs, values, right = step
    results = {}
    for name, program in programs.items():
        program.save(tmp_path / name)
        results[name] = run_on_iree(tmp_path / name / "program.mlir", values)
    agrees(results["fast"], results["stock"], right)
