"""Functions, and arguments of operators, that PyTorch's database lacks: PyTorch's numbers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  (it defines an operator)
from composites_testing.modules import Calling, CallingWithWeight
from torch.nn import functional as F
from torchvision.ops import deform_conv2d, roi_align

import composites
from composites.element_types import NAME_OF_PYTORCH

SAMPLES = torch.tensor([[[0.7, 0.2, 0.9]]])
PLACES = torch.tensor([[0, 0, 2, 1, 5, 5]])


def trained(x: torch.Tensor, make: Callable[[], torch.nn.Module]) -> torch.Tensor:
    torch.manual_seed(0)
    result = make().to(x.device)(x.reshape(4, 1, 6))
    return result[0] if isinstance(result, tuple) else result


def lists(x: torch.Tensor) -> torch.Tensor:
    added = torch._foreach_addcmul([x, x], [x, x * 3], [x, x], value=0.5)
    return torch.stack(torch._foreach_norm([x, x * 2])) + sum(t.sum() for t in added)


def experts(x: torch.Tensor) -> torch.Tensor:
    """Products of groups of rows, of which one is empty, by a matrix for each."""
    ends = torch.tensor([1, 1, 4], dtype=torch.int32)
    matrices = torch.stack([x.reshape(6, 4)] * 3) * torch.arange(3.0)[:, None, None]
    rows = torch.ops.transformers.grouped_mm_fallback(x, matrices, ends)
    exact = torch.arange(64.0).reshape(8, 8).bfloat16()
    grouped = torch.ops.aten._grouped_mm(exact, exact.T, ends)  # sums of groups
    return rows.sum(0) + torch.ops.aten._grouped_mm(exact[:4], grouped, ends).float().sum()


def observers(x: torch.Tensor, rows: int, is_symmetric: bool) -> torch.Tensor:
    """Fake quantization by moving averages, and the observer's state after two calls."""
    on, zero = x.new_ones(1, dtype=torch.int64), x.new_zeros(rows, dtype=torch.int32)
    low, high, scale = (x.new_full((rows,), bound) for bound in (-torch.inf, torch.inf, 1.0))
    for number in (x, x.detach() * 3, x * 2):
        state = (low, high, scale, zero, 0.3, -8, 7, 0, rows > 1, is_symmetric)
        x = x + torch.fused_moving_avg_obs_fake_quant(number, on, on, *state)
    symmetric = torch.ops.quantized_decomposed.choose_qparams_symmetric.tensor
    chosen = symmetric(x.detach(), -8, 7, 1e-5, torch.int8 if is_symmetric else torch.uint8)
    return torch.cat([x.flatten(), low, high, scale, zero, *chosen])


def pooled_regions(x: torch.Tensor, ratio: int) -> torch.Tensor:
    """Regions that leave the image, and the samples of a deformable convolution in two groups."""
    regions = torch.tensor([[0, -1.0, 0.5, 3.2, 2.5], [1, 1.0, 1.0, 9.0, 2.0]])
    flat, image = x.flatten(), x.reshape(2, 2, 2, 3)
    offset = torch.cat([flat * 2, flat[:8]]).reshape(2, 8, 1, 2)
    weight, mask = flat[:8].reshape(2, 1, 2, 2), flat[8:].reshape(2, 4, 1, 2)
    deformed = deform_conv2d(image, offset, weight, flat[:2], mask=mask if ratio > 0 else None)
    return deformed + roi_align(image, regions, (1, 2), 0.9, ratio, aligned=ratio > 0)


