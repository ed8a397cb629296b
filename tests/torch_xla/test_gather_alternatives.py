"""The alternatives for gathers, pooling and resampling: what is gone, and equal elements."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from composites_testing.selection import variants
from torch import Tensor

import composites


@variants("arguments", [(2,), (3, 2, 1), (2, 2, 1), (3, 1, 1)])
def test_of_equal_elements_the_one_of_stock_has_the_gradient(arguments: Any) -> None:
    torch.manual_seed(0)
    values = torch.tensor([-torch.inf, 0.0, -0.0, 1.0, torch.inf, torch.nan])
    x = values[torch.randint(0, 6, (2, 4, 96, 100))]
    x[0, 0, :9, :9] = -torch.inf  # as large as what stands around the image
    gradients = []
    for choice in ("stock", "phases"):
        with composites.enabled("max_pool2d", decompositions=choice):
            leaf = x.to("xla").requires_grad_()
            result = F.max_pool2d(leaf, *arguments)
            numbers = torch.arange(result.numel()).remainder(97).reshape(result.shape)
            (gradient,) = torch.autograd.grad(result, [leaf], [numbers.float().to("xla")])
            gradients.append(gradient.cpu())
    assert gradients[0].any()
    assert torch.equal(*gradients)


def gradient_of_pooling() -> Tensor:
    # As many elements as the alternative wants.
    leaf = torch.ones(2, 4, 96, 100, device="xla", requires_grad=True)
    return torch.autograd.grad(F.max_pool2d(leaf, 3, 2, 1).sum(), leaf)[0]


def gradient_of_embedding() -> Tensor:
    leaf = torch.ones(4096, 256, device="xla", requires_grad=True)
    rows = torch.arange(90, device="xla")
    return torch.autograd.grad(F.embedding(rows, leaf).sum(), leaf)[0]


def resampled() -> Tensor:
    image = torch.ones(2, 3, 4, 5, device="xla")
    return F.interpolate(image, size=(8, 15), mode="bilinear", align_corners=False)


@pytest.mark.parametrize(
    ("entry", "call", "operation"),
    [
        ("max_pool2d", gradient_of_pooling, "select_and_scatter"),
        ("embedding_dense_backward", gradient_of_embedding, "scatter"),
        ("upsample_bilinear2d", resampled, "gather"),
    ],
)
def test_what_is_slow_is_gone(entry: str, call: Callable[[], Tensor], operation: str) -> None:
    counts = {}
    for choice in ("stock", "fast"):
        with composites.enabled(entry, decompositions=choice):
            counts[choice] = xm.get_stablehlo([call()]).count(f'"stablehlo.{operation}"')
    assert counts["stock"] > counts["fast"] == 0


@variants("dtype", [torch.float32, torch.bfloat16])
@variants("largest", [True, False])
def test_top_k_has_the_bits_of_stock(dtype: torch.dtype, largest: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(260, 40).to(dtype)
    x[::2, ::5] = torch.nan
    x[1::2, 3:30] = -0.0
    x[1::4, 7] = 0.0
    x[5, :] = -torch.inf
    results = []
    for choice in ("stock", "maxima"):
        with composites.enabled("topk", decompositions=choice):
            values, indices = torch.topk(x.to("xla"), 6, largest=largest)
            results.append(values.cpu())
    indices = indices.cpu()
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    assert torch.equal(results[0].view(bits), results[1].view(bits))
    torch.testing.assert_close(x.gather(1, indices), results[1], rtol=0, atol=0, equal_nan=True)
    assert all(len(set(row)) == 6 for row in indices.tolist())  # also of equal elements
    assert indices.dtype == torch.int64


def test_pixels_of_an_image_that_has_more_than_f32_can_count() -> None:
    side = 5001
    picture = torch.randn(1, 1, side, side, generator=torch.Generator().manual_seed(0))
    grid = torch.linspace(-0.99, 0.99, 64).reshape(1, 8, 8, 1).expand(1, 8, 8, 2)
    expected = F.grid_sample(picture, grid, align_corners=True)
    with composites.enabled("grid_sampler_2d", decompositions="corners"):
        actual = F.grid_sample(picture.to("xla"), grid.to("xla"), align_corners=True)
        assert composites.stats().entries["ptxla.grid_sampler_2d"].calls
        # Positions of f32 are away from the true ones by a thousandth of a pixel here.
        torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=5e-3)
