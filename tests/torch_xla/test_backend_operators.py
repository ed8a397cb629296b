"""Composites with a decomposition of ours, where stock torch_xla leaves the graph for the CPU.

Their results and gradients are those of PyTorch on the CPU, within the tolerance that
torch.testing has for the dtype, and nothing leaves the graph. For f16 and bf16 the CPU computes in
f32: its own kernels for these round coordinates and weights in between, and we do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
from composites_testing import tensors
from composites_testing.selection import exhaustive, variants
from torch.utils._pytree import tree_leaves, tree_map

import composites
from composites.registry.builtin import builtin_registry_path
from composites.registry.validation import load_registry

if TYPE_CHECKING:
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

# As torch.testing.assert_close has them.
TOLERANCES: dict[torch.dtype, dict[str, Any]] = {
    torch.float32: {"rtol": 1.3e-6, "atol": 1e-5},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-5},
    torch.float16: {"rtol": 1e-3, "atol": 1e-5},
    torch.float64: {"rtol": 1e-7, "atol": 1e-7},
}
FLOATS = tuple(TOLERANCES)
OURS = ("composites.operators.", "jax:composites.operators.resampling:")


@dataclass(frozen=True, slots=True)
class Reaches:
    """Samples of an operator of PyTorch's OpInfo database, and the composites they become."""

    name: str
    forward: tuple[str, ...]
    backward: tuple[str, ...]
    variant: str = ""
    takes: Callable[[SampleInput], bool] = lambda sample: True
    forward_is_ours: bool = True
    """Whether the forward has a decomposition of ours, and not the stock lowering."""


def is_image(sample: SampleInput) -> bool:
    return bool(sample.input.dim() == 4)


def resampling(mode: str, *, forward_is_ours: bool) -> Reaches:
    return Reaches(
        "nn.functional.interpolate",
        (f"upsample_{mode}2d",),
        (f"upsample_{mode}2d_backward",),
        variant=mode,
        takes=is_image,
        forward_is_ours=forward_is_ours,
    )


GRID = (("grid_sampler_2d",), ("grid_sampler_2d_backward",))
OPERATORS = (
    resampling("nearest", forward_is_ours=False),
    resampling("bilinear", forward_is_ours=False),
    resampling("bicubic", forward_is_ours=True),
    Reaches("nn.functional.grid_sample", *GRID, takes=is_image),
    Reaches("grid_sampler_2d", *GRID),
    Reaches("nn.functional.glu", ("glu",), ("glu_backward",), forward_is_ours=False),
    Reaches("nn.functional.huber_loss", ("huber_loss",), ("huber_loss_backward",)),
)


def entry_of(operator: Reaches) -> OpInfo:
    from torch.testing._internal.common_methods_invocations import op_db

    names = operator.name, operator.variant
    return next(info for info in op_db if (info.name, info.variant_test_name) == names)


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


def widened(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float16, torch.bfloat16):
        return value
    return value.detach().float().requires_grad_(value.requires_grad)


@dataclass(frozen=True, slots=True)
class Pass:
    """A forward and a backward pass on one device."""

    result: torch.Tensor
    gradients: tuple[torch.Tensor | None, ...]


Call = partial[torch.Tensor]
"""A function with its arguments; tensors on the CPU, moved where it runs."""


def run(device: str, call: Call) -> Pass:
    given, named = tree_map(partial(on, device), (call.args, call.keywords))
    inputs = [t for t in tree_leaves((given, named)) if getattr(t, "requires_grad", False)]
    result = call.func(*given, **named)
    direction = values(*result.shape, seed=9, dtype=torch.bfloat16)  # exact in every dtype
    gradients = torch.autograd.grad(
        result, inputs, direction.to(device, result.dtype), allow_unused=True
    )
    return Pass(result, gradients)


def fallbacks() -> Counter[str]:
    names = [name for name in met.counter_names() if name.startswith("aten::")]
    return Counter({name: met.counter_value(name) for name in names})


def same_as_cpu(calls: Mapping[str, Call], *, forward: bool = True) -> None:
    """What the XLA device gives is what the CPU gives, and nothing leaves the graph.

    Args:
        calls: by name; all become one graph.
        forward: whether to compare the results too, and not only the gradients.
    """
    before = fallbacks()
    found = {name: run("xla", call) for name, call in calls.items()}
    torch_xla.sync()
    assert fallbacks() == before
    for name, xla in found.items():
        call = calls[name]
        given, named = tree_map(widened, (call.args, call.keywords))
        cpu = run("cpu", partial(call.func, *given, **named))
        if forward:
            close(xla.result, cpu.result, name)
        for actual, expected in zip(xla.gradients, cpu.gradients, strict=True):
            assert (actual is None) == (expected is None)
            if actual is not None and expected is not None:
                close(actual, expected, name)


def close(actual: torch.Tensor, expected: torch.Tensor, name: str) -> None:
    """Within the dtype's tolerance, the absolute one as a part of the largest element: the
    gradient of a grid is a sum of large terms that cancel."""
    actual, expected = actual.detach().cpu(), expected.detach()
    finite = expected.nan_to_num(0, 0, 0).abs()
    scale = finite.max().item() or 1 if finite.numel() else 1
    torch.testing.assert_close(
        actual.double() / scale,
        expected.to(actual.dtype).double() / scale,
        equal_nan=True,
        msg=lambda message: f"{name}: {message}",
        **TOLERANCES[actual.dtype],
    )


