"""The alternatives of the built-in registry for gathers, pooling and resampling."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from composites_testing.decompositions import decompositions_since
from composites_testing.selection import variants
from torch import Tensor

import composites

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    composites.disable()
    yield
    composites.disable()


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def indices(count: int) -> Tensor:
    """Half of them twice, some dropped, some counted from the end."""
    found = torch.randint(0, 4000, (count,), generator=torch.Generator().manual_seed(0))
    found[: count // 2] = found[count // 2 :][: count // 2]
    found[::9] = 7
    return found


def resampled(size: tuple[int, int], mode: str, **options: Any) -> Callable[[Tensor], Tensor]:
    if mode != "nearest":
        options.setdefault("align_corners", False)
    return lambda x: F.interpolate(x, size=size, mode=mode, **options)


def pooled(*arguments: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: F.max_pool2d(x, *arguments)


def sampled(padding_mode: str, align_corners: bool) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, grid: F.grid_sample(
        x, grid, padding_mode=padding_mode, align_corners=align_corners
    )


def embedding_backward(padding: int) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda grad, rows: aten.embedding_dense_backward(grad, rows, 4096, padding, False)


GRID = torch.rand(2, 4, 5, 2, generator=torch.Generator().manual_seed(1)) * 5 - 2.5
LARGE = (2, 4, 96, 100)  # as many elements as the backward of max pooling wants

CALLS: list[tuple[str, str, Callable[..., Tensor], tuple[Tensor, ...]]] = [
    ("upsample_nearest2d", "repeated", resampled((8, 15), "nearest"), (image(2, 3, 4, 5),)),
    ("upsample_bilinear2d", "by_axis", resampled((8, 15), "bilinear"), (image(2, 3, 4, 5),)),
    ("upsample_bilinear2d", "by_axis", resampled((3, 7), "bilinear"), (image(2, 3, 4, 5),)),
    ("upsample_bilinear2d", "by_axis", resampled((5, 303), "bilinear"), (image(1, 2, 3, 300),)),
    (
        "upsample_bilinear2d",
        "by_axis",
        resampled((7, 10), "bilinear", align_corners=True),
        (image(2, 3, 4, 5),),
    ),
    # By 2 and 4: where XLA optimizes, stock's forward is wrong for a factor of 3.
    (
        "upsample_bilinear2d_backward",
        "phases",
        resampled((8, 20), "bilinear"),
        (image(2, 3, 4, 5),),
    ),
    (
        "upsample_bilinear2d_backward",
        "phases",
        resampled((4, 600), "bilinear"),
        (image(1, 2, 1, 300),),
    ),
    ("upsample_bicubic2d", "by_axis", resampled((9, 8), "bicubic"), (image(2, 3, 4, 5),)),
    ("grid_sampler_2d", "corners", sampled("zeros", False), (image(2, 3, 6, 4), GRID)),
    ("grid_sampler_2d", "corners", sampled("border", True), (image(2, 3, 6, 4), GRID)),
    ("grid_sampler_2d", "corners", sampled("reflection", False), (image(2, 3, 6, 4), GRID)),
    ("grid_sampler_2d", "corners", sampled("reflection", True), (image(2, 3, 6, 1), GRID)),
    ("max_pool2d", "phases, backward", pooled(2), (image(*LARGE),)),
    ("max_pool2d", "phases, backward", pooled(2, 2, 1), (image(2, 4, 97, 101),)),
    ("max_pool2d", "phases, backward", pooled(3, 2, 1), (image(*LARGE),)),
    ("max_pool2d", "phases, backward", pooled(3, 1), (image(*LARGE),)),
    ("max_pool2d", "phases, backward", pooled((1, 3), (3, 2)), (image(8, 97, 101),)),
    ("embedding_dense_backward", "gathered", embedding_backward(7), (image(90, 256), indices(90))),
    ("embedding_dense_backward", "gathered", embedding_backward(-1), (image(90, 256), indices(90))),
]


def run(
    function: Callable[..., Tensor], operands: tuple[Tensor, ...], to: Tensor, *, backward: bool
) -> list[Tensor]:
    """The result of operands on the device and in the element type of `to`, and perhaps the
    gradient of the first operand."""
    leaves = [x.to(to) if x.is_floating_point() else x.to(to.device) for x in operands]
    leaves[0].requires_grad_(backward)
    result = function(*leaves)
    if not backward:
        return [result]
    return [result.detach(), *torch.autograd.grad(result.sin().sum(), leaves[:1])]


def has_backward(entry: str) -> bool:
    """Whether the call of the entry in these tests is a gradient's."""
    return entry == "max_pool2d" or (entry.startswith("upsample") and entry.endswith("backward"))


@variants(("entry", "alternative", "function", "operands"), CALLS, fast=3)
def test_numbers(
    entry: str,
    alternative: str,
    function: Callable[..., Tensor],
    operands: tuple[Tensor, ...],
) -> None:
    before = composites.stats().entries
    device = torch.ones(1, device="xla")
    backward = has_backward(entry)
    with composites.enabled(entry, decompositions="fast"):
        ours = run(function, operands, device, backward=backward)
    assert alternative in decompositions_since(before, f"ptxla.{entry}")
    exact = run(function, operands, torch.ones(1).double(), backward=backward)
    for mine, right in zip(ours, exact, strict=True):
        torch.testing.assert_close(mine.cpu().double(), right, rtol=5e-6, atol=5e-6)


