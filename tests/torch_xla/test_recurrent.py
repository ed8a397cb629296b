"""LSTM and GRU: cells, and layers in one direction; the bits of stock torch_xla."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from composites_testing.selection import variants
from composites_testing.tensors import values
from torch import nn

import composites

SameAsStock = Callable[..., Any]
Named = Mapping[str, Any]
FLOATS = variants("dtype", [torch.float32, torch.bfloat16], ids=str)


def cell(kind: type[nn.RNNCellBase], dtype: torch.dtype, steps: int, **options: Any) -> Named:
    torch.manual_seed(0)
    module = kind(3, 4, **options).to(dtype).to("xla")
    x = values(2, 3, dtype=dtype).requires_grad_()
    state = module(x)
    for step in range(1, steps):
        state = module(values(2, 3, seed=step, dtype=dtype), state)
    results = state if isinstance(state, tuple) else (state,)
    return with_gradients(results, [x, *module.parameters()])


def layers(
    dtype: torch.dtype,
    kind: Callable[..., nn.RNNBase] = nn.LSTM,
    shape: tuple[int, ...] = (5, 2, 3),
    train: bool = True,
    **options: Any,
) -> Named:
    torch.manual_seed(0)
    module = kind(3, 4, **options).to(dtype).to("xla").train(train)
    x = values(*shape, dtype=dtype).requires_grad_()
    output, state = module(x)
    return with_gradients(
        (output, *(state if isinstance(state, tuple) else (state,))), [x, *module.parameters()]
    )


def with_gradients(results: tuple[torch.Tensor, ...], inputs: list[torch.Tensor]) -> Named:
    directions = [
        values(r.numel(), seed=5 + n, dtype=r.dtype).reshape(r.shape) for n, r in enumerate(results)
    ]
    found = torch.autograd.grad(results, inputs, directions)
    named = {f"result {n}": r for n, r in enumerate(results)}
    return named | {f"gradient {n}": g for n, g in enumerate(found)}


def torchs_gru(*arguments: Any, **options: Any) -> nn.GRU:
    """PyTorch's module; torch_xla's own in its place is a while loop."""
    original: Callable[..., nn.GRU] = getattr(nn.GRU, "_orig", nn.GRU)
    return original(*arguments, **options)


@FLOATS
@variants("bias", [True, False])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(nn.LSTMCell, "lstm_cell"), (nn.GRUCell, "gru_cell")],
    ids=["lstm", "gru"],
)
def test_cells(
    same_as_stock: SameAsStock,
    kind: type[nn.RNNCellBase],
    name: str,
    bias: bool,
    dtype: torch.dtype,
) -> None:
    # Of several steps in bf16, XLA leaves out roundings that stock's gathers keep.
    steps = 2 if dtype == torch.float32 else 1
    ours = same_as_stock(
        {name: partial(cell, kind, dtype, steps, bias=bias)}, emits={name, f"{name}_backward"}
    ).ours
    assert ours.nodes[name] == {f"ptxla.{name}": steps, f"ptxla.{name}_backward": steps}


LAYERS: dict[str, tuple[dict[str, Any], int]] = {
    "one": ({}, 1),
    "batch first": ({"batch_first": True, "shape": (2, 5, 3)}, 1),
    "no batch": ({"shape": (5, 3)}, 1),
    "two ways": ({"bidirectional": True}, 2),
    "two layers, two ways": ({"bidirectional": True, "num_layers": 2, "bias": False}, 4),
    "dropout": ({"num_layers": 2, "dropout": 0.4}, 2),
    "dropout of eval": ({"num_layers": 2, "dropout": 0.4, "train": False}, 2),
}


def dtypes_of_layers() -> Iterator[Any]:
    """The one that holds most in f32 by default, and a few more in CI, one of them in bf16; the
    exhaustive run has all in both."""
    for form in LAYERS:
        for dtype, name, fast in (
            (torch.float32, "f32", ("no batch", "two layers, two ways", "dropout")),
            (torch.bfloat16, "bf16", ("one",)),
        ):
            mark = pytest.mark.slow if form in fast else pytest.mark.exhaustive
            marks = [] if (form, name) == ("two layers, two ways", "f32") else [mark]
            yield pytest.param(form, dtype, id=f"{form}-{name}", marks=marks)


@variants(("form", "dtype"), dtypes_of_layers())
@pytest.mark.parametrize(
    ("kind", "name"), [(nn.LSTM, "lstm"), (torchs_gru, "gru")], ids=["lstm", "gru"]
)
def test_layers(
    same_as_stock: SameAsStock,
    kind: Callable[..., nn.RNNBase],
    name: str,
    form: str,
    dtype: torch.dtype,
) -> None:
    options, count = LAYERS[form]
    drops = {"dropout", "dropout_backward"} if form == "dropout" else set()
    ours = same_as_stock(
        {form: partial(layers, dtype, kind, **options)}, emits={name, f"{name}_backward", *drops}
    ).ours
    assert ours.nodes[form][f"ptxla.{name}"] == count
    assert ours.nodes[form][f"ptxla.{name}_backward"] == count
    if "two ways" in form:
        assert "reverse = true" in ours.stablehlo


def test_projected_states_take_the_stock_lowering(same_as_stock: SameAsStock) -> None:
    same_as_stock({"projected": partial(layers, torch.float32, proj_size=2)}, emits=())
    with composites.enabled("lstm"):
        before = composites.stats().entries["ptxla.lstm"].fallbacks
        layers(torch.float32, proj_size=2)
        after = composites.stats().entries["ptxla.lstm"].fallbacks
    assert after != before
