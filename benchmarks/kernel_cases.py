"""Calls and training steps that benchmarks/kernels.py measures kernels in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.training_steps import Batch, OwnLoss, architecture, causal_gpt, gpt2
from benchmarks.unet import ResidualBlock, SelfAttention


class Called(nn.Module):
    """One operator on parameters, weighted and summed, so that a step has its gradient too."""

    def __init__(self, function: Callable[..., Tensor], operands: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.function = function
        self.operands = nn.ParameterList(operands.values())

    def forward(self, *others: Tensor) -> Tensor:
        result = self.function(*self.operands, *others[1:])
        return (result.float() * others[0]).sum()


@dataclass(frozen=True, slots=True)
class Case:
    """One call, at one size."""

    name: str
    function: Callable[..., Tensor]
    """Takes the operands with gradients, then the others."""
    operands: Callable[[], Mapping[str, Tensor]]
    others: Callable[[], Sequence[Tensor]] = tuple
    bars: Mapping[str, float] = field(default_factory=dict)
    """By composite, without its namespace: how many times faster than stock's decomposition a
    kernel is to be."""

    def build(self) -> tuple[Called, tuple[Tensor, ...]]:
        """The module, and the batch that it is called with; the same in each run."""
        torch.manual_seed(0)
        operands, others = self.operands(), tuple(self.others())
        with torch.no_grad():
            shape = self.function(*operands.values(), *others).shape
        return Called(self.function, operands), (torch.randn(shape), *others)


@dataclass(frozen=True, slots=True)
class Growing:
    """Calls of one kind with growing sizes, which show from where on a kernel pays."""

    name: str
    composites: Sequence[str]
    cases: Sequence[Case]
    size: str
    """What a condition of the registry compares: an expression of the operands' shapes."""
    measure: Callable[[Case], int]
    """Its value for a case."""
    namespace: str = "ptxla"

    @property
    def full_names(self) -> Sequence[str]:
        """The composites, with their namespace."""
        return [f"{self.namespace}.{name}" for name in self.composites]


def attention(
    length: int,
    *,
    dtype: torch.dtype = torch.float32,
    mask: str = "causal",
    dropout: float = 0.0,
) -> Case:
    """Two sequences, six heads of 64 numbers."""

    def operands() -> Mapping[str, Tensor]:
        return {name: torch.randn(2, 6, length, 64).to(dtype) for name in ("q", "k", "v")}

    def masks() -> Sequence[Tensor]:
        if mask != "boolean":
            return ()
        return (torch.ones(1, 1, length, length, dtype=torch.bool).tril(),)

    def call(q: Tensor, k: Tensor, v: Tensor, *given: Tensor) -> Tensor:
        attended = functional.scaled_dot_product_attention
        mask_given = given[0] if given else None
        return attended(q, k, v, mask_given, dropout, is_causal=mask == "causal")

    bars = (
        {}
        if mask == "none" or dropout or dtype != torch.float32 or length not in (512, 1024)
        else {
            "scaled_dot_product_attention": 3.0,
            "scaled_dot_product_attention_backward": 2.0,
        }
    )
    kind = {"causal": ", causal", "boolean": ", boolean mask", "none": ""}[mask]
    kind += ", dropout" if dropout else ""
    kind += ", bf16" if dtype == torch.bfloat16 else ""
    return Case(f"attention 2x6x{length}x64{kind}", call, operands, masks, bars)


def cross_entropy(rows: int, classes: int, dtype: torch.dtype = torch.float32) -> Case:
    bars = {"cross_entropy_loss": 8.0, "cross_entropy_loss_backward": 2.3}
    return Case(
        f"cross entropy {rows}x{classes}" + (", bf16" if dtype == torch.bfloat16 else ""),
        functional.cross_entropy,
        lambda: {"logits": torch.randn(rows, classes).to(dtype)},
        lambda: (torch.randint(classes, (rows,)),),
        bars if (rows, classes, dtype) == (1024, 50257, torch.float32) else {},
    )


def images(name: str, function: Callable[..., Tensor], *shape: int, **bars: float) -> Case:
    """An operator on `[N, C, H, W]`."""
    text = "x".join(map(str, shape))
    return Case(f"{name} {text}", function, lambda: {"x": torch.randn(shape)}, bars=bars)


bilinear = partial(functional.interpolate, scale_factor=2.0, mode="bilinear")
max_pool = partial(functional.max_pool2d, kernel_size=3, stride=2, padding=1)