@variants("arguments", [(2,), (3, 2, 1), (2, 2, 1), (3, 1, 1)])
def test_of_equal_elements_the_one_of_stock_has_the_gradient(arguments: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    values = torch.tensor([-torch.inf, 0.0, -0.0, 1.0, torch.inf, torch.nan])
    x = values[torch.randint(0, 6, (2, 4, 96, 100))]
    x[0, 0, :9, :9] = -torch.inf  # as large as what stands around the image
    gradients = []
    for choice in ("stock", "phases"):
        with composites.enabled("max_pool2d", decompositions=choice):
            leaf = x.to("xla").requires_grad_()
            result = pooled(*arguments)(leaf)
            numbers = torch.arange(result.numel()).remainder(97).reshape(result.shape)
            (gradient,) = torch.autograd.grad(result, [leaf], [numbers.float().to("xla")])
            gradients.append(gradient.cpu())
    assert gradients[0].any()
    assert torch.equal(*gradients)


@pytest.mark.parametrize(
    ("entry", "alternative", "function", "operands", "absent"),
    [
        ("max_pool2d", "phases", pooled(3, 2, 1), (image(*LARGE),), "select_and_scatter"),
        (
            "embedding_dense_backward",
            "gathered",
            embedding_backward(-1),
            (image(90, 256), indices(90)),
            "scatter",
        ),
        (
            "upsample_bilinear2d",
            "by_axis",
            resampled((8, 15), "bilinear"),
            (image(2, 3, 4, 5),),
            "gather",
        ),
    ],
)
def test_what_is_slow_is_gone(
    entry: str,
    alternative: str,
    function: Callable[..., Tensor],
    operands: tuple[Tensor, ...],
    absent: str,
) -> None:
    texts = {}
    for choice in ("stock", alternative):
        with composites.enabled(entry, decompositions=choice):
            device = torch.ones(1, device="xla")
            found = run(function, operands, device, backward=has_backward(entry))
            texts[choice] = xm.get_stablehlo(found)
    operation = re.compile(rf'"stablehlo\.{absent}"')
    assert operation.search(texts["stock"])
    assert not operation.search(texts[alternative])


@variants("dtype", [torch.float32, torch.bfloat16])
@variants("largest", [True, False])
def test_top_k_has_the_bits_of_stock(dtype: torch.dtype, largest: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(260, 40).to(dtype)
    x[::2, ::5] = torch.nan
    x[1::2, 3:30] = -0.0
    x[1::4, 7] = 0.0
    x[5, :] = -torch.inf
    found = []
    for choice in ("stock", "maxima"):
        with composites.enabled("topk", decompositions=choice):
            values, places = torch.topk(x.to("xla"), 6, largest=largest)
            found.append(values.cpu())
    places = places.cpu()
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    assert torch.equal(found[0].view(bits), found[1].view(bits))
    torch.testing.assert_close(x.gather(1, places), found[1], rtol=0, atol=0, equal_nan=True)
    assert all(len(set(row)) == 6 for row in places.tolist())  # also of equal elements
    assert places.dtype == torch.int64


@pytest.mark.parametrize(
    ("entry", "function", "operands"),
    [
        ("max_pool2d", pooled(3, 2, 0, 1, True), (image(*LARGE),)),  # ceil_mode
        ("max_pool2d", pooled(5), (image(*LARGE),)),
        ("max_pool2d", pooled(2), (image(1, 1, 8, 8),)),
        ("upsample_nearest2d", resampled((7, 5), "nearest"), (image(2, 3, 4, 5),)),
        (
            "upsample_bilinear2d",
            lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"),
            (image(2, 3, 4, 5),),
        ),
        ("upsample_bilinear2d_backward", resampled((7, 5), "bilinear"), (image(2, 3, 4, 5),)),
        ("upsample_bicubic2d", resampled((2, 3), "bicubic"), (image(2, 3, 4, 5),)),
        (
            "grid_sampler_2d",
            lambda x, grid: F.grid_sample(x, grid, mode="nearest", align_corners=False),
            (image(2, 3, 6, 4), GRID),
        ),
        ("topk", lambda x: torch.topk(x, 9)[0], (image(300, 30),)),
        ("topk", lambda x: torch.topk(x, 2)[0], (image(2, 100),)),
        ("topk", lambda x: torch.topk(x, 2, 0)[0], (image(300, 100),)),
        ("embedding_dense_backward", embedding_backward(-1), (image(2000, 256), indices(2000))),
    ],
)
def test_what_is_left_to_stock(
    entry: str, function: Callable[..., Tensor], operands: tuple[Tensor, ...]
) -> None:
    before = composites.stats().entries
    with composites.enabled(entry, decompositions="fast"):
        device = torch.ones(1, device="xla")
        run(function, operands, device, backward=has_backward(entry))
    taken = decompositions_since(before, f"ptxla.{entry}")
    assert taken
    assert set(taken) <= {"stock", "stock, backward"}


def test_pixels_of_an_image_that_has_more_than_f32_can_count() -> None:
    side = 5001
    picture = image(1, 1, side, side)
    grid = torch.linspace(-0.99, 0.99, 64).reshape(1, 8, 8, 1).expand(1, 8, 8, 2)
    expected = F.grid_sample(picture, grid, align_corners=True)
    with composites.enabled("grid_sampler_2d", decompositions="corners"):
        found = F.grid_sample(picture.to("xla"), grid.to("xla"), align_corners=True)
        assert composites.stats().entries["ptxla.grid_sampler_2d"].calls
        # Positions of f32 are away from the true ones by a thousandth of a pixel here.
        torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=5e-3)
