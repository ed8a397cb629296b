"""Exports use PyTorch's decompositions of operators without a lowering in torch_xla."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  (it defines an operator)
from composites_testing.modules import Calling, CallingWithWeight
from torch.nn import functional

import composites
from composites.operators.unlowered import hypot, masked_scatter, median, scatter_reduce

OF_PYTORCH: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "aten::nansum": lambda x: torch.nansum(x, 1),
    "aten::im2col": lambda x: functional.unfold(x.reshape(1, 1, 4, 6), 2),
    "aten::col2im": lambda x: functional.fold(x.reshape(1, 4, 6), (3, 4), 2),
    "aten::bucketize": lambda x: x * torch.bucketize(x, torch.linspace(-1, 1, 5).to(x.device)),
    "aten::huber_loss": lambda x: functional.huber_loss(x, x * 3),
    "aten::vdot": lambda x: torch.vdot(x[0], x[1]),
    "aten::addmm": lambda x: torch.addmm(x[:, :4], x, x.t(), beta=0.5, alpha=2),
}
"""Calls of operators that PyTorch decomposes, and whose operators for gradients it decomposes."""


def reduced(x: torch.Tensor, *, reduce: str, include_self: bool) -> torch.Tensor:
    """A reduction that leaves out one row, and reaches another one twice."""
    index = torch.tensor([[0] * 6, [2] * 6, [2] * 6]).to(x.device)
    source = x[1:] * torch.linspace(1, 2, 18).reshape(3, 6).to(x.device)
    return x.scatter_reduce(0, index, source, reduce, include_self=include_self)


OF_OURS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "aten::exp2": torch.exp2,
    "aten::histc": lambda x: x * torch.cat([x.histc(12), x.histc(12, -1, 2)]).reshape(4, 6),
    "aten::fmax": lambda x: torch.fmax(x, (x - 0.5).masked_fill(x > 0.3, torch.nan)),
    "aten::fmin": lambda x: torch.fmin((x - 0.5).masked_fill(x > 0.3, torch.nan), x),
    "aten::hypot": lambda x: torch.hypot(x, x.flip(0)),
    "aten::copysign": lambda x: torch.copysign(x, x.flip(0)),
    "aten::addbmm": lambda x: torch.addbmm(x[:, :4], x[None], x.t()[None], beta=2, alpha=3),
    "aten::unfold": lambda x: x.unfold(1, 3, 2) * x.unfold(-1, 3, 2).flip(0),
    "transformers::grouped_mm_fallback": lambda x: torch.ops.transformers.grouped_mm_fallback(
        x, torch.stack([x.reshape(6, 4)] * 3), torch.tensor([1, 1, 4]).to(x.device)
    ),
    "aten::_weight_norm_interface": lambda x: torch._weight_norm(x, x[:, :1], 0),
    "aten::masked_scatter": lambda x: x.masked_scatter(x > 0.2, x.flip(0) * 2),
    "aten::median.dim": lambda x: x.median(1).values * x.median(0, keepdim=True).values.sum(),
    **{
        f"aten::scatter_reduce.two, {reduce}{'' if whole else ' of src alone'}": partial(
            reduced, reduce=reduce, include_self=whole
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for whole in (True, False)
    },
}
"""Calls of operators that have decompositions in `composites.operators.unlowered`."""


def run_training(module: torch.nn.Module, **options: Any) -> dict[str, torch.Tensor]:
    """The results of a module's exported training step."""
    program = composites.export(module, (), train=True, **options)
    results = program.run(program.module_weights(module))
    return {name: torch.from_numpy(array.copy()) for name, array in results.items()}


FOR_ENTRIES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], set[str]]] = {
    "rfft": (
        lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x.flip(0))),
        {"fft_r2c", "fft_c2r", "fft_c2r_backward", "fft_c2c"},
    ),
    "fft": (
        lambda x: torch.view_as_real(torch.fft.ifft(torch.fft.fft(x) ** 2, norm="ortho")),
        {"fft_r2c", "fft_c2c"},
    ),
    "stft": (
        lambda x: torch.view_as_real(
            torch.stft(x.reshape(24), 8, window=torch.ones(8).to(x.device), return_complex=True)
        ),
        {"fft_r2c", "fft_c2c"},
    ),
    "embedding_bag": (
        lambda x: functional.embedding_bag(torch.tensor([[0, 1], [2, 1]]).to(x.device), x),
        {"embedding_bag", "embedding_bag_backward"},
    ),
    "bags of several sizes": (
        lambda x: functional.embedding_bag(
            torch.tensor([2, 1, 1]).to(x.device), x, torch.tensor([0, 2]).to(x.device), mode="max"
        ),
        {"embedding_bag", "embedding_bag_backward"},
    ),
}
"""Calls, and composites that their training step has."""