def conv(
    *shape: int,
    channels: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    dtype: torch.dtype = torch.float32,
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
    kind += {torch.float32: "", torch.bfloat16: ", bf16", torch.float16: ", f16"}[dtype]
    return Case(
        f"convolution {kind}",
        partial(convolve, stride=stride, padding=padding, groups=groups),
        operands,
    )


def group_norm(*shape: int) -> Case:
    text = "x".join(map(str, shape))
    channels = shape[1]

    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.group_norm(x, 8, weight, bias)

    return Case(
        f"group norm {text}",
        call,
        lambda: {"x": torch.randn(shape), "w": torch.randn(channels), "b": torch.randn(channels)},
    )


def layer_norm(rows: int, columns: int) -> Case:
    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, (columns,), weight, bias)

    return Case(
        f"layer norm {rows}x{columns}",
        call,
        lambda: {
            "x": torch.randn(rows, columns),
            "w": torch.randn(columns),
            "b": torch.randn(columns),
        },
    )


def softmax(rows: int, columns: int, *, logarithm: bool = False) -> Case:
    name = "log_softmax" if logarithm else "softmax"
    function = functional.log_softmax if logarithm else functional.softmax
    return Case(
        f"{name} {rows}x{columns}",
        partial(function, dim=-1),
        lambda: {"x": torch.randn(rows, columns)},
    )


def grid_sampling(
    *shape: int, mode: str = "bilinear", padding: str = "zeros", dtype: torch.dtype = torch.float32
) -> Case:
    """As many points as pixels, near those that leave the image as it is; a few lie outside."""

    def operands() -> Mapping[str, Tensor]:
        batch, _, height, width = shape
        still = torch.eye(2, 3).expand(batch, 2, 3)
        grid = functional.affine_grid(still, [batch, 1, height, width], align_corners=False)
        moved = grid + 0.1 * torch.randn_like(grid)
        return {"x": torch.randn(shape).to(dtype), "grid": moved.to(dtype)}

    kind = "" if mode == "bilinear" else f", {mode}"
    kind += "" if padding == "zeros" else f", {padding}"
    kind += ", bf16" if dtype == torch.bfloat16 else ""
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


CASES: Sequence[Case] = (
    cross_entropy(1024, 50257),
    cross_entropy(1024, 16384),
    cross_entropy(1024, 50257, torch.bfloat16),
    attention(512),
    attention(1024),
    attention(512, mask="boolean"),
    attention(512, mask="none"),
    attention(512, dropout=0.1),
    attention(512, dtype=torch.bfloat16),
    images("bilinear", bilinear, 4, 64, 64, 64, upsample_bilinear2d=5.0),
    grid_sampling(4, 64, 64, 64),
    grid_sampling(4, 64, 64, 64, mode="bicubic", padding="reflection"),
    grid_sampling(4, 64, 64, 64, dtype=torch.bfloat16),
    images("max pool", max_pool, 4, 64, 64, 64),
    group_norm(4, 64, 64, 64),
    layer_norm(1024, 384),
    layer_norm(4096, 768),
    softmax(6144, 512),
    softmax(1024, 16384),
    softmax(6144, 512, logarithm=True),
    images("dropout", functional.dropout, 4, 64, 64, 64),
    embedding(1024, 50257),
    conv(4, 64, 64, 64, channels=64),
    conv(4, 256, 16, 16, channels=256),
    conv(4, 256, 32, 32, channels=64, kernel=1),
    conv(4, 64, 56, 56, channels=128, stride=2),
    conv(4, 3, 224, 224, channels=384, kernel=16, stride=16),
    conv(4, 96, 56, 56, channels=96, kernel=7, groups=96),
    conv(4, 128, 1024, channels=128),
    conv(2, 16, 16, 32, 32, channels=16),
    conv(4, 64, 64, 64, channels=64, dtype=torch.bfloat16),
)


def _numbers(case: Case) -> int:
    """The number of elements of the first operand."""
    return next(iter(case.operands().values())).numel()


def _products(case: Case) -> int:
    x, weight, _ = case.operands().values()
    return x.numel() // x.shape[1] * weight.numel()


def _scores(case: Case) -> int:
    query, key, _ = case.operands().values()
    return query.numel() * key.shape[-2]


