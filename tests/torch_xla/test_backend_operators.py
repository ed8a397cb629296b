"""Composites with a decomposition of ours, where stock torch_xla leaves the graph for the CPU.

Their results and gradients are those of PyTorch on the CPU, and nothing leaves the graph. These are
calls that PyTorch's database does not have; test_sample_fidelity.py has its samples.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
from composites_testing import tensors
from composites_testing.selection import variants
from torch.utils._pytree import tree_leaves, tree_map

import composites


def resample(mode: str, x: torch.Tensor, **keywords: Any) -> torch.Tensor:
    return F.interpolate(x, mode=mode, **keywords)


values = partial(tensors.values, device="cpu")
IMAGE = values(2, 3, 5, 7)
SIZES: dict[str, dict[str, Any]] = {
    "up and down": {"size": (9, 4)},
    "twice": {"size": (10, 14)},
    "same": {"size": (5, 7)},
    "from one": {"size": (1, 1)},
    "factor": {"scale_factor": 1.7},
    "factors": {"scale_factor": (2.3, 0.6)},
    "factor that keeps the size": {"scale_factor": 1.1},
    "factor that doubles the size": {"scale_factor": (2.1, 2.05)},
    "factor, recomputed": {"scale_factor": 1.7, "recompute_scale_factor": True},
}


def aligned(mode: str, align: bool) -> dict[str, Any]:
    return {} if mode == "nearest" else {"align_corners": align}


RESAMPLINGS = {
    f"{mode}, {name}{', aligned' if align else ''}": partial(
        resample, mode, **size, **aligned(mode, align)
    )
    for mode in ("nearest", "bilinear", "bicubic")
    for name, size in SIZES.items()
    for align in ((False,) if mode == "nearest" else (False, True))
}
SAMPLINGS = {
    f"{mode}, {padding}{', aligned' if align else ''}": partial(
        F.grid_sample, mode=mode, padding_mode=padding, align_corners=align
    )
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for align in (False, True)
}


def on(device: str, tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor):
        return tensor
    return tensor.detach().clone().to(device).requires_grad_(tensor.requires_grad)


Call = partial[torch.Tensor]
"""A function with its arguments; tensors on the CPU, moved where it runs."""


def run(device: str, call: Call) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """A result, and the gradients of what requires one."""
    args, kwargs = tree_map(partial(on, device), (call.args, call.keywords))
    inputs = [t for t in tree_leaves((args, kwargs)) if getattr(t, "requires_grad", False)]
    result = call.func(*args, **kwargs)
    direction = values(*result.shape, seed=9).to(device)
    return result.detach(), list(torch.autograd.grad(result, inputs, direction))


def fallbacks() -> Counter[str]:
    names = [name for name in met.counter_names() if name.startswith("aten::")]
    return Counter({name: met.counter_value(name) for name in names})


def same_as_cpu(calls: Mapping[str, Call], *, forward: bool = True) -> None:
    """Check that the XLA device computes what the CPU does, and that nothing leaves the graph.

    Args:
        calls: by name; all become one graph.
        forward: whether to compare the results too, and not only the gradients.
    """
    before = fallbacks()
    actual = {name: run("xla", call) for name, call in calls.items()}
    torch_xla.sync()
    assert fallbacks() == before
    for name, (result, gradients) in actual.items():
        right, expected = run("cpu", calls[name])
        pairs = [(result, right)] if forward else []
        for mine, theirs in [*pairs, *zip(gradients, expected, strict=True)]:
            close(mine.cpu(), theirs, name)


def close(actual: torch.Tensor, expected: torch.Tensor, name: str) -> None:
    """The absolute tolerance is a part of the largest element: the gradient of a grid is a sum of
    large terms that cancel."""
    finite = expected.nan_to_num(0, 0, 0).abs()
    scale = finite.max().item() or 1 if finite.numel() else 1
    torch.testing.assert_close(
        actual / scale, expected / scale, equal_nan=True, msg=lambda text: f"{name}: {text}"
    )


@pytest.fixture(autouse=True)
def _on() -> Iterator[None]:
    torch_xla.device()  # PyTorch counts devices at the first backward, and never again
    with composites.enabled("all"):
        yield


@variants("mode", ["bilinear", "nearest", "bicubic"])
def test_resampling_by_sizes_and_factors(mode: str) -> None:
    images = [values(*shape).requires_grad_() for shape in ((2, 3, 5, 7), (1, 2, 1, 3))]
    calls = {
        f"{name} of {tuple(image.shape)}": partial(resample, image)
        for name, resample in RESAMPLINGS.items()
        if name.startswith(mode)
        for image in images
    }
    # The stock forwards of nearest and bilinear are not the CPU's; see the README.
    same_as_cpu(calls, forward=mode == "bicubic")


def test_an_infinite_gradient_of_nearest_stays_where_it_is() -> None:
    for size in ((10, 14), (5, 21)):
        image = IMAGE.to("xla").requires_grad_()
        direction = torch.ones(2, 3, *size)
        direction[1, 2, 3, 4] = torch.inf
        (gradient,) = torch.autograd.grad(
            resample("nearest", image, size=size), image, direction.to("xla")
        )
        assert torch.isfinite(gradient).sum() == IMAGE.numel() - 1


def grids() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """An image and a grid each: points inside and far outside; and pixel centres, edges and points
    half-way between, exactly."""
    steps = torch.arange(-10, 11) / 8
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1)[None].contiguous()
    return {
        "anywhere": (IMAGE.clone(), 3 * values(2, 6, 4, 2, seed=1)),
        "on corners, edges and halves": (values(1, 2, 4, 8), grid),
    }


@variants("mode", ["bilinear", "nearest", "bicubic"])
def test_sampling(mode: str) -> None:
    calls = {
        f"{name} {where}": partial(sample, image.requires_grad_(), grid.requires_grad_())
        for where, (image, grid) in grids().items()
        for name, sample in SAMPLINGS.items()
        if name.startswith(mode)
    }
    same_as_cpu(calls)


@pytest.mark.parametrize(("image", "grid"), [(True, False), (False, True)])
def test_sampling_with_one_gradient(image: bool, grid: bool) -> None:
    inputs = IMAGE.clone().requires_grad_(image), values(2, 6, 4, 2, seed=1).requires_grad_(grid)
    call = partial(SAMPLINGS["bilinear, zeros"], *inputs)
    same_as_cpu({"sampling": call})
    _, gradients = run("xla", call)
    mask = f"dense<[{str(image).lower()}, {str(grid).lower()}]> : tensor<2xi1>"
    assert f"output_mask = {mask}" in xm.get_stablehlo(gradients)


def test_an_image_whose_border_is_infinite() -> None:
    image = torch.full((1, 1, 4, 4), torch.inf)
    image[..., 1:3, 1:3] = 1
    image.requires_grad_()
    grid = (values(1, 5, 5, 2) * 1.5).requires_grad_()
    calls = {
        "resampling": partial(resample, "bicubic", image, size=(8, 8)),
        "sampling": partial(SAMPLINGS["bilinear, zeros"], image, grid),
    }
    same_as_cpu(calls)


def test_nothing_to_compute() -> None:
    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(shape, requires_grad=True)

    calls = {
        "no images": partial(resample, "bicubic", empty(0, 3, 4, 4), size=(7, 5)),
        "no channels": partial(SAMPLINGS["bicubic, border"], empty(2, 0, 4, 4), empty(2, 3, 5, 2)),
        "no points": partial(SAMPLINGS["bilinear, zeros"], empty(2, 3, 4, 4), empty(2, 0, 5, 2)),
        "no columns": partial(F.glu, empty(0, 4), dim=1),
        "no losses": partial(huber, "mean", empty(0, 3), empty(0, 3)),
    }
    for name, call in calls.items():
        (result, gradients), (right, expected) = run("xla", call), run("cpu", call)
        assert result.shape == right.shape, name
        assert [g.shape for g in gradients] == [g.shape for g in expected], name


def huber(reduction: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.huber_loss(x, y, reduction=reduction, delta=0.75)


MIXED = {
    "huber_loss": (partial(huber, "mean"), (3, 4), (3, 4)),
    "huber_loss, unreduced": (partial(huber, "none"), (3, 4), (3, 4)),
    "grid_sample": (SAMPLINGS["bilinear, zeros"], (1, 2, 3, 3), (1, 4, 4, 2)),
}


def test_mixed_dtypes_do_what_they_do_on_the_cpu() -> None:
    f32, bf16, f16, f64 = torch.float32, torch.bfloat16, torch.float16, torch.float64
    pairs = ((f32, bf16), (bf16, f32), (f16, bf16), (f32, f64))
    for (function, *shapes), dtypes in product(MIXED.values(), pairs):
        operands = [
            values(*s, seed=i, dtype=d) for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True))
        ]
        for attempt in (function, partial(run_backward, function)):
            cpu, xla = [outcome(attempt, *(t.to(d) for t in operands)) for d in ("cpu", "xla")]
            assert type(xla) is type(cpu), (function, dtypes)
            if isinstance(cpu, torch.Tensor) and isinstance(xla, torch.Tensor):
                torch.testing.assert_close(xla.cpu(), cpu)
            else:
                assert xla == cpu


def run_backward(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    first, *rest = [t.requires_grad_() for t in inputs]
    return torch.autograd.grad(function(first, *rest).sum(), first)[0]


def outcome(function: Callable[..., torch.Tensor], *operands: torch.Tensor) -> torch.Tensor | str:
    """The result of a call, or its error."""
    try:
        return function(*operands)
    except RuntimeError as error:
        return str(error).partition("\n")[0]