@pytest.mark.parametrize("name", FOR_ENTRIES)
def test_an_entry_takes_its_place(name: str) -> None:
    function, expected = FOR_ENTRIES[name]
    module = CallingWithWeight(function)
    program = composites.export(module, (), train=True)
    assert {f"ptxla.{composite}" for composite in expected} <= set(program.composites)
    results = run_training(module)
    loss = module()
    loss.backward()
    torch.testing.assert_close(results["loss"], loss.detach())
    torch.testing.assert_close(results["grad:weight"], module.weight.grad, atol=1e-4, rtol=1e-4)


def test_a_product_of_bytes_has_wide_results() -> None:
    a = torch.arange(32 * 8, dtype=torch.int64).reshape(32, 8).to(torch.int8)
    b = torch.arange(8 * 16, dtype=torch.int64).reshape(8, 16).to(torch.int8)
    program = composites.export(Calling(torch._int_mm), (a, b))
    assert dict(program.composites) == {"ptxla.mm": 1}
    expected = a.to(torch.int32) @ b.to(torch.int32)
    assert torch.equal(torch.from_numpy(program.run(a, b)["out:0"].copy()), expected)


class Calls(torch.nn.Module):
    """Calls functions, each with a weight of its own, and adds up their losses."""

    def __init__(self, functions: Mapping[str, Callable[[torch.Tensor], torch.Tensor]]) -> None:
        super().__init__()
        self.calls = torch.nn.ModuleList(map(CallingWithWeight, functions.values()))

    def forward(self) -> torch.Tensor:
        return torch.stack([call() for call in self.calls]).sum()


def test_decompositions_take_their_place() -> None:
    functions = OF_PYTORCH | OF_OURS
    module = Calls(functions)
    results = run_training(module, ops=["gelu"])
    loss = module()
    loss.backward()
    torch.testing.assert_close(results["loss"], loss.detach())
    for number, name in enumerate(functions):
        gradient = module.get_parameter(f"calls.{number}.weight").grad
        actual = results[f"grad:calls.{number}.weight"]
        torch.testing.assert_close(actual, gradient, rtol=1e-5, atol=1e-6, msg=name)


def test_scatter_reduce_of_integers() -> None:
    x, index = torch.tensor([-7, 5, 9]), torch.tensor([2, 0, 2, 2])
    operands = (x, 0, index, torch.tensor([4, -3, 1, -2]))
    for reduce, whole in product(("sum", "mean", "prod", "amax", "amin"), (True, False)):
        reduced = scatter_reduce(*operands, reduce, include_self=whole)
        expected = torch.scatter_reduce(*operands, reduce, include_self=whole)
        assert torch.equal(reduced, expected), reduce


def test_median_of_nan_and_of_a_number() -> None:
    x = torch.tensor([[3.0, torch.nan, 1.0, torch.nan], [4.0, 1.0, 2.0, 3.0]])
    torch.testing.assert_close(median(x, 1), tuple(x.median(1)), equal_nan=True)
    assert [t.item() for t in median(torch.tensor(2), 0)] == [2, 0]


def test_masked_scatter_of_several_shapes() -> None:
    mask, none = torch.tensor([[True], [False], [True]]), torch.zeros(1, dtype=torch.bool)
    x, source = torch.zeros(3, 4), torch.arange(9.0)
    for operands in ((x, mask, source), (x[0], mask, source), (x, none, source[:0])):
        assert torch.equal(masked_scatter(*operands), torch.masked_scatter(*operands))


def test_hypot_of_numbers_without_a_square() -> None:
    """The squares of these numbers are out of range, or infinite."""
    for scale in (1e-25, 1e25):
        x = torch.linspace(-2, 2, 24) * scale
        torch.testing.assert_close(hypot(x, x.flip(0)) / scale, torch.hypot(x, x.flip(0)) / scale)
    first, second = (torch.tensor(x).repeat(2) for x in ([torch.inf, 3.0], [torch.nan, -torch.inf]))
    assert torch.equal(hypot(first, second), torch.hypot(first, second))  # no NaN


@pytest.mark.torch_xla
def test_nothing_is_decomposed_outside_of_exports() -> None:
    import torch_xla.debug.metrics as metrics

    composites.export(CallingWithWeight(torch.nansum), ())
    before = metrics.counter_value("aten::nansum") or 0
    assert torch.nansum(torch.ones(3, device="xla")).item() == 3
    assert metrics.counter_value("aten::nansum") == before + 1


@pytest.mark.torch_xla
def test_a_module_may_print(capsys: pytest.CaptureFixture[str]) -> None:
    def prints(x: torch.Tensor) -> torch.Tensor:
        print(x * 2)
        return x

    composites.export(CallingWithWeight(prints), ())
    assert capsys.readouterr().out == (
        "tensor(..., device='xla:0', size=(4, 6), dtype=torch.float32)\n"
    )
    assert "0.5" in str(torch.full((2,), 0.5, device="xla"))
