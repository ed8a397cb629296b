"""`torch.compile(backend="composites")`: training steps beside eager PyTorch."""

import gc
import math
import operator
import re
import signal
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import jax
import pytest
import torch
import torch.nn.functional as F
from composites_testing.modules import Calling
from composites_testing.processes import run
from composites_testing.scaled_weights import scale_weights
from composites_testing.selection import exhaustive
from composites_testing.transformer import TOKENS, Block, losses, made
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.optim.adamw import adamw
from torch.utils.checkpoint import checkpoint

import composites
from composites.errors import CompositesWarning
from lowering.live import checks, exchange, executable
from lowering.live.cached_attention import read_caches_as_they_are
from lowering.live.compilations import Compilations
from lowering.live.owned_memory import OwnedMemory, owns_memory_of_xla
from lowering.stablehlo import Module

F32, BF16 = torch.float32, torch.bfloat16


def compiled(function: Any, **keywords: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend="composites", **keywords)


def test_a_model_trains_as_in_eager_with_composites_and_their_bits() -> None:
    eager = made(Block)
    expected = losses(eager, eager)
    weights: list[list[Tensor]] = []
    for names in ((), ("all",)):
        model = made(Block)
        with composites.enabled(*names):
            before = composites.stats().entries
            trained = losses(model, compiled(model))
            after = composites.stats().entries
        torch.testing.assert_close(trained, expected, rtol=2e-6, atol=1e-7)
        weights.append(list(model.parameters()))
    attention = "scaled_dot_product_attention"
    for name in ("layer_norm", "rms_norm", attention, "cross_entropy_loss", "gelu"):
        key = f"ptxla.{name}"
        assert after[key].calls > (before[key].calls if key in before else 0), name
    for plain, composed in zip(*weights, strict=True):
        assert torch.equal(plain, composed)


def test_a_model_that_goes_takes_its_program_along() -> None:
    """Arrays of parameters have no traceback, which would hold the code that Dynamo wrote."""
    model = made(Block)
    parameters = [weakref.ref(parameter) for parameter in model.parameters()]
    losses(model, compiled(model))
    codes = list(torch._dynamo.convert_frame.output_codes.seen)
    assert any(code() is not None for code in codes)
    del model
    torch._dynamo.reset()
    gc.collect()
    assert [code() for code in codes] == [None] * len(codes)
    assert [parameter() for parameter in parameters] == [None] * len(parameters)


def test_the_process_keeps_its_accelerator() -> None:
    before = torch.accelerator.current_accelerator()
    compiled(F.gelu)(torch.ones(3))
    assert torch.accelerator.current_accelerator() == before
    assert torch._C._get_privateuse1_backend_name() == "privateuseone"


class Statistics(nn.Module):
    calls: Tensor
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.mean.mul_(0.5).add_(x.detach().mean(0))
        return self.norm(x)


@pytest.mark.parametrize("names", [(), ("all",)])
def test_buffers_are_written(names: Sequence[str]) -> None:
    eager, live = made(Statistics), made(Statistics)
    x = torch.linspace(-1, 2, 24).reshape(6, 4)
    with composites.enabled(*names):
        run = compiled(live)
        for _ in range(3):
            torch.testing.assert_close(run(x), eager(x))
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(live.state_dict()[name], value)


def in_place(x: Tensor) -> Tensor:
    x.mul_(2)[1] = 5
    return torch.ops.aten.clamp_min(x, x.sum())


def with_numbers(x: Tensor) -> tuple[Tensor, float, Tensor]:
    made = torch.zeros(3).to("cpu") + torch.ops.aten.ones([3]).type(torch.LongTensor)
    return x * torch.tensor(2.0), 3.5, torch.arange(3, device=x.device) + made


def with_types(x: Tensor) -> tuple[Tensor, ...]:
    return x.to(torch.bfloat16), x.double(), x > 0, (x * 10).to(torch.int64), x.to(torch.complex64)


def with_strides(x: Tensor) -> tuple[Tensor, ...]:
    moved = F.silu(x).reshape(3, 2, 2).permute(2, 0, 1)
    return moved, x.t() * 2, moved[:, 1:] + 1, moved.contiguous(), x[1:]


def by_strides(x: Tensor) -> tuple[Tensor, ...]:
    image = F.conv2d(x.view(1, 3, 2, 2).permute(0, 3, 1, 2), x.view(6, 2, 1, 1))
    view = (y := x.t() * 2).as_strided((2, 3), (3, 1))
    y.as_strided((2, 2), (1, 3)).mul_(7)
    rows = x.view(1, 3, 2, 2).transpose(1, 2)
    attended = F.scaled_dot_product_attention(rows, rows, rows).transpose(1, 2).view(3, 4)
    pooled, every_other = F.max_pool2d(image, (2, 1)), y[1:].as_strided((4,), (2,))
    views = pooled.permute(0, 2, 3, 1).view(-1, 6), image.as_strided((2, 3), (1, 2)), view.mT
    return image, y, attended, pooled, every_other, *views


def without_kernels_in_pytorch(x: Tensor) -> tuple[Tensor, ...]:
    empty = F.interpolate(x.view(1, 1, 3, 4)[:0], scale_factor=2)
    rows = F.embedding(torch.tensor([2, 0, 2]), y := x.detach() * 1, max_norm=1.5)
    return empty, *torch.geqrf(x), rows, y


@pytest.mark.parametrize(
    "function",
    [in_place, with_numbers, with_types, with_strides, by_strides, without_kernels_in_pytorch],
)
def test_functions(function: Callable[[Tensor], Any]) -> None:
    x, y = (torch.linspace(-2, 2, 12).reshape(3, 4) for _ in range(2))
    result, expected = compiled(function, fullgraph=True)(x), function(y)
    torch.testing.assert_close(result, expected, check_stride="strides" in function.__name__)
    torch.testing.assert_close(x, y)


