"""Loops of torch_xla in exports: `scan`, `scan_layers` and torch.nn.GRU."""

from collections.abc import Callable

import pytest
import torch
from composites_testing.modules import Calling
from composites_testing.selection import variants
from torch import nn
from torch.nn import functional
from torch_xla.experimental.scan import scan
from torch_xla.experimental.scan_layers import scan_layers

import composites
from composites import ExportError, Program


class Layers(nn.Module):
    def __init__(self, *, scanned: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()) for _ in range(3)
        )
        self.scanned = scanned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.scanned:
            return scan_layers(self.layers, x)
        for layer in self.layers:
            x = layer(x)
        return x


class Loop(nn.Module):
    """Products with a weight, one for each slice of the input."""

    def __init__(self, *, scanned: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8) / 4)
        self.scanned = scanned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def step(
            carry: tuple[torch.Tensor, torch.Tensor], slice_: torch.Tensor
        ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
            state, weight = carry
            state = functional.gelu(state @ weight + slice_)
            return (state, weight), state.sum(-1)

        weight: torch.Tensor = self.weight
        carry, sums = (torch.zeros_like(x[0]), weight), []
        if self.scanned:
            carry, stacked = scan(step, carry, x)
            return carry[0].sum() + stacked.square()
        for slice_ in x:
            carry, total = step(carry, slice_)
            sums.append(total)
        return carry[0].sum() + torch.stack(sums).square()


class Gru(nn.Module):
    def __init__(self, *, scanned: bool) -> None:
        super().__init__()
        make = nn.GRU if scanned else nn.GRU._orig  # type: ignore[attr-defined]
        self.gru = make(8, 5, num_layers=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output, state = self.gru(x)
        return output.sum() + state.square()


def with_loss(module: nn.Module) -> nn.Module:
    return nn.Sequential(module, Calling(lambda x: x.square().mean()))


def assert_computes_as(program: Program, plain: nn.Module, x: torch.Tensor, output: str) -> None:
    """Check that a program has PyTorch's numbers for the same computation without a scan."""
    results = program.run(program.module_weights(plain) | {"arg:0": x})
    expected = plain(x)
    torch.testing.assert_close(torch.from_numpy(results[output].copy()), expected.detach())
    if output == "loss":
        expected.backward()
        for name, parameter in plain.named_parameters():
            gradient = torch.from_numpy(results[f"grad:{name}"].copy())
            torch.testing.assert_close(gradient, parameter.grad, atol=1e-5, rtol=1e-4)


MAKERS: dict[str, tuple[Callable[..., nn.Module], list[str]]] = {
    "scan_layers": (Layers, ["gelu", "layer_norm"]),
    "scan": (Loop, ["gelu"]),
    "gru": (Gru, ["gru_cell"]),
}


@pytest.mark.parametrize("train", [False, True])
@variants("name", MAKERS, fast=["scan"])
def test_a_loop_has_one_composite_each_way_in_its_body(name: str, train: bool) -> None:
    make, names = MAKERS[name]
    torch.manual_seed(0)
    scanned, plain = make(scanned=True), make(scanned=False)
    plain.load_state_dict(scanned.state_dict())
    x = torch.randn(4, 3, 8)
    if train:
        program = composites.export(with_loss(scanned), (x,), train=True)
        assert_computes_as(program, with_loss(plain), x, "loss")
    else:
        program = composites.export(scanned, (x,))
        assert_computes_as(program, plain, x, "out:0")
    loops = 2 if name == "gru" else 1
    suffixes = ("", "_backward") if train else ("",)
    assert {f"ptxla.{n}{suffix}": loops for n in names for suffix in suffixes} == dict(
        program.composites
    )
    assert program.mlir.count("stablehlo.while") == loops * len(suffixes)


class Closure(nn.Module):
    """A loop whose function reads a parameter that it is not given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def step(state: torch.Tensor, slice_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            state = state + slice_ * self.weight
            return state, state

        return scan(step, torch.zeros_like(x[0]), x)[1]


def test_a_function_that_reads_a_tensor_from_outside() -> None:
    for train, module in ((True, with_loss(Closure())), (False, Closure())):
        with pytest.raises(ExportError) as raised:
            composites.export(module, (torch.randn(4, 8),), train=train)
        assert str(raised.value).startswith(f"{__file__}:")
        assert str(raised.value).endswith(
            "the function of a loop (scan, scan_layers) reads a tensor from outside; pass it to"
            " the loop, in the carry or as an argument of the layers"
        )


@variants("operator", [torch.ops.higher_order.cond, torch.cond])
def test_operators_that_torch_xla_cannot_record(operator: Callable[..., torch.Tensor]) -> None:
    """Modules that call the operators are refused, and so are graphs of torch.export."""
    module = Calling(lambda x: operator(x.sum() > 0, torch.sin, torch.cos, (x,)))
    with pytest.raises(ExportError, match="torch_xla cannot record PyTorch's cond") as raised:
        composites.export(module, (torch.randn(4),))
    assert str(raised.value).startswith(f"{__file__}:")
