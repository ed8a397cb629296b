"""Calls of operators at sizes of real models, and updates of optimizers, for all benchmarks.

A `Case` is exported as the module that `build` makes of it. Live on a device, `placed` has its
operands there, and `traced` runs it as a trainer does: forward, forward and backward, or the
gradients alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Mode = Literal["forward", "forward + backward", "gradient", "update"]
"""The ways to run a case. "gradient" alone is what a step needs whose loss nobody reads."""
FORWARD: Mode = "forward"
BOTH: Mode = "forward + backward"
GRADIENT: Mode = "gradient"
UPDATE: Mode = "update"

Place = Callable[[Tensor], Tensor]
"""Puts a tensor of the CPU on a device."""
F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
DTYPES = {"f32": F32, "bf16": BF16, "f16": F16}
NAMES = {F32: "", BF16: ", bf16", F16: ", f16"}
"""The suffix of a case's name that says its dtype."""


class Called(nn.Module):
    """An operator on parameters, weighted and summed, so that a step has its gradient too."""

    def __init__(self, function: Callable[..., Tensor], operands: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.function = function
        self.operands = nn.ParameterList(operands.values())

    def forward(self, *constants: Tensor) -> Tensor:
        result = self.function(*self.operands, *constants[1:])
        return (result.float() * constants[0]).sum()


@dataclass(frozen=True, slots=True)
class Case:
    """A call at one size."""

    name: str
    function: Callable[..., Tensor]
    """Takes the operands with gradients, then the constants."""
    operands: Callable[[], Mapping[str, Tensor]]
    constants: Callable[[], Sequence[Tensor]] = tuple
    bars: Mapping[str, float] = field(default_factory=dict)
    """The factor by which a kernel is to be faster than stock's decomposition, by composite,
    without its namespace."""

    def build(self) -> tuple[Called, tuple[Tensor, ...]]:
        """The module, and the batch that it is called with; the same in each run."""
        torch.manual_seed(0)
        operands, constants = self.operands(), tuple(self.constants())
        with torch.no_grad():
            shape = self.function(*operands.values(), *constants).shape
        return Called(self.function, operands), (torch.randn(shape), *constants)

    def placed(self, place: Place) -> PlacedCase:
        """The call on a device."""
        operands = [place(tensor).requires_grad_() for tensor in self.operands().values()]
        return PlacedCase(self.function, operands, [place(tensor) for tensor in self.constants()])


@dataclass(slots=True)
class PlacedCase:
    """A call on a device."""

    function: Callable[..., Tensor]
    operands: Sequence[Tensor]
    constants: Sequence[Tensor]
    seed: Tensor | None = None
    """The gradient of the result. It is data: XLA would fold a constant."""

    def traced(self, mode: Mode) -> Sequence[Tensor]:
        """Run it once. On the device, this records what `torch_xla.sync` computes while the
        results are held."""
        with torch.set_grad_enabled(mode != FORWARD):
            result = self.function(*self.operands, *self.constants)
        if mode == FORWARD:
            return [result]
        if self.seed is None and result.dim():  # a loss starts its backward without a gradient
            self.seed = torch.randn(result.shape).to(result.device, result.dtype)
        gradients = torch.autograd.grad(result, self.operands, self.seed, allow_unused=True)
        held = [] if mode == GRADIENT else [result.detach()]
        return [*held, *(gradient for gradient in gradients if gradient is not None)]


@dataclass(frozen=True, slots=True)
class Update:
    """The step of an optimizer, whose parameters have gradients."""

    make: Callable[[list[nn.Parameter]], torch.optim.Optimizer]
    shapes: tuple[tuple[int, ...], ...]

    def placed(self, place: Place) -> PlacedUpdate:
        """The optimizer of parameters on a device."""
        parameters = [nn.Parameter(place(torch.randn(shape) * 0.02)) for shape in self.shapes]
        for parameter in parameters:
            parameter.grad = place(torch.randn(parameter.shape) * 0.001)
        return PlacedUpdate(self.make(parameters))


@dataclass(frozen=True, slots=True)
class PlacedUpdate:
    """An optimizer. What its step computes is held by the parameters and by itself."""

    optimizer: torch.optim.Optimizer

    def traced(self, mode: Mode) -> Sequence[Tensor]:
        assert mode == UPDATE
        self.optimizer.step()
        return ()


# ---- operators ----


def called(
    name: str,
    function: Callable[..., Tensor],
    *shapes: tuple[int, ...],
    dtype: torch.dtype = F32,
    constants: Callable[[], Sequence[Tensor]] = tuple,
) -> Case:
    """A call on operands of normal numbers. The name has the shape of the first one."""

    def operands() -> Mapping[str, Tensor]:
        return {f"x{index}": torch.randn(shape).to(dtype) for index, shape in enumerate(shapes)}

    text = "x".join(map(str, shapes[0]))
    return Case(f"{name} {text}{NAMES[dtype]}", function, operands, constants)


def attention(
    length: int,
    *,
    batch: int = 2,
    dtype: torch.dtype = F32,
    mask: str = "causal",
    dropout: float = 0.0,
) -> Case:
    """Two sequences, six heads of 64 numbers."""

    def masks() -> Sequence[Tensor]:
        if mask != "boolean":
            return ()
        return (torch.ones(1, 1, length, length, dtype=torch.bool).tril(),)

    def call(q: Tensor, k: Tensor, v: Tensor, *masks: Tensor) -> Tensor:
        attended = functional.scaled_dot_product_attention
        attn_mask = masks[0] if masks else None
        return attended(q, k, v, attn_mask, dropout, is_causal=mask == "causal")

    kind = {"causal": ", causal", "boolean": ", boolean mask", "none": ""}[mask]
    kind += ", dropout" if dropout else ""
    shape = batch, 6, length, 64
    case = called("attention", call, *[shape] * 3, dtype=dtype, constants=masks)

    base = case.name.removesuffix(NAMES[dtype])
    return replace(case, name=base + kind + NAMES[dtype])


def cross_entropy(rows: int, classes: int, dtype: torch.dtype = F32) -> Case:
    return called(
        "cross entropy",
        functional.cross_entropy,
        (rows, classes),
        dtype=dtype,
        constants=lambda: (torch.randint(classes, (rows,)),),
    )


def looked_up(module: str, name: str) -> Callable[..., Any]:
    """A function that is looked up at each call, because turning its entry on replaces it."""
    owner = import_module(f"composites.operators.{module}")
    return lambda *arguments: getattr(owner, name)(*arguments)


def linear_cross_entropy(rows: int, columns: int, classes: int) -> Case:
    case = called(
        "linear layer and cross entropy",
        looked_up("linear_cross_entropy", "linear_cross_entropy_loss"),
        (rows, columns),
        (classes, columns),
        constants=lambda: (torch.randint(classes, (rows,)),),
    )
    return replace(case, name=f"{case.name} to {classes}")


def images(name: str, function: Callable[..., Tensor], *shape: int) -> Case:
    """An operator on images, `[N, C, H, W]`, or on one tensor of another rank."""
    return called(name, function, shape)


def resampling(mode: str) -> Callable[[Tensor], Tensor]:
    """Return a function that resamples to twice the height and width."""
    return partial(functional.interpolate, scale_factor=2.0, mode=mode)


max_pool = partial(functional.max_pool2d, kernel_size=3, stride=2, padding=1)


def conv(
    *shape: int,
    channels: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    dtype: torch.dtype = F32,
) -> Case:
    """A convolution of `[N, C, …]` into `channels`, with bias and padding."""
    convolve = {3: functional.conv1d, 4: functional.conv2d, 5: functional.conv3d}[len(shape)]
    rank = len(shape) - 2
    weight = (channels, shape[1] // groups, *[kernel] * rank)
    padding = 0 if stride == kernel else kernel // 2

    def operands() -> Mapping[str, Tensor]:
        made = {"x": torch.randn(shape), "w": torch.randn(weight), "b": torch.randn(channels)}
        return {name: tensor.to(dtype) for name, tensor in made.items()}

    kind = "x".join(map(str, shape)) + f" to {channels}, kernel {kernel}"
    kind += f", stride {stride}" if stride > 1 else ""
    kind += f", {groups} groups" if groups > 1 else ""
    kind += NAMES[dtype]
    return Case(
        f"convolution {kind}",
        partial(convolve, stride=stride, padding=padding, groups=groups),
        operands,
    )


def group_norm(*shape: int) -> Case:
    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.group_norm(x, 8, weight, bias)

    return called("group norm", call, shape, shape[1:2], shape[1:2])


def instance_norm(*shape: int) -> Case:
    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.instance_norm(x, weight=weight, bias=bias)

    return called("instance norm", call, shape, shape[1:2], shape[1:2])


def batch_norm(*shape: int) -> Case:
    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        mean, variance = torch.zeros_like(weight), torch.ones_like(weight)
        return functional.batch_norm(x, mean, variance, weight, bias, training=True)

    return called("batch norm", call, shape, shape[1:2], shape[1:2])


def layer_norm(rows: int, columns: int) -> Case:
    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, (columns,), weight, bias)

    return called("layer norm", call, (rows, columns), (columns,), (columns,))


def rms_norm(rows: int, columns: int, dtype: torch.dtype = F32) -> Case:
    def call(x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, [columns], weight)

    return called("rms norm", call, (rows, columns), (columns,), dtype=dtype)


def norm_of_transformers(path: str, *arguments: Any, operands: int = 1) -> Case:
    """A module, such as `llama:LlamaRMSNorm`, on 1024 rows of 768 numbers."""
    file, name = path.split(":")

    def call(*tensors: Tensor) -> Tensor:
        made = getattr(import_module(f"transformers.models.{file}.modeling_{file}"), name)
        module: nn.Module = made(*arguments).to(tensors[0].device)
        names = [name for name, _ in module.named_parameters()]
        weights = dict(zip(names, tensors[operands:], strict=True))
        result: Tensor = torch.func.functional_call(module, weights, tensors[:operands])
        return result

    weights = [(768,)] if arguments else []
    return called(name, call, *[(1024, 768)] * operands, *weights)


def largest(count: int, rows: int, columns: int) -> Case:
    return called(f"the {count} largest of", lambda x: torch.topk(x, count).values, (rows, columns))


def grid_sampling(
    *shape: int, mode: str = "bilinear", padding: str = "zeros", dtype: torch.dtype = F32
) -> Case:
    """Points as many as pixels, near those that leave the image as it is; a few lie outside."""

    def operands() -> Mapping[str, Tensor]:
        batch, _, height, width = shape
        still = torch.eye(2, 3).expand(batch, 2, 3)
        grid = functional.affine_grid(still, [batch, 1, height, width], align_corners=False)
        moved = grid + 0.1 * torch.randn_like(grid)
        return {"x": torch.randn(shape).to(dtype), "grid": moved.to(dtype)}

    kind = "" if mode == "bilinear" else f", {mode}"
    kind += "" if padding == "zeros" else f", {padding}"
    kind += NAMES[dtype]
    return Case(
        f"grid sampling {'x'.join(map(str, shape))}{kind}",
        partial(functional.grid_sample, mode=mode, padding_mode=padding, align_corners=False),
        operands,
    )


def embedding(tokens: int, rows: int, columns: int = 384) -> Case:
    return Case(
        f"embedding of {tokens} in {rows}x{columns}",
        lambda table, indices: functional.embedding(indices, table),
        lambda: {"table": torch.randn(rows, columns)},
        lambda: (torch.randint(rows, (2, tokens // 2)),),
    )


def int8_linear(rows: int, columns: int, size: int) -> Case:
    return Case(
        f"int8 linear of {rows}x{size} by {columns}x{size}",
        looked_up("quantized_linear", "int8_weight_only_linear"),
        lambda: {"input": torch.randn(rows, size)},
        lambda: (torch.randint(-128, 128, (columns, size), dtype=torch.int8), torch.rand(columns)),
    )


# ---- rows of files ----

OPERATORS: Mapping[str, Callable[..., Case]] = {
    "attention": attention,
    "batch norm": batch_norm,
    "bicubic": partial(images, "bicubic", resampling("bicubic")),
    "bilinear": partial(images, "bilinear", resampling("bilinear")),
    "convolution": conv,
    "cross entropy": cross_entropy,
    "dropout": partial(images, "dropout", functional.dropout),
    "embedding": embedding,
    "grid sampling": grid_sampling,
    "group norm": group_norm,
    "instance norm": instance_norm,
    "int8 linear": int8_linear,
    "largest": largest,
    "layer norm": layer_norm,
    "linear cross entropy": linear_cross_entropy,
    "log_softmax": partial(images, "log_softmax", partial(functional.log_softmax, dim=-1)),
    "max pool": partial(images, "max pool", max_pool),
    "nearest": partial(images, "nearest", resampling("nearest")),
    "norm of transformers": norm_of_transformers,
    "rms norm": rms_norm,
    "small max pool": partial(images, "max pool", partial(functional.max_pool2d, kernel_size=2)),
    "softmax": partial(images, "softmax", partial(functional.softmax, dim=-1)),
}


def parse_case(
    operator: str, sizes: Sequence[Any], bars: Mapping[str, float] | None = None, **options: Any
) -> Case:
    """The case of a row of a YAML file.

    Args:
        operator: a name of `OPERATORS`.
        sizes: positional arguments of the operator's function.
        bars: the bars of the case.
        options: keyword arguments of that function; a dtype is written as `bf16`.
    """
    if "dtype" in options:
        options["dtype"] = DTYPES[options["dtype"]]
    return replace(OPERATORS[operator](*sizes, **options), bars=bars or {})