def test_gradients_go_through_writes_to_inputs() -> None:
    x, y = (torch.ones((), requires_grad=True) for _ in range(2))
    result = compiled(lambda z, y: z.add_(y * 3))(x * 2, y)
    assert [float(gradient) for gradient in torch.autograd.grad(result, (x, y))] == [2, 3]


def test_inputs_that_are_parts_of_others() -> None:
    whole = torch.arange(12.0)
    run = compiled(lambda x, y: F.gelu(x) + torch.as_tensor(y))
    for start in range(3):
        x, y = whole[start : start + 4], whole[5::2]
        for other in (y, y.numpy()):  # an array is no number that changes
            torch.testing.assert_close(run(x, other), F.gelu(x) + y)


def test_weights_stay_where_they_are_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step hands over its batch in both directions, and the gradient, in any order of weights."""
    handed: list[torch.Size] = []
    hand_over = exchange.to_jax

    def counted(tensor: Tensor, device: Any) -> Any:
        handed.append(tensor.shape)
        return hand_over(tensor, device)

    monkeypatch.setattr(exchange, "to_jax", counted)
    torch.manual_seed(0)
    convolution = nn.Conv2d(3, 8, 3)
    weight = convolution.weight
    weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    model = nn.Sequential(convolution, nn.GELU(), nn.Flatten(), nn.Linear(32, 5))
    x = torch.ones(2, 3, 4, 4)
    run, expected = compiled(model), model(x)
    for _ in range(2):
        handed.clear()
        model.zero_grad()
        result = run(x)
        result.sum().backward()
    assert sorted(handed) == [x.shape, x.shape, result.shape]
    torch.testing.assert_close(result, expected)
    gradients = tuple(p.grad for p in model.parameters())
    eager_gradients = torch.autograd.grad(expected.sum(), list(model.parameters()))
    torch.testing.assert_close(gradients, eager_gradients)
    weight.data = torch.zeros_like(weight)  # moves
    torch.testing.assert_close(run(x), model(x))


@pytest.mark.parametrize("read", [(0,), (1,), (2, 4), (0, 3), (0, 1, 2, 3, 4)])
def test_results_without_a_gradient(read: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward gets no zeros for results, such as logits, that a loss does not depend on."""
    zeros: list[int] = []
    compiled_form = Compilations.compiled

    def counted(self: Compilations, owned: Any = (), zero: Sequence[int] = ()) -> Any:
        zeros.append(len(zero))
        return compiled_form(self, owned, zero)

    def function(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        logits = x @ weight
        return logits.logsumexp(-1).mean(), logits, x + 1, F.softmax(logits, -1), weight.t()

    x, weight = torch.linspace(-1, 1, 12).reshape(4, 3), torch.linspace(0, 1, 15).reshape(3, 5)
    steps = []
    monkeypatch.setattr(Compilations, "compiled", counted)
    for call in (function, compiled(function)):
        inputs = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
        results = call(*inputs)
        total = torch.stack([results[n].square().sum() for n in read]).sum()
        gradients = torch.autograd.grad(total, inputs, retain_graph=True, materialize_grads=True)
        steps.append([*gradients, *torch.autograd.grad(results[0], inputs)])
    torch.testing.assert_close(steps[1], steps[0])
    without_view = {*read} - {4}  # its gradient does not come to the backward
    assert zeros[2:] == ([4 - len(without_view), 3] if without_view else [3])


def with_sizes(x: Tensor, a: int) -> tuple[Tensor, ...]:
    n = x.shape[1]
    return (
        F.pad(x, (0, n)), torch.tril(torch.ones(n, n)), x[:, : n // 2], x.split(n // 2, -1)[1],
        torch.arange(a), x[:, :a], torch.triu(x, a), torch.full((2,), n), x.repeat_interleave(a),
        x.unflatten(1, (n // 2, -1)).transpose(0, 1), x * n.__add__(2), x * a.__rsub__(9),
    )  # fmt: skip


def test_numbers_that_change() -> None:
    run = compiled(with_sizes)
    for size, number in ((4, 1), (6, 2), (8, 3), (6, 1)):
        x = torch.arange(3.0 * size).reshape(3, size)
        torch.testing.assert_close(run(x, number), with_sizes(x, number))


def written_constant(x: Tensor) -> tuple[Tensor, Tensor]:
    total, kept = torch.tensor([1.0, 2.0]), torch.tensor(0.0)
    total += x
    return total * 1, kept


def test_tensors_of_numbers_are_new_in_each_call() -> None:
    run, x = compiled(written_constant), torch.ones(2)
    for _ in range(3):
        total, kept = run(x)
        assert (total.tolist(), kept.item()) == ([2, 3], 0)
        kept += 5


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * torch.tensor([[x[0], 4], [x.sum(), 5.5]]) * x.new_tensor([x[0], 4]),
        lambda x: torch.LongTensor([x[0].long(), x[1].long()]) * torch.FloatTensor((3, 4)) * x,
        lambda x: torch.cat([x, torch.FloatTensor(), torch.Tensor(2).zero_(), torch.Tensor([3])]),
        lambda x: x.type(torch.LongTensor) + x.type("torch.IntTensor"),
    ],
)
def test_tensors_of_tensors_and_types_of_the_cpu(call: Callable[[Tensor], Tensor]) -> None:
    x = torch.tensor([1.5, 2.5])
    torch.testing.assert_close(compiled(call)(x), call(x))


def test_tensors_of_numbers_that_vary() -> None:
    """Dynamo passes the second number as a size."""
    run = compiled(lambda x, n: x * torch.as_tensor(n, dtype=x.dtype) + torch.asarray([n, 2.5]))
    for number in (2, 3, 300):
        expected = torch.tensor([2.0 * number, number + 2.5])
        torch.testing.assert_close(run(torch.ones(2), number), expected)


class Clamped(torch.autograd.Function):
    """A function with a gradient of its own, whose graphs are inside an operator of the graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.minimum(x, torch.asarray(0.5)) + torch.as_tensor([1.0, 2.0])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        scaled = gradient * torch.tensor([3.0, 4.0])
        return torch.where(x < 0.5, scaled, torch.tensor(0, dtype=x.dtype))


def test_a_function_with_a_gradient_of_its_own() -> None:
    x = torch.linspace(-1, 1, 6).reshape(3, 2).requires_grad_()
    result, expected = compiled(Clamped.apply, fullgraph=True)(x), Clamped.apply(x)
    torch.testing.assert_close(result, expected)
    mine, theirs = (torch.autograd.grad(y.exp().sum(), x) for y in (result, expected))
    torch.testing.assert_close(mine, theirs)


def test_inputs_that_share_memory() -> None:
    run = compiled(lambda x, y: (x.mul_(2), y + 1)[1])
    for _ in range(2):
        x = torch.arange(6.0).reshape(2, 3)
        assert run(x, x.view(-1)).tolist() == [1, 3, 5, 7, 9, 11]
        assert x.tolist() == [[0, 2, 4], [6, 8, 10]]
    for first in (slice(None), slice(2)):  # also the base itself, which is not a leaf
        x = torch.ones(3, 2, requires_grad=True)
        base = x * 3
        assert run(base[first] if first.stop else base, base[1:]).sum().backward() is None
        assert base.tolist() == [[6, 6], [6, 6], [3, 3] if first.stop else [6, 6]]
        assert x.grad is not None
        assert x.grad.tolist() == [[0, 0], [6, 6], [3, 3] if first.stop else [6, 6]]
    rows = [row.requires_grad_() for row in torch.ones(2, 3)]  # views of a tensor without gradients
    total = compiled(lambda x, y: x * y)(*rows).sum()
    assert all(gradient.eq(1).all() for gradient in torch.autograd.grad(total, rows))


def views_of_results(x: Tensor) -> tuple[Tensor, ...]:
    y = x + 1
    return y, y.view(4, 8), y[3:7], y.view(8, 4).t()


def test_results_that_share_memory() -> None:
    results, expected = (f(torch.ones(32)) for f in (compiled(views_of_results), views_of_results))
    for tensors in (results, expected):
        tensors[0][2:9] = torch.arange(7.0)
    torch.testing.assert_close(results, expected)


def logits_and_loss(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    logits = x @ weight
    return logits, logits.logsumexp(-1).sum()


def test_a_backward_frees_results_that_it_saved() -> None:
    weight, run = torch.ones(5, 77, requires_grad=True), compiled(logits_and_loss)
    kept = []
    gc.disable()  # a collection would free them
    try:
        for _ in range(8):
            run(torch.ones(31, 5), weight)[1].backward()
            kept.append(sum(array.shape == (31, 77) for array in jax.live_arrays()))
    finally:
        gc.enable()
    assert min(kept) == 0, kept  # XLA's threads may hold them a little longer


@pytest.mark.parametrize(
    "x",
    [torch.ones(1, 3).t(), torch.ones(2, 1, 3).transpose(0, 1), torch.ones(0, 3), torch.ones(())],
    ids=str,
)
def test_strides_of_sizes_of_one(x: Tensor) -> None:
    leaf = x.clone().as_strided(x.shape, x.stride()).requires_grad_()
    result = compiled(lambda x: F.silu(x).unsqueeze(0))(leaf)
    torch.testing.assert_close(result, F.silu(x).unsqueeze(0))
    (gradient,) = torch.autograd.grad(result.sum(), leaf)
    assert gradient.shape == x.shape


class WithoutRule(torch.autograd.Function):
    """An operator whose gradient JAX does not have."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return torch.special.bessel_y0(gradient)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (WithoutRule.apply, "bessel_y0 has no rule"),
        (lambda x: F.embedding(torch.tensor([1]), x, sparse=True), "a sparse gradient"),
    ],
)
def test_a_backward_without_a_rule(call: Callable[[Tensor], Tensor], reason: str) -> None:
    x = torch.ones(3, 4, requires_grad=True)
    with pytest.warns(CompositesWarning, match=f"runs in eager PyTorch.*{reason}"):
        gradients = torch.autograd.grad(compiled(call)(x).sum(), x)
    torch.testing.assert_close(gradients, torch.autograd.grad(call(x).sum(), x))