@pytest.fixture(autouse=True)
def _on() -> Iterator[None]:
    torch_xla.device()  # PyTorch counts devices at the first backward, and never again
    with composites.enabled("all"):
        yield


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        pytest.param(torch.bfloat16, marks=pytest.mark.slow),
        *exhaustive(torch.float16, torch.float64),
    ],
    ids=str,
)
@variants(
    "operator",
    OPERATORS,
    fast=[o for o in OPERATORS if o.variant != "bicubic" and "grid" not in o.name],
    ids=lambda operator: f"{operator.name} {operator.variant}",
)
def test_samples_of_the_database_give_what_the_cpu_gives(
    operator: Reaches, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    info = entry_of(operator)
    made = info.sample_inputs_func(info, "cpu", dtype, True)
    calls = {
        f"sample {i}: {s.summary()}": partial(info.op, s.input, *s.args, **s.kwargs)
        for i, s in enumerate(made)
        if operator.takes(s)
    }
    assert calls
    same_as_cpu(calls, forward=operator.forward_is_ours)


def test_forward_and_backward_are_one_composite_each(
    written_composites: Callable[[str], Counter[str]],
) -> None:
    for operator in OPERATORS:
        info = entry_of(operator)
        made = info.sample_inputs_func(info, "cpu", torch.float32, True)
        sample = next(sample for sample in made if operator.takes(sample) and sample.input.numel())
        xla = run("xla", partial(info.op, sample.input, *sample.args, **sample.kwargs))
        forward = written_composites(xm.get_stablehlo([xla.result]))
        assert forward == {f"ptxla.{name}": 1 for name in operator.forward}
        # The gradients of both operands of a loss are two calls of its backward.
        gradients = [gradient for gradient in xla.gradients if gradient is not None]
        both = written_composites(xm.get_stablehlo(gradients))
        calls = len(gradients) if operator.name.endswith("huber_loss") else 1
        assert {name: both[f"ptxla.{name}"] for name in operator.backward} == dict.fromkeys(
            operator.backward, calls
        )
        assert set(both) <= {f"ptxla.{name}" for name in (*operator.forward, *operator.backward)}


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
    given = IMAGE.clone().requires_grad_(image), values(2, 6, 4, 2, seed=1).requires_grad_(grid)
    call = partial(SAMPLINGS["bilinear, zeros"], *given)
    same_as_cpu({"sampling": call})
    gradients = [gradient for gradient in run("xla", call).gradients if gradient is not None]
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
        xla, cpu = run("xla", call), run("cpu", call)
        assert xla.result.shape == cpu.result.shape, name
        assert [g.shape for g in xla.gradients if g is not None] == [
            g.shape for g in cpu.gradients if g is not None
        ], name


def huber(reduction: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.huber_loss(x, y, reduction=reduction, delta=0.75)


MIXED = {
    "huber_loss": (partial(huber, "mean"), (3, 4), (3, 4)),
    "huber_loss, unreduced": (partial(huber, "none"), (3, 4), (3, 4)),
    "grid_sample": (SAMPLINGS["bilinear, zeros"], (1, 2, 3, 3), (1, 4, 4, 2)),
}


def test_mixed_dtypes_do_what_they_do_on_the_cpu() -> None:
    pairs = (FLOATS[:2], FLOATS[1::-1], FLOATS[2:0:-1], FLOATS[::3])
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


def run_backward(function: Callable[..., torch.Tensor], *given: torch.Tensor) -> torch.Tensor:
    first, *others = [t.requires_grad_() for t in given]
    return torch.autograd.grad(function(first, *others).sum(), first)[0]


def outcome(function: Callable[..., torch.Tensor], *given: torch.Tensor) -> torch.Tensor | str:
    """What it gives, or says."""
    try:
        return function(*given)
    except RuntimeError as error:
        return str(error).partition("\n")[0]


STOCK_LEAVES_THE_GRAPH: dict[str, tuple[Any, ...]] = {
    "upsample_nearest2d_backward": (RESAMPLINGS["nearest, twice"], IMAGE),
    "upsample_bilinear2d_backward": (RESAMPLINGS["bilinear, twice"], IMAGE),
    "upsample_bicubic2d": (RESAMPLINGS["bicubic, twice"], IMAGE),
    "upsample_bicubic2d_backward": (RESAMPLINGS["bicubic, twice"], IMAGE),
    "grid_sampler_2d": (SAMPLINGS["bilinear, zeros"], IMAGE, values(2, 4, 4, 2)),
    "grid_sampler_2d_backward": (SAMPLINGS["bilinear, zeros"], IMAGE, values(2, 4, 4, 2)),
    "glu_backward": (partial(F.glu, dim=2), values(2, 3, 4)),
    "huber_loss": (partial(huber, "sum"), values(3, 4), values(3, 4, seed=1)),
    "huber_loss_backward": (partial(huber, "sum"), values(3, 4), values(3, 4, seed=1)),
}


def test_stock_leaves_the_graph() -> None:
    composites.disable("all")
    for name, (function, *operands) in STOCK_LEAVES_THE_GRAPH.items():
        before = fallbacks()
        run("xla", partial(function, *(t.clone().requires_grad_() for t in operands)))
        moved = fallbacks() - before
        assert {f"aten::{name}", f"aten::{name}.out"} & set(moved), name


def test_every_decomposition_of_ours_is_tested() -> None:
    ours = {
        entry.name
        for entry in load_registry(builtin_registry_path(), builtin=True).composites
        if str(entry.decomposition).startswith(OURS)
        and entry.op is not None
        and not entry.derives  # those above the backend: test_products and others
    }
    assert ours == set(STOCK_LEAVES_THE_GRAPH)
    assert ours <= {name for o in OPERATORS for name in (*o.forward, *o.backward)}