GROWING: Sequence[Growing] = (
    Growing(
        "attention",
        ("scaled_dot_product_attention", "scaled_dot_product_attention_backward"),
        [attention(length) for length in (32, 64, 96, 128, 192, 256, 384)],
        "query.numel() * key.shape[-2]",
        _scores,
    ),
    Growing(
        "cross entropy",
        ("cross_entropy_loss", "cross_entropy_loss_backward"),
        [cross_entropy(2 * size, 16 * size) for size in (4, 8, 16, 32, 64, 128)],
        "logits.numel()",
        _numbers,
    ),
    Growing(
        "bilinear",
        ("upsample_bilinear2d", "upsample_bilinear2d_backward"),
        [images("bilinear", bilinear, 2, 8, size, size) for size in (4, 8, 16, 32, 64)],
        "x.numel()",
        _numbers,
    ),
    Growing(
        "grid sampling",
        ("grid_sampler_2d", "grid_sampler_2d_backward"),
        [grid_sampling(2, 8, size, size) for size in (2, 4, 8, 16, 32, 64)],
        "input.numel()",
        _numbers,
    ),
    Growing(
        "max pool",
        ("max_pool2d_backward",),
        [images("max pool", max_pool, 2, 8, size, size) for size in (8, 16, 32, 64, 128)],
        "x.numel()",
        _numbers,
    ),
    Growing(
        "group norm",
        ("group_norm_backward",),
        [group_norm(2, 32, size, size) for size in (4, 8, 16, 32, 64)],
        "x.numel()",
        _numbers,
    ),
    Growing(
        "layer norm",
        ("layer_norm_backward",),
        [layer_norm(rows, 384) for rows in (4, 16, 64, 256, 1024)],
        "x.numel()",
        _numbers,
    ),
    *(
        Growing(
            "log_softmax" if logarithm else "softmax",
            ("log_softmax_backward" if logarithm else "softmax_backward",),
            [softmax(rows, 256, logarithm=logarithm) for rows in (4, 16, 64, 256, 1024)],
            "output.numel()",
            _numbers,
        )
        for logarithm in (False, True)
    ),
    Growing(
        "dropout",
        ("dropout", "dropout_backward"),
        [images("dropout", functional.dropout, size) for size in (256, 1024, 4096, 16384, 65536)],
        "x.numel()",
        _numbers,
    ),
    Growing(
        "embedding",
        ("embedding_dense_backward",),
        [embedding(64, size) for size in (64, 256, 1024, 4096, 16384, 50257)],
        "num_weights * grad_output.shape[-1]",
        _numbers,
    ),
    Growing(
        "convolution",
        ("conv", "conv_backward"),
        [conv(2, size, size, size, channels=size) for size in (4, 8, 12, 16, 24, 32)],
        "x.numel() // x.shape[1] * weight.numel()",
        _products,
        "cpu_kernels",
    ),
)


class Weighted(nn.Module):
    """One parameter, whose gradient is an input: a step is little more than the update."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))

    def forward(self, gradient: Tensor) -> Tensor:
        return (self.weight * gradient).sum()


# ---- training steps ----


class UNet(nn.Module):
    """One level down and up again, with attention at the bottom; returns its loss."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = ResidualBlock(channels), ResidualBlock(channels)
        self.middle = SelfAttention(channels)

    def forward(self, sample: Tensor, time: Tensor, noise: Tensor) -> Tensor:
        fine = self.down(sample, time)
        coarse = self.middle(functional.max_pool2d(fine, 2))
        raised = functional.interpolate(coarse, scale_factor=2.0, mode="bilinear")
        return functional.mse_loss(self.up(fine + raised, time), noise)


def unet(channels: int = 64, size: int = 64) -> tuple[nn.Module, Batch]:
    """Four images."""
    sample, noise = (torch.randn(4, channels, size, size) for _ in range(2))
    return UNet(channels), {"sample": sample, "time": torch.randn(4, channels), "noise": noise}


def vit(size: int = 224, layers: int = 4) -> tuple[nn.Module, Batch]:
    """ViT of transformers, four images of 196 patches, without dropout."""
    from transformers import ViTConfig, ViTForImageClassification

    dropout: dict[str, Any] = dict.fromkeys(
        ("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0
    )
    config = ViTConfig(
        hidden_size=384,
        num_hidden_layers=layers,
        num_attention_heads=6,
        intermediate_size=1536,
        image_size=size,
        **dropout,
    )
    config.num_labels = 1000
    batch = {"pixel_values": torch.randn(4, 3, size, size), "labels": torch.randint(1000, (4,))}
    return OwnLoss(ViTForImageClassification(config)), batch


@dataclass(frozen=True, slots=True)
class StepCase:
    """A training step with AdamW."""

    name: str
    build: Callable[[], tuple[nn.Module, Batch]]
    bar: float | None = None
    """How many times faster than stock's decompositions a step with kernels is to be."""


STEPS: Sequence[StepCase] = (
    StepCase("GPT d384, 4 layers, L 1024, 16384 tokens", partial(causal_gpt, 1024), 1.35),
    StepCase("GPT-2 2x512, 50257 tokens", gpt2, 1.35),
    StepCase("U-Net, 4x64x64x64", unet, 1.6),
    StepCase("ViT, 4x197x384", vit),
)
NOT_TUNED = (
    *("bert", "roberta", "albert", "electra", "opt", "gpt_neox"),
    *("mistral", "qwen2", "gemma", "phi", "olmo2", "stablelm"),
)
"""Of benchmarks/training_models.py: where the automatic choice has only not to lose."""
OTHERS: Sequence[StepCase] = tuple(
    StepCase(name, partial(architecture, name), 0.98) for name in NOT_TUNED
)