@pytest.mark.skipif(not hasattr(nn, "LinearCrossEntropyOptions"), reason="PyTorch 2.14 has it")
@pytest.mark.parametrize("kind", ["mean", "sum", "none", "weights", "probabilities"])
def test_a_linear_layer_and_its_loss_in_chunks(kind: str, tmp_path: Path) -> None:
    """The graph does not run in eager PyTorch, and no tensor has all logits."""
    new: Any = torch.nn
    target = torch.arange(9).masked_fill(torch.arange(9) == 4, -100)
    keywords = {
        "options": new.LinearCrossEntropyOptions(batch_chunk_size=4, allow_retain_graph=True),
        "reduction": kind if kind in ("sum", "none") else "mean",
        "weight": torch.arange(50.0) if kind == "weights" else None,
    }
    if kind == "probabilities":
        target = torch.linspace(0, 9, 450).reshape(9, 50).sin().softmax(1)

    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return new.functional.linear_cross_entropy(x, weight, target, linear_bias=bias, **keywords)

    shapes = (9, 5), (50, 5), (50,)
    operands = [torch.linspace(-2, 2, math.prod(s)).reshape(s).requires_grad_() for s in shapes]
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompositesWarning)
        result = compiled(call, options={"save": tmp_path / "live"})(*operands)
        gradients = torch.autograd.grad(result.sum(), operands)
    torch.testing.assert_close(result, call(*operands))
    torch.testing.assert_close(gradients, torch.autograd.grad(call(*operands).sum(), operands))
    exported = composites.export(Calling(call), operands, frontend="fx")
    (values,) = exported.run(*(operand.detach() for operand in operands)).values()
    torch.testing.assert_close(torch.tensor(values), result.detach())
    forward = composites.Program.load(tmp_path / "live" / "000_forward").mlir
    assert ("tensor<9x50xf32>" in forward) == (kind == "probabilities")