@pytest.mark.parametrize(
    "function",
    [
        *[partial(pooled_regions, ratio=ratio) for ratio in (-1, 2)],
        lists,
        experts,
        *[partial(observers, rows=n, is_symmetric=b) for n in (1, 4) for b in (False, True)],
        *[partial(trained, make=partial(kind, 6, 3)) for kind in (torch.nn.LSTM, torch.nn.GRU)],
        lambda x: F.conv_transpose1d(x.view(1, 4, 6), x.view(4, 2, 3), None, 2, 1, groups=2),
        lambda x: x + F.max_pool2d(x.view(1, 1, 4, 6)[:0], 2).sum(),
        lambda x: F.fractional_max_pool2d(
            x.view(1, 1, 4, 6), 2, (2, 3), None, False, SAMPLES[..., 1:]
        ),
        lambda x: F.fractional_max_pool3d(x.view(1, 2, 3, 4), 1, (1, 2, 3), None, False, SAMPLES),
        lambda x: x + F.adaptive_max_pool2d(x.view(1, 1, 4, 6)[:0], 2).sum(),
        lambda x: F.grid_sample(x.view(1, 1, 4, 6), x.view(1, 4, 3, 2).tanh(), align_corners=True),
        lambda x: sum(
            F.grid_sample(x.view(1, 1, 2, 3, 4), x.view(1, 2, 2, 2, 3) * 1.3, "bilinear", *options)
            for options in (("zeros", False), ("border", True), ("reflection", False))
        ),
        lambda x: torch.conv_tbc(x.view(4, 2, 3), x.view(2, 3, 4) / 9, x.flatten()[:4], 1),
        lambda x: torch.special.erfcx(x / 2) + (x.detach() * 999).to(torch.float8_e4m3fn).float(),
        lambda x: F.interpolate(x.view(1, 1, 4, 6), (3, 8), mode="bicubic", antialias=True),
        lambda x: F.interpolate(x.detach()[None, None], None, 1.1, "bilinear", antialias=True) + x,
        lambda x: F.adaptive_avg_pool2d((x * 2).view(1, 2, 3, 4).permute(0, 3, 1, 2), 1),
        lambda x: torch.distributions.StudentT(x.abs() + 1).log_prob(x),
        lambda x: (torch._check_tensor_all(x == x), x * 2)[1],
        lambda x: torch.segment_reduce(x[1:], "prod", lengths=PLACES[0, 2:4]),
        lambda x: x * torch.hamming_window(6, device=x.device) + torch.fft.rfftfreq(10),
        *[lambda x, m=m: F.embedding_bag(PLACES.view(3, 2), x.mT, mode=m) for m in ("mean", "max")],
        lambda x: F.embedding_bag(PLACES, x.mT, None, None, 2, True, "sum", False, x[:1], False, 5),
    ],
)
def test_results_and_gradients_are_those_of_pytorch(function: Callable[..., Any]) -> None:
    """See test_opinfo.py for operators of PyTorch's database."""
    module = CallingWithWeight(function)
    program = composites.export(module, (), train=True, ops=[], frontend="fx")
    results = program.run({"param:weight": module.weight.detach()})
    loss = module()
    loss.backward()
    for key, expected in (("loss", loss.detach()), ("grad:weight", module.weight.grad)):
        actual = torch.from_numpy(results[key].copy())
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def booleans(x: torch.Tensor, reduce: str) -> torch.Tensor:
    added = (x > 1).scatter_add(1, PLACES, x > 0).index_add(1, PLACES[0], x < 0)
    added = added.put(PLACES, x[0] > 1, accumulate=True)
    return added.scatter_reduce(1, PLACES, x > 0, reduce, include_self=False)


def moments(x: torch.Tensor) -> torch.Tensor:
    near = (torch.cat([x[0] * 0 + 100, x[0] * 0 + 100.5])).bfloat16()
    variance, mean = torch.var_mean(near)
    return torch.stack([variance, mean, near.std(), near.var(correction=0)]).float()


CONVOLUTION: Any = torch.ops.aten._convolution


def masks(x: torch.Tensor) -> torch.Tensor:
    rows, elements = x[:, 0] > 0, x > 0.5
    single, columns = torch.full((1,), 3.0), torch.arange(6.0)
    results = [
        torch.index_put(x, (rows,), single),
        torch.index_put(x, (rows,), columns),
        torch.index_put(x, (rows,), columns[None], accumulate=True),
        torch.index_put(x, (elements,), single),
        torch.index_put(x, (elements,), single[0]),
        torch.index_put(x, (elements,), single[:, None, None]),
        torch.index_put(x, (elements,), torch.arange(8.0), accumulate=True),
        torch.index_put(x, (rows, PLACES[0, :1]), single, accumulate=True),
        torch.index_put(x, (rows, PLACES[0, 2:4]), columns[:2]),
        torch.ops.aten._index_put_impl(x[None], [rows[2:3], None, PLACES[0, :1]], single)[0],
    ]
    for values in (3.0, x[:, :1] * 2, x[:, :3] * 2):
        results.append(x.clone())
        results[-1][:, x[1] > 0] = values
    return torch.stack(results)


