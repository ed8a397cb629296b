"""Exports with `decompositions="fast"` run on jax's CPU client and on IREE."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from composites_testing.modules import Calling
from torch import Tensor

import composites
from composites import Program
from lowering.stablehlo import UnsupportedOperationError
from lowering.stablehlo.diagnosis.devices import by_iree

LENGTH = 640


class Attention(torch.nn.Module):
    """Causal attention of one layer, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = torch.nn.Linear(16, 48)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.inputs(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(query, key, value, is_causal=True).sin().sum()


Step = tuple[dict[str, Program], list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]


@pytest.fixture(scope="module")
def step() -> Step:
    torch.manual_seed(0)
    return exported(Attention(), torch.randn(2, LENGTH, 16), "iree")


def exported(module: torch.nn.Module, x: Tensor, target: str) -> Step:
    """The programs of stock and fast, their operands, and PyTorch's numbers in f64."""
    programs = {
        choice: composites.export(module, (x,), train=True, target=target, decompositions=choice)
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


def errors(results: list[Any], right: list[np.ndarray[Any, Any]]) -> list[float]:
    """The greatest error of each result, relative to its greatest number."""
    return [
        float(np.abs(np.asarray(result) - expected).max() / np.abs(expected).max())
        for result, expected in zip(results, right, strict=True)
    ]


def agrees(run_on: Callable[[Program, list[Any]], list[Any]], step: Step) -> None:
    """Check that errors of fast are at most three times those of stock."""
    programs, values, right = step
    fast, stock = (errors(run_on(programs[n], values), right) for n in ("fast", "stock"))
    assert all(a <= 3 * max(b, 2**-23) for a, b in zip(fast, stock, strict=True))


@pytest.mark.slow
def test_attention_in_blocks_is_what_jax_runs(step: Any) -> None:
    programs, *_ = step
    texts = {name: program.module.text for name, program in programs.items()}
    scores = f"x{LENGTH}x{LENGTH}xf32"
    assert scores in texts["stock"]
    assert scores not in texts["fast"]
    assert texts["fast"].count("stablehlo.while") == 2
    inside = ("ptxla.softmax", "ptxla.softmax_backward")  # stock's decomposition has them
    stock = programs["stock"].composites
    assert programs["fast"].composites == {n: c for n, c in stock.items() if n not in inside}
    agrees(on_xla, step)


@pytest.mark.process
def test_attention_in_blocks_is_what_iree_runs(step: Any) -> None:
    agrees(on_iree, step)


def on_iree(program: Program, values: list[Any]) -> list[Any]:
    return list(by_iree(program.module)(*values))


def on_xla(program: Program, values: list[Any]) -> list[Any]:
    return list(program.run(*values).values())


class Classes(torch.nn.Module):
    """The loss of a language model, whose alternatives have loops."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(20_000, 64)
        self.norm = torch.nn.LayerNorm(64)

    def forward(self, words: Tensor) -> Tensor:
        x = self.norm(self.table(words))
        x = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        return F.cross_entropy((x @ self.table.weight.T).flatten(0, 1), words.flatten())


class Norms(torch.nn.Module):
    """A norm and a softmax, whose sums are products in `fast`."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(128)

    def forward(self, rows: Tensor) -> Tensor:
        weights = self.norm(rows).softmax(-1)
        return (weights * rows).sum() + (weights * weights).sum().log()


@pytest.mark.parametrize(
    "target", ["xla", *(pytest.param(t, marks=pytest.mark.process) for t in ("iree", "litert"))]
)
def test_sums_that_are_products_are_what_a_consumer_runs(target: str) -> None:
    torch.manual_seed(0)
    step = exported(Norms(), torch.randn(8, 64, 128), target)
    products = {name: p.module.text.count("dot_general") for name, p in step[0].items()}
    assert products["fast"] > products["stock"]
    agrees(on_iree if target == "iree" else on_xla, step)


IN_BLOCKS = ("scaled_dot_product_attention", "scaled_dot_product_attention_backward")
IN_ROWS = ("cross_entropy_loss", "embedding_dense_backward")


def with_loops(program: Program) -> set[str]:
    """The composites whose decompositions have loops."""
    names, name = set(), ""
    for line in program.module.text.splitlines():
        if "func.func" in line:
            name = line.partition("@ptxla.")[2].partition(".impl")[0]
        if "stablehlo.while" in line:
            names.add(name)
    return names


GOALS = {
    (None, "fast"): (*IN_BLOCKS, *IN_ROWS),
    ("iree", "fast,cross_entropy_loss=rows"): (*IN_BLOCKS, IN_ROWS[0]),
    ("litert", "fast"): (),
    ("xla", "fast"): (*IN_BLOCKS, *IN_ROWS),
    ("iree", "fast"): IN_BLOCKS,
    ("iree", "blockwise"): IN_BLOCKS,
    ("litert", "small"): (),
    ("portable", "fast"): (),
    ("cuda", "fast"): (),
    ("cuda", "small"): IN_BLOCKS,
}
WORDS = torch.zeros(1, 512, dtype=torch.long)


@pytest.mark.parametrize(
    "goals", [list(GOALS)[:3], pytest.param(list(GOALS)[3:], marks=pytest.mark.slow)]
)
def test_goals_leave_out_what_a_consumer_refuses_or_runs_slower(goals: Any) -> None:
    for target, chosen in goals:
        options = {"target": target, "decompositions": chosen}
        program = composites.export(Classes(), (WORDS,), train=True, **options)
        assert with_loops(program) == set(GOALS[target, chosen]), options


@pytest.mark.slow
def test_the_variable_and_blocks_mean_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_COMPOSITE_DECOMPOSITION", "fast")
    program = composites.export(Classes(), (WORDS,), train=True, target="iree")
    assert with_loops(program) == set(IN_BLOCKS)
    monkeypatch.delenv("XLA_COMPOSITE_DECOMPOSITION")
    with composites.enabled("all", decompositions="fast"):
        for target in ("litert", None):
            program = composites.export(Classes(), (WORDS,), train=True, target=target)
            assert with_loops(program) == set(GOALS[target, "fast"])


def test_an_alternative_that_is_named_is_taken_for_all_consumers() -> None:
    operands = [torch.zeros(1, 512, 64) for _ in range(3)]
    attend = Calling(partial(F.scaled_dot_product_attention, is_causal=True))
    named = "scaled_dot_product_attention=blockwise"
    with pytest.raises(UnsupportedOperationError, match=r"does not take stablehlo\.while"):
        composites.export(attend, operands, target="litert", decompositions=named)


class Inside(Classes):
    """A model that turns composites on itself."""

    def forward(self, words: Tensor) -> Tensor:
        with composites.enabled("all", decompositions="fast"):
            return super().forward(words)


@pytest.mark.slow
def test_blocks_inside_the_model_are_for_the_target_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="composites"):
        program = composites.export(Inside(), (WORDS,), train=True, target="litert")
    assert with_loops(program) == set()
    assert "scaled_dot_product_attention@1=fast" in caplog.text
    assert "@litert" not in caplog.text