def test_threads() -> None:
    compiled(F.gelu)(torch.ones(2))  # PyTorch's list of backends is loaded by one thread
    before = torch.is_autocast_enabled, torch.set_autocast_enabled
    models = [nn.Sequential(nn.Linear(4, n), nn.GELU()) for n in (5, 6, 7)]

    def step(model: nn.Sequential) -> Tensor:
        result = torch.compile(model, backend="composites")(torch.ones(2, 4)).sum()
        return torch.autograd.grad(result, next(model.parameters()))[0]

    with ThreadPoolExecutor() as pool:
        gradients = list(pool.map(step, models))
    assert before == (torch.is_autocast_enabled, torch.set_autocast_enabled)
    for model, gradient in zip(models, gradients, strict=True):
        result = model(torch.ones(2, 4)).sum()
        torch.testing.assert_close(gradient, *torch.autograd.grad(result, next(model.parameters())))


@pytest.mark.parametrize("dynamic", [None, *exhaustive(True)])
def test_sizes_that_change(dynamic: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo traces a size, then all sizes; XLA compiles each once."""
    model = made(Block)
    run = compiled(model, dynamic=dynamic)
    counters.clear()
    for number, length in enumerate((4, 7, 5, 9, 3, 7, 4)):
        if number == 5:  # no later size is new
            monkeypatch.delattr("jax.stages.Lowered.compile")
        tokens = TOKENS[:, :length].contiguous()
        parameters = list(model.parameters())
        result = torch.autograd.grad(run(tokens), parameters)
        torch.testing.assert_close(result, torch.autograd.grad(model(tokens), parameters))
    assert counters["stats"]["unique_graphs"] == (1 if dynamic else 2)


def test_writes_to_parts_of_inputs() -> None:
    """PyTorch writes the parts in place, of the values that the inputs had."""

    def rows(x: Tensor, y: Tensor, part: Tensor, index: Tensor) -> Tensor:
        y.index_copy_(0, index, x[1:3])
        before = y.sum()
        x.index_copy_(-1, index + 1, part)
        x.index_copy_(0, index, y[2:])
        return before * x.sum()

    def once(x: Tensor, y: Tensor, part: Tensor, index: Tensor) -> Tensor:
        first = y[:2]
        x.index_copy_(1, index, part)
        y.index_copy_(0, index, x[2:])
        return first + F.gelu(x[:2])

    def crossed(x: Tensor, y: Tensor, part: Tensor, index: Tensor) -> Tensor:
        head = x[:2]
        y.index_copy_(0, index, x[2:])
        x.index_copy_(1, index, part)
        return head * 2

    calls: Sequence[Callable[..., Tensor]] = (rows, once, crossed)
    for call in calls:
        inputs, expected = ([torch.arange(16.0).view(4, 4), -torch.eye(4)] for _ in range(2))
        rest = torch.ones(4, 2), torch.tensor([2, 0])
        with torch.no_grad():
            torch.testing.assert_close(compiled(call)(*inputs, *rest), call(*expected, *rest))
        torch.testing.assert_close(inputs, expected)


@pytest.mark.parametrize(("mask", "dtype"), [(None, F32), (torch.bool, F32), (BF16, BF16)])
def test_attention_reads_a_cache_where_it_lies(
    mask: torch.dtype | None, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row that is written may have held NaN."""

    def call(
        query: Tensor, rows: Tensor, keys: Tensor, values: Tensor, index: Tensor, mask: Any
    ) -> Tensor:
        keys.index_copy_(2, index, rows[0])
        values.index_copy_(2, index, rows[1])
        if mask is None:
            return F.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
        keys, values = (x[:, :, None].expand(-1, -1, 2, -1, -1) for x in (keys, values))
        repeated = keys.reshape(2, 4, 5, 8), values.reshape(2, 4, 5, 8)
        return F.scaled_dot_product_attention(query, *repeated, mask)

    texts: list[str] = []

    def change(module: Module) -> Module:
        changed = read_caches_as_they_are(module)
        texts.append(changed.text)
        return changed

    monkeypatch.setattr(executable, "read_caches_as_they_are", change)
    keys, values = torch.randn(2, 2, 2, 5, 8)
    values[0, :, 3] = torch.nan
    tensors = [torch.randn(2, 4, 1, 8), torch.randn(2, 2, 2, 1, 8), keys, values]
    inputs, copies = ([x.to(dtype, copy=True) for x in tensors] for _ in range(2))
    rows = torch.tensor([[1, 0, 1, 1, 0], [0] * 5])[:, None, None]
    rest: list[Any] = [torch.tensor([3]), None if mask is None else rows.to(mask)]
    with torch.no_grad(), composites.enabled("all"):
        result, expected = compiled(call)(*inputs, *rest), call(*copies, *rest)
    torch.testing.assert_close(result, expected, rtol=1e-2, atol=torch.finfo(dtype).eps)
    torch.testing.assert_close(inputs, copies)
    assert 'composite "ptxla.update_kv_cache"' not in texts[-1]


def test_sizes_that_are_marked() -> None:
    def call(x: Tensor, other: Tensor) -> tuple[Tensor, int]:
        other.add_(1)
        return F.gelu(x).reshape(-1, 2) @ other.t(), x.shape[0] * 3

    run = compiled(call)
    for size in (4, 3, 5, 4):
        inputs, copies = ([torch.ones(size, 2), torch.ones(size, 2)] for _ in range(2))
        for x in inputs:
            torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(run(*inputs), call(*copies))
        torch.testing.assert_close(inputs, copies)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_gradients(context: Callable[[], Any]) -> None:
    model = made(Block)
    with context():
        torch.testing.assert_close(compiled(model)(TOKENS), model(TOKENS))


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoders_in_inference(norm_first: bool) -> None:
    options: dict[str, Any] = {"batch_first": True, "norm_first": norm_first}
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", **options).eval()
    x, later, left_out = torch.randn(2, 5, 8), torch.ones(4, 5, 5), torch.ones(2, 5)
    masks = (later.triu(1).bool(), None), (None, left_out.triu(2).bool()), (None, None)
    with torch.no_grad():
        for mask in masks:
            result = compiled(layer, fullgraph=True)(x, *mask)
            torch.testing.assert_close(result, layer(x, *mask), rtol=1e-5, atol=1e-5)


def narrow_and_wide(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """Calls that autocast treats in other ways on the CPU than on CUDA, and the same."""
    narrow = F.linear(x, weight)
    return (
        narrow,
        torch.einsum("ij,kj->ik", x, weight),
        narrow.softmax(-1),
        narrow.exp(),
        narrow.sum(),
        narrow.prod(),
        F.layer_norm(narrow, (4,)),
        F.mse_loss(narrow, x),
        F.binary_cross_entropy(narrow.sigmoid(), narrow.detach().sigmoid()),
        torch.cat([narrow, x]),
        torch.stack([narrow, narrow]),
        torch.addcmul(x, narrow, narrow),
    )


@pytest.mark.parametrize("is_inside", [False, True])
def test_autocast_of_the_cpu_gives_the_dtypes_of_eager_pytorch(is_inside: bool) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(4, 4), torch.randn(4, 4)

    def call(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast("cpu", torch.bfloat16) if is_inside else nullcontext():
            return narrow_and_wide(x, weight)

    with nullcontext() if is_inside else torch.autocast("cpu", torch.bfloat16):
        results, expected = compiled(call)(x, weight), call(x, weight)
    assert expected[0].dtype == torch.bfloat16
    assert [t.dtype for t in results] == [t.dtype for t in expected]
    torch.testing.assert_close(results, expected, rtol=2e-2, atol=2e-2)
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints(use_reentrant: bool) -> None:
    def call(model: nn.Sequential, x: Tensor) -> Tensor:
        result: Tensor = checkpoint(model, x, use_reentrant=use_reentrant) if is_live else model(x)
        return result.square().sum()

    gradients = []
    for is_live in (False, True):
        torch.manual_seed(0)
        layers = nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.BatchNorm1d(8), nn.Tanh()
        model = nn.Sequential(*layers).double()  # gradients of norms of 3 rows amplify roundings
        x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
        (compiled(call) if is_live else call)(model, x).backward()
        gradients.append([x.grad, *(p.grad for p in model.parameters())])
    torch.testing.assert_close(gradients[1], gradients[0])


def test_entries_catch_resampling_before_it_is_decomposed() -> None:
    x = torch.linspace(-1, 1, 32).sin().reshape(1, 2, 4, 4).requires_grad_()
    for mode in ("nearest", "bilinear", "bicubic"):
        resized = partial(F.interpolate, scale_factor=2, mode=mode)
        with composites.enabled("all"):
            results = compiled(resized)(x), resized(x)
        gradients = [torch.autograd.grad(result.exp().sum(), x) for result in results]
        torch.testing.assert_close(*results)
        torch.testing.assert_close(*gradients)
        for name in (f"ptxla.upsample_{mode}2d", f"ptxla.upsample_{mode}2d_backward"):
            assert composites.stats().entries[name].calls


def test_dropout_is_drawn_from_the_seed_of_pytorch() -> None:
    run = compiled(lambda x: F.dropout(x, 0.5) + F.dropout(x, 0.5))
    x = torch.ones(64, 64, requires_grad=True)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(run(x))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert set(results[0].unique().tolist()) == {0.0, 2.0, 4.0}
    (gradient,) = torch.autograd.grad(results[0].sum(), x)
    assert torch.equal(gradient, results[0])  # the masks of the forward


def test_dropout_in_a_checkpoint() -> None:
    call = partial(checkpoint, lambda x: F.dropout(x, 0.5) * x, use_reentrant=False)
    x = torch.linspace(1, 2, 64).requires_grad_()
    result = compiled(call)(x)
    result.sum().backward()
    torch.testing.assert_close(x.grad, 4 * (result != 0) * x.detach())


SHARES: dict[str, Callable[[Tensor], Any]] = {
    "nothing": lambda weight: weight.clone(),
    "a view": lambda weight: weight.view(-1),
    "an array": lambda weight: weight.numpy(),
    "other processes": lambda weight: weight.share_memory_(),
}
"""Makes something that shares the memory of a weight before it is written."""


@pytest.mark.parametrize("name", SHARES)
def test_optimizers_write_memory_of_xla(name: str) -> None:
    """Tensors that share a weight's memory, from the start or later, have its values."""
    steps: list[tuple[Tensor, ...]] = []
    for backend in ("eager", "composites"):
        torch.manual_seed(0)
        model = nn.Linear(128, 128)
        rate = torch.tensor(0.1)
        optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9, foreach=False)
        run, step = (torch.compile(f, backend=backend) for f in (model, optimizer.step))
        before = SHARES[name](model.weight.detach())
        for _ in range(2):
            run(torch.ones(4, 128)).square().sum().backward()
            step()
        later = model.weight.detach().view(-1)
        run(torch.ones(4, 128)).square().sum().backward()
        step()
        weight, momentum = model.weight, optimizer.state[model.weight]["momentum_buffer"]
        assert owns_memory_of_xla(momentum) == (backend == "composites")
        assert owns_memory_of_xla(weight) == (backend == "composites" and name == "nothing")
        assert weight.data_ptr() == later.data_ptr()
        copy = weight.detach().clone()
        if name != "nothing":
            torch.testing.assert_close(torch.as_tensor(before).view(-1), copy.view(-1))
        reference = weakref.ref(weight)
        del model, optimizer, run, step, weight
        torch._dynamo.reset()
        gc.collect()
        assert reference() is None
        steps.append((copy, momentum, later))
    torch.testing.assert_close(steps[1], steps[0])


def test_threads_write_a_weight_that_later_moves_to_other_processes() -> None:
    weight = nn.Parameter(torch.ones(256, 256))
    weight.grad = torch.ones(256, 256)
    steps = [compiled(torch.optim.SGD([weight], lr=2**-10, foreach=False).step) for _ in range(2)]
    for step in steps:
        step()
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(step) for step in steps * 20]:
            done.result()
    assert weight.detach().share_memory_().eq(1 - 42 / 2**10).all()
    weight.data.zero_()
    steps[0]()
    assert weight.is_shared()
    assert weight.eq(-(2**-10)).all()


def test_an_interrupt_leaves_no_weight_without_memory(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's jobs
    request.addfinalizer(partial(signal.signal, signal.SIGINT, before))
    weight = nn.Parameter(torch.ones(128, 128))
    weight.grad = torch.ones(128, 128)
    step = compiled(torch.optim.SGD([weight], lr=0.25, foreach=False).step)
    take, interrupt = OwnedMemory.take, partial(signal.raise_signal, signal.SIGINT)
    monkeypatch.setattr(OwnedMemory, "take", lambda *values: (interrupt(), take(*values)))
    with pytest.raises(KeyboardInterrupt):
        step()
    assert owns_memory_of_xla(weight)
    assert weight.eq(0.75).all()


SCHEDULED: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
    "many tensors": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
}


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_learning_rate_that_changes(name: str) -> None:
    """The learning rate is a tensor of the second graph, which all further steps have."""

    def train(wrap: Callable[[Any], Any]) -> list[Tensor]:
        model = made(lambda: nn.Linear(4, 4))
        optimizer = SCHEDULED[name](model.parameters())
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        step = wrap(optimizer.step)
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).pow(2).sum().backward()
            step()
            schedule.step()
        return list(model.parameters())

    with composites.enabled("all"):
        expected = train(lambda step: step)
        counters.clear()
        torch.testing.assert_close(train(compiled), expected)
    assert counters["stats"]["unique_graphs"] == 2