@pytest.mark.parametrize(
    "function",
    [
        *[lambda x, to=to: x.view(to) for to in (torch.int16, torch.uint8, torch.int64)],
        *[lambda x, to=to: (x > 0).view(to) for to in (torch.uint8, torch.int16)],
        lambda x: ~(x > 0).to(torch.uint8).view(torch.bool) * x[0, 0].view(torch.int32),
        lambda x: torch.view_as_real(x.view(torch.complex64)),
        lambda x: x.to(torch.complex64).view(torch.float32),
        lambda x: torch.stack([torch.any(x > 0, dim=()), torch.all(x > 0, dim=())]),
        lambda x: torch.stack([(i := x > 0).any((0, 1)), i._is_all_true(), (x < 9)._is_all_true()]),
        lambda x: torch.stack([3 % x, torch.xlogy(2, x.abs()), torch.angle(x * 0 * -1)]),
        lambda x: (h := F.one_hot(x.argmax(1), 6).half()).multinomial(2, True) + h.multinomial(1),
        lambda x: (b := x.bfloat16()).index_add(0, x.argmin(1)[[0] * 999] * 0, b[[0] * 999]),
        lambda x: (x * 300).half().repeat_interleave(PLACES[0], 1, output_size=13) ** -2,
        lambda x: torch.sign(x > 0) ^ torch.sgn(x > 1),
        lambda x: (x * 9).int() << torch.arange(6, device=x.device),
        lambda x: (x * 900).int() >> torch.arange(6, device=x.device).mul(9),
        lambda x: torch._int_mm((x * 300).to(torch.uint8) >> 2, x.mT.to(torch.int8)),
        lambda x: torch.bitwise_right_shift(torch.bitwise_left_shift(i := x.int(), 3), i.abs()),
        lambda x: x.bfloat16() ** 5 + x.int() ** x.sort(1)[1].sub(3).int(),
        lambda x: torch.view_as_real(x.to(torch.complex64) ** (0.5 + 1j)),
        lambda x: torch.view_as_real(torch.logaddexp(x * 3j + 1, x * (1 - 5j))),
        lambda x: (i := x[:, :4].int()).addbmm(i[None] * 3, i[None] * 5, beta=2, alpha=3),
        lambda x: torch.cat([torch.sign(x * torch.nan), torch.sgn(x * torch.nan)]),
        lambda x: torch.stack([x * torch.inf * (x > 0), (x > 0) * (x * torch.nan)]).isnan(),
        lambda x: (x * 1j).conj().imag + x.add(1j).conj().resolve_conj().real,
        lambda x: x.scatter(1, PLACES, x, reduce="add").scatter(1, PLACES, 3, reduce="multiply"),
        lambda x: F.rrelu(x, 0.2, 0.4) + F.rrelu(x, 0.3, 0.3, True) + x[:0].split(0)[0].sum(),
        lambda x: CONVOLUTION(x[None], x[None], None, *[[1]] * 3, False, [0], 1, *[True] * 4),
        lambda x: torch.special.erfcx((x * 3).exp()),
        lambda x: torch.cat([torch.special.zeta(x * 0 + 3, y) for y in (x * 9, x.round())]),
        lambda x: torch.special.zeta(x.round(), x.mT.reshape(4, 6).round()).nan_to_num(7),
        torch.special.modified_bessel_i0,
        lambda x: (1 - (x > 0).half()) * -1e9 + (x / 10).half() * 1e5,
        lambda x: torch.round(x.half() * 3000, decimals=1) / (1e-6 + x.half() * 0),
        lambda x: x[:, :4].half().addmm(y := x[:, :4].half() / 3, y, beta=1e5, alpha=-1e6),
        lambda x: (ones := (x[:1, :1] * 0 + 1).bfloat16().expand(999, 9)).sum() + ones.cumsum(0),
        lambda x: torch.exp2((x - 9).bfloat16()),
        lambda x: torch.digamma(x * 0),
        lambda x: torch.copysign(x, -2.5) + x.to(torch.int8).clamp(-300, 300),
        lambda x: torch.bucketize(x[0, 0], x.flatten().sort()[0]),
        lambda x: torch.searchsorted(torch.arange(6, device=x.device), 2.5) + x.long(),
        lambda x: torch.fake_quantize_per_tensor_affine(x * torch.nan, 0.1, 3, 0, 9),
        *[partial(booleans, reduce=reduce) for reduce in ("sum", "prod", "amax", "amin")],
        lambda x: x.index_reduce(1, PLACES[0], x * 2, "prod", include_self=False),
        moments,
        masks,
    ],
)
def test_unusual_arguments(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(4, 6, generator=torch.manual_seed(1)) * 3
    program = composites.export(Calling(function), (x,), ops=[], frontend="fx")
    (actual,) = program.run(x, *[0] * (len(program.inputs) - 1)).values()  # a seed
    expected = function(x)
    name = str(expected.dtype).removeprefix("torch.")
    assert program.outputs[0].dtype == NAME_OF_PYTORCH[name]
    assert actual.shape == tuple(expected.shape)
    torch.testing.assert_close(
        torch.from_numpy(actual.astype("float64")), expected.double(), rtol=4e-3, atol=1e-6
    )


def test_what_has_no_form_in_jax() -> None:
    call = Calling(lambda x: torch.view_as_complex(x).abs())
    with pytest.raises(composites.ExportError, match=r"type torch\.complex32"):
        composites.export(call, (torch.ones(3, 2).half(),), ops=[], frontend="fx")


def test_gradients_are_clipped() -> None:
    def clipped(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        parameters = [torch.nn.Parameter(x.clone()), torch.nn.Parameter(y.clone())]
        for parameter, grad in zip(parameters, (x, y), strict=True):
            parameter.grad = grad.clone()
        total = torch.nn.utils.clip_grad_norm_(parameters, 0.5, foreach=True)
        return [total, *(p.grad for p in parameters if p.grad is not None)]

    x, y = torch.randn(3), torch.randn(2, 2)
    program = composites.export(Calling(clipped), (x, y), ops=[], frontend="fx")
    results = list(program.run(x, y).values())
    for actual, expected in zip(results, clipped(x, y), strict=True):
        torch.testing.assert_close(torch.from_numpy(actual.copy()), expected)


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_the_gradient_of_a_scalars_softmax_is_stocks(function: Any) -> None:
    module = CallingWithWeight(lambda weight: function(weight[0, 0], -1) + 1)
    program = composites.export(module, (), train=True, decompositions="fast")
    assert not program.run({"param:weight": module.weight.detach()})["grad:weight"].any()
