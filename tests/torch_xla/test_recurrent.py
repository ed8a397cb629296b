"""Layers of LSTM and GRU: the bits of stock torch_xla, a composite for each direction.

Cells, and more forms of layers, are samples of test_sample_fidelity.py.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from composites_testing.selection import variants
from composites_testing.tensors import values
from torch import nn

import composites

SameAsStock = Callable[..., Any]


def layers(
    kind: Callable[..., nn.RNNBase] = nn.LSTM,
    shape: tuple[int, ...] = (5, 2, 3),
    train: bool = True,
    **options: Any,
) -> Mapping[str, Any]:
    """Results and gradients."""
    torch.manual_seed(0)
    module = kind(3, 4, **options).to("xla").train(train)
    x = values(*shape).requires_grad_()
    output, state = module(x)
    results = (output, *(state if isinstance(state, tuple) else (state,)))
    directions = [values(*result.shape, seed=5 + n) for n, result in enumerate(results)]
    grads = torch.autograd.grad(results, [x, *module.parameters()], directions)
    named = {f"result {n}": r for n, r in enumerate(results)}
    return named | {f"gradient {n}": g for n, g in enumerate(grads)}


def torchs_gru(*arguments: Any, **options: Any) -> nn.GRU:
    """PyTorch's module; torch_xla's own in its place is a while loop."""
    original: Callable[..., nn.GRU] = getattr(nn.GRU, "_orig", nn.GRU)
    return original(*arguments, **options)


LAYERS: dict[str, tuple[dict[str, Any], int]] = {
    "no batch": ({"shape": (5, 3)}, 1),
    "two ways": ({"bidirectional": True}, 2),
    "dropout": ({"num_layers": 2, "dropout": 0.4}, 2),
    "dropout of eval": ({"num_layers": 2, "dropout": 0.4, "train": False}, 2),
}


@variants("form", LAYERS, fast=("two ways",))
@pytest.mark.parametrize(
    ("kind", "name"), [(nn.LSTM, "lstm"), (torchs_gru, "gru")], ids=["lstm", "gru"]
)
def test_layers(
    same_as_stock: SameAsStock, kind: Callable[..., nn.RNNBase], name: str, form: str
) -> None:
    options, count = LAYERS[form]
    drops = {"dropout", "dropout_backward"} if form == "dropout" else set()
    ours = same_as_stock(
        {form: partial(layers, kind, **options)}, emits={name, f"{name}_backward", *drops}
    ).ours
    assert ours.nodes[form][f"ptxla.{name}"] == count
    assert ours.nodes[form][f"ptxla.{name}_backward"] == count
    if form == "two ways":
        assert "reverse = true" in ours.stablehlo


def test_projected_states_take_the_stock_lowering(same_as_stock: SameAsStock) -> None:
    same_as_stock({"projected": partial(layers, proj_size=2)}, emits=())
    with composites.enabled("lstm"):
        before = composites.stats().entries["ptxla.lstm"].fallbacks
        layers(proj_size=2)
        after = composites.stats().entries["ptxla.lstm"].fallbacks
    assert after != before