def test_an_optimizer_as_a_function_is_one_graph() -> None:
    """The graph does not read the count of steps, whose powers are numbers in eager PyTorch."""
    options: dict[str, Any] = {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "eps": 1e-8}
    options |= dict.fromkeys(("foreach", "capturable", "amsgrad", "maximize"), False)
    update: Any = partial(adamw, **options, weight_decay=0.1)

    def step(tensors: list[Tensor], count: Tensor) -> None:
        update(*([tensor] for tensor in tensors), [], [count])

    count, tensors = torch.tensor(0.0), list(torch.linspace(0.1, 1, 16).view(4, 4))
    expected = [value.clone() for value in (*tensors, count)]
    run = compiled(step, fullgraph=True)
    with composites.enabled("adamw"), torch.no_grad():
        for _ in range(3):
            step(expected[:4], expected[4])
            run(tensors, count)
    torch.testing.assert_close([*tensors, count], expected)


NUMBERS: dict[str, Callable[[Tensor, float], Any]] = {
    "a type that is wider than the number's operand": lambda x, s: x.add(60000 * x.half(), alpha=s),
    "a sum of numbers in place": lambda x, s: operator.iadd(s, 1.0) * x + s,
    "a number as the other operand": lambda x, s: x.add(2.0, alpha=s),
    "tensors of two types": lambda x, s: torch._foreach_mul([x, x.double()], s * 0.1),
    "integers": lambda x, s: x.long() * s + x.addcmul(x, x, value=s),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_change_have_the_types_of_python(name: str) -> None:
    call, x = NUMBERS[name], torch.linspace(1, 2, 4)
    run = compiled(call)
    for s in (0.5, 1.25, 3.5, -0.1):
        torch.testing.assert_close(run(x, s), call(x, s))


def test_a_number_that_changes_and_is_read() -> None:
    def call(x: Tensor, slope: float) -> Tensor:
        return F.leaky_relu(x, slope) + slope

    run, x = compiled(call), torch.linspace(-1, 1, 5)
    for n in range(3):
        torch.testing.assert_close(run(x, n / 100), call(x, n / 100))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(3, 13):
            torch.testing.assert_close(run(x, n / 100), call(x, n / 100))
    assert any("a changing number" in str(warning.message) for warning in caught)


def test_operators_without_a_rule_and_those_that_need_values_run_in_eager_pytorch() -> None:
    calls: tuple[tuple[Callable[[Tensor], Tensor], Tensor, str], ...] = (
        (lambda x: torch.linalg.eig(x).eigenvalues.abs(), torch.eye(3) * 2, "linalg_eig"),
        (lambda x: torch.histogramdd(x, [3, 3]).hist, torch.rand(5, 2), ""),
        (lambda x: torch.histogram(x, 3).hist, torch.rand(5), "values of aten.histogram.bin_ct"),
        (lambda x: x.split(x.int().tolist())[1], torch.ones(2), "on data-dependent expression"),
        (lambda x: x.nonzero() * 2, torch.eye(3), "(nonzero|data-dependent)"),
    )
    captured = {f"capture_{kind}": True for kind in ("scalar_outputs", "dynamic_output_shape_ops")}
    for call, x, missing in calls:
        with (
            pytest.warns(CompositesWarning, match=f"runs in eager PyTorch.*{missing}"),
            torch._dynamo.config.patch(captured),
        ):
            torch.testing.assert_close(compiled(call, dynamic=missing[:1] == "(")(x), call(x))
    with pytest.raises(Exception, match="linalg_eig has no rule in JAX"):
        compiled(calls[0][0], fullgraph=True)(calls[0][1])
    x, add = torch.zeros(2), compiled(lambda x, y: (y.add_(2), x + 1)[1])
    with pytest.warns(CompositesWarning, match="input mutations on views with different dtypes"):
        assert add(x, x.view(torch.int32)).tolist() == [1, 1]
    assert x.view(torch.int32).tolist() == [2, 2]


def test_a_backward_of_compiled_autograd_runs_in_eager_pytorch() -> None:
    def step(x: Tensor) -> Tensor:
        logits = F.gelu(x)
        loss = logits.sum()
        loss.backward()
        return logits

    x = torch.linspace(-1, 1, 6).requires_grad_()
    with (
        torch._dynamo.config.patch(compiled_autograd=True),
        pytest.warns(CompositesWarning, match="as the backward of compiled autograd does"),
    ):
        compiled(step)(x)
    torch.testing.assert_close(x.grad, torch.autograd.grad(F.gelu(x).sum(), x)[0])


def test_graphs_are_saved(tmp_path: Path) -> None:
    folder, linear = tmp_path / "graphs", nn.Linear(4, 4)
    model = nn.Sequential(linear, nn.GELU())
    (tmp_path / "file").touch()
    x = torch.ones(2, 4)
    with composites.enabled("all"):
        compiled(model, options={"save": folder})(x).sum().backward()
        with torch.no_grad():
            result = compiled(model, options={"save": folder})(x)
        with pytest.raises(Exception, match="file cannot hold graphs"):
            compiled(model, options={"save": tmp_path / "file"})(x)
    names = [path.name for path in sorted(folder.iterdir())]
    assert names == ["000_forward", "001_backward", "002_inference"]
    forward, backward, inference = (composites.Program.load(folder / name) for name in names)
    assert forward.composites["ptxla.gelu"] == 1
    assert backward.composites["ptxla.gelu_backward"] == 1
    arrays = {4: linear.bias, 8: x, 16: linear.weight}
    (values,) = inference.run(
        *(arrays[math.prod(value.sizes)].detach().numpy() for value in inference.inputs)
    ).values()
    torch.testing.assert_close(torch.tensor(values), result)


def test_what_xla_compiled_is_kept(tmp_path: Path) -> None:
    def call(x: Tensor) -> Tensor:
        return F.gelu(x).tanh()

    for expected in (1, 0):
        before = set(tmp_path.iterdir())
        compiled(call, options={"cache": tmp_path})(torch.ones(3, 5))
        new = {path for path in set(tmp_path.iterdir()) - before if path.suffix != ".atime"}
        assert len([path for path in new if path.name.endswith("-cache")]) == expected


def test_decompositions_are_chosen_before_a_graph_is_compiled() -> None:
    x, y = torch.linspace(-1, 1, 65536).reshape(64, 1024).requires_grad_(), torch.arange(64)
    with composites.enabled("all", decompositions="small"):
        run = compiled(lambda x, y: F.cross_entropy(x, y))
        (gradient,) = torch.autograd.grad(run(x, y), x)
    torch.testing.assert_close(gradient, torch.autograd.grad(F.cross_entropy(x, y), x)[0])
    assert "rows" in composites.stats().entries["ptxla.cross_entropy_loss"].decompositions


def test_mistakes() -> None:
    for options, message in (
        ({"kernel": "auto"}, "has no option 'kernel'; it has: kernels, platform, save, cache"),
        ({"cache": 3}, "compiled programs cannot be kept in 3"),
        ({"kernels": 3}, "kernels must be 'auto', None, names"),
        ({"kernels": ["ptxla.geluu"]}, "there is no composite 'ptxla.geluu'; did you mean"),
        ({"platform": "tpu9"}, "no platform 'tpu9'"),
        ({"mesh": {"a": 512}}, "needs 512 devices of the platform cpu"),
        ({"shardings": {"x": ("a",)}}, "shardings need a mesh"),
        ({"mesh": {"a": 1}, "platform": "cpu"}, "mesh and platform cannot both be given"),
        (3, "options must be a mapping"),
    ):
        with pytest.raises(Exception, match=message):
            compiled(F.gelu, options=options)(torch.ones(2))
    unnamed = {"mesh": {"a": 1}, "shardings": {"x": ("a",)}}
    with pytest.warns(CompositesWarning, match="no input has the name 'x'; the inputs are arg:"):
        compiled(F.gelu, options=unnamed)(torch.ones(2))
    with pytest.raises(Exception, match="has no mode 'max-autotune'"):
        compiled(F.gelu, mode="max-autotune")(torch.ones(2))


def test_kernels_are_checked_on_the_data_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of the forward and of the backward, which are two graphs, are checked."""

    def too_large(x: Any, *, approximate: str) -> Any:
        return jax.nn.gelu(x, approximate=False) * 1.01

    def right(gradient: Any, x: Any, *, approximate: str) -> Any:
        return jax.vjp(lambda x: jax.nn.gelu(x, approximate=False), x)[1](gradient)[0]

    monkeypatch.setenv("XLA_COMPOSITE_CHECK_EVERY", "2")
    before = composites.stats().checks.rows
    kernels = {"ptxla.gelu": too_large, "ptxla.gelu_backward@1": right}
    run = compiled(F.gelu, options={"kernels": kernels})
    x = torch.linspace(-2, 2, 9, requires_grad=True)
    warned = pytest.warns(CompositesWarning, match="too_large is wrong; ptxla.gelu, call 1 .* 0.01")
    with composites.enabled("gelu"), warned:
        run(x).sum().backward()
    for _ in range(2):
        run(x).sum().backward()
    first, second = (row for row in composites.stats().checks.rows if row not in before)
    assert (first.kernel, first.calls, first.wrong) == ("too_large", 2, 2)
    assert (second.kernel, second.calls, second.wrong) == ("right", 2, 0)
    monkeypatch.setattr(checks, "listed_tolerances", lambda: {("ptxla.gelu", 1): {"f32": 0.1}})
    with composites.enabled("gelu"):
        compiled(F.gelu, options={"kernels": kernels})(x.detach())
    (more,) = [row for row in composites.stats().checks.rows if row.kernel == "too_large"]
    assert (more.calls, more.wrong, more.tolerance) == (3, 2, 0.1)
    monkeypatch.setenv("XLA_COMPOSITE_CHECK_EVERY", "often")
    with pytest.raises(Exception, match="CHECK_EVERY=often: it must be a number of calls"):
        compiled(F.gelu)(torch.ones(2))


def test_a_backward_that_runs_twice(tmp_path: Path) -> None:
    """Hooks may save what a forward keeps to files."""

    def save(tensor: Tensor) -> Path:
        torch.save(tensor, path := tmp_path / str(len(list(tmp_path.iterdir()))))
        return path

    x = torch.linspace(-1, 1, 6, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(save, torch.load):
        y = compiled(lambda x: (x.exp().tanh() * x).sum())(x)
    y.backward(retain_graph=True)
    y.backward()
    expected = torch.autograd.grad((x.exp().tanh() * x).sum(), x)[0]
    torch.testing.assert_close(x.grad, 2 * expected)
    assert list(tmp_path.iterdir())


def test_the_memory_of_an_input_with_a_view_by_strides() -> None:
    run, x = compiled(lambda x: x.as_strided((2,), (1,), 4) + 0), torch.arange(12.0)
    with pytest.warns(composites.errors.CompositesWarning, match="runs in eager PyTorch"):
        assert compiled(lambda x: x.as_strided((2,), (1,), 4))(x[6:]).tolist() == [4, 5]
    torch.testing.assert_close(run(x[2:10]), x[4:6])
    with pytest.raises(Exception, match="compiled for the storage offset 2"):
        run(x[:8])


def test_a_double_backward_is_refused_as_pytorch_does() -> None:
    x = torch.ones(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(compiled(F.gelu)(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


PAGE = Path(__file__).parents[2] / "docs" / "live.md"
AFTER_EXPORT = """
import torch
torch.export.default_decompositions()
torch.compile(torch.nn.Upsample(None, 2), backend="composites")(torch.ones(1, 1, 2, 2))
"""


@pytest.mark.process
def test_the_page_after_a_graph_that_resamples(tmp_path: Path) -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    done = run(sys.executable, "-c", "\n".join((AFTER_EXPORT, *snippets)), cwd=tmp_path)
    assert done.code == 0, done.stderr


NAMED = ", backend='composites', options={'kernels': {'ptxla.gelu': larger}}"


@pytest.mark.process
@pytest.mark.parametrize(
    ("named", "printed"),
    [
        pytest.param("", "no graph of .* has a kernel to check", marks=pytest.mark.exhaustive),
        (NAMED, r"│ larger │ wrong (?s:.*)the checks took \d+\.\d s"),
    ],
)
def test_a_script_whose_kernels_are_checked(named: str, printed: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import jax, torch\n"
        "def larger(x, *, approximate): return jax.nn.gelu(x, approximate=False) * 1.01\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())\n"
        f"model = torch.compile(model{named})\n"
        "model(torch.ones(2, 4)).sum().backward()\n"
    )
    command = (sys.executable, "-m", "composites", "run", "--compile", "--check-every", "9")
    done = run(*command, str(script), XLA_COMPOSITE_OP="gelu").succeeded()
    assert re.search(printed, done.stdout), done.stdout
    assert "ptxla.gelu " in done.stdout
    assert "ptxla.gelu_backward " in done.stdout


def test_tensors_that_hold_others_are_what_they_hold() -> None:
    """Frozen weights pass on the gradient of what they are applied to."""
    model = scale_weights(made(lambda: nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 2))))
    x = torch.linspace(-2, 2, 12).reshape(3, 4).sin().requires_grad_()
    expected = model(x)
    result = compiled(model, fullgraph=True)(x)
    torch.testing.assert_close(result, expected)
    eager, actual = (torch.autograd.grad(y.square().sum(), x)[0] for y in (expected, result))
    torch.testing.assert_close(actual, eager)
