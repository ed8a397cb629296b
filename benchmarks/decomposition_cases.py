"""What the alternatives are measured with, one row each: calls, and whole training steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import nn

from benchmarks import training_steps
from benchmarks.calls import BOTH, FORWARD, GRADIENT, UPDATE, Call, Mode, Update, sized
from benchmarks.training_steps import Training

ALL = ("all",)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What runs, and what the alternatives are expected to reach beside stock."""

    name: str
    entries: tuple[str, ...]
    """What is on."""
    make: Callable[[], Call | Update | Training]
    faster: float | None = None
    """Stock's time to that of `fast`, at least."""
    smaller: float | None = None
    """Memory of `fast` to stock's, at most."""
    compiles: float | None = None
    """Compile time of `fast` to stock's, at most."""
    stock: bool = True
    """Whether stock can run it: it may need more memory than there is."""
    on_cpu: Callable[[], Call | Update | Training] | None = None
    """What PyTorch runs on the CPU beside it, if it is not the same."""
    mode: Mode = BOTH


def _attention(length: int) -> Callable[[], Call | Update]:
    shape = f"1x6x{length}x64xf32"
    return sized(
        "scaled_dot_product_attention",
        query=shape,
        key=shape,
        value=shape,
        plain={"attn_mask": None, "dropout_p": 0.0, "is_causal": True},
    )


def _cross_entropy(rows: int, classes: int) -> Callable[[], Call | Update]:
    return sized(
        "cross_entropy_loss", self=f"{rows}x{classes}xf32", target=f"{rows}xi64", below=classes
    )


def _embedding() -> Callable[[], Call | Update]:
    return sized("embedding", weight="50257x384xf32", indices="1024xi64", below=50257)


def _resampled(kind: str) -> Callable[[], Call | Update]:
    return sized(f"upsample_{kind}2d", self="4x64x64x64xf32", plain={"output_size": [128, 128]})


def _max_pool(kernel: int, stride: int, padding: int) -> Callable[[], Call | Update]:
    plain = {"kernel_size": [kernel] * 2, "stride": [stride] * 2, "padding": [padding] * 2}
    return sized("max_pool2d", self="8x64x112x112xf32", plain=plain)


def _module(path: str, *arguments: Any, operands: int = 1) -> Callable[[], Call]:
    """A module of transformers on 1024 rows of 768 numbers."""
    file, name = path.split(":")

    def make() -> Call:
        made = getattr(import_module(f"transformers.models.{file}.modeling_{file}"), name)
        rows = (torch.randn(1024, 768).requires_grad_() for _ in range(operands))
        return Call(lambda module, *given: module(*given), (made(*arguments), *rows))

    return make


def _linear_cross_entropy() -> Call:
    """Looked up at each call, because turning the entry on replaces the function."""
    module = import_module("composites.operators.linear_cross_entropy")
    rows, weight = torch.randn(1024, 256), torch.randn(16000, 256)
    operands = rows.requires_grad_(), weight.requires_grad_(), torch.randint(16000, (1024,))
    return Call(lambda *given: module.linear_cross_entropy_loss(*given), operands)


PARAMETERS = (
    *((50257, 384), (512, 384)),
    *((384, 1152), (1152,), (384, 384), (384,), (384, 1536), (1536,), (1536, 384), (384,)) * 4,
    *((384,), (384,)) * 9,
)
"""26 million, in 52 tensors: GPT-2 of four layers."""


def _adamw(*, fused: bool) -> Callable[[], Update]:
    def step(parameters: list[nn.Parameter]) -> Callable[[], Any]:
        return torch.optim.AdamW(parameters, lr=1e-3, fused=fused).step

    return lambda: Update(step, PARAMETERS)


def _whole(
    name: str,
    faster: float | None,
    build: Callable[..., Any],
    *arguments: Any,
    smaller: float | None = None,
    **keywords: Any,
) -> Comparison:
    """A training step with everything on."""
    make = partial(Training, partial(build, *arguments, **keywords))
    return Comparison(f"step of {name}", ALL, make, faster, smaller, mode=UPDATE)


_SMALL: dict[str, Any] = {"input": "2x64x64x64xf32", "weight": "64xf32", "bias": "64xf32"}
_STATISTICS = ("running_mean", "running_var")
_BATCH_NORM: dict[str, Any] = {
    "input": "8x64x56x56xf32",
    **dict.fromkeys(("weight", "bias", *_STATISTICS), "64xf32"),
}
CALLS: dict[str, tuple[str, Callable[[], Call]]] = {
    "softmax": ("12x512x512xf32", sized("softmax", self="12x512x512xf32", plain={"dim": -1})),
    "log_softmax": ("1024x16000xf32",
        sized("log_softmax", self="1024x16000xf32", plain={"dim": -1})),
    "linear_cross_entropy": ("1024x256xf32, 16000 classes", _linear_cross_entropy),
    "batch_norm_training": ("8x64x56x56xf32",
        sized("batch_norm_training", **_BATCH_NORM, constant=_STATISTICS,
            uniform=("running_var",))),
    "instance_norm": ("2x64x64x64xf32", sized("instance_norm", **_SMALL)),
    "group_norm": ("2x64x64x64xf32",
        sized("group_norm", **_SMALL, plain={"N": 2, "C": 64, "HxW": 4096, "group": 8})),
    "layer_norm": ("1024x768xf32",
        sized("layer_norm", input="1024x768xf32", weight="768xf32", bias="768xf32",
            plain={"normalized_shape": [768]})),
    "rms_norm": ("1024x768xf32",
        sized("rms_norm", input="1024x768xf32", weight="768xf32",
            plain={"normalized_shape": [768]})),
    "topk": ("128x16000xf32", sized("topk", self="128x16000xf32", plain={"k": 50, "dim": -1})),
    "grid_sampler_2d": ("2x32x64x64xf32",
        sized("grid_sampler_2d", input="2x32x64x64xf32", grid="2x64x64x2xf32", uniform=("grid",))),
    "llama_rms_norm": ("1024x768xf32", _module("llama:LlamaRMSNorm", 768)),
    "t5_rms_norm": ("1024x768xf32", _module("t5:T5LayerNorm", 768)),
    "olmo2_rms_norm": ("1024x768xf32", _module("olmo2:Olmo2RMSNorm", 768)),
    "gemma_rms_norm": ("1024x768xf32", _module("gemma:GemmaRMSNorm", 768)),
    "weightless_rms_norm": ("1024x768xf32", _module("llama4:Llama4TextL2Norm")),
    "cohere_layer_norm": ("1024x768xf32", _module("cohere:CohereLayerNorm", 768)),
    "rms_norm_gated": ("1024x768xf32", _module("mamba2:MambaRMSNormGated", 768, operands=2)),
}  # fmt: skip
"""Entries whose alternatives have no bar: the size of a call, and the call."""

ATTENTION, LOSS = ("scaled_dot_product_attention",), ("cross_entropy_loss",)

FIFTEEN = (
    *("gpt2", "gpt_neox", "bloom", "llama", "mistral", "qwen2", "qwen3", "gemma2", "phi", "phi3"),
    *("olmo2", "starcoder2", "stablelm", "bert", "roberta"),
)
"""None of these is to be slower."""

ROWS: tuple[Comparison, ...] = (
    Comparison("attention, L = 1024", ATTENTION, _attention(1024), faster=2.2, compiles=1.3),
    Comparison("attention, L = 4096", ATTENTION, _attention(4096), faster=4, smaller=0.1,
        compiles=1.3),
    Comparison("attention, L = 32768", ATTENTION, _attention(32768), stock=False),
    Comparison("cross entropy, 1024 x 50257", LOSS, _cross_entropy(1024, 50257), faster=2.3),
    Comparison("embedding backward, 50257 x 384", ("embedding",), _embedding(), faster=2,
        mode=GRADIENT),
    Comparison("bilinear, forward", ("upsample_bilinear2d",), _resampled("bilinear"), faster=4,
        mode=FORWARD),
    Comparison("bilinear", ("upsample_bilinear2d",), _resampled("bilinear")),
    Comparison("nearest", ("upsample_nearest2d",), _resampled("nearest")),
    Comparison("bicubic", ("upsample_bicubic2d",), _resampled("bicubic")),
    Comparison("max pool, 2 x 2", ("max_pool2d",), _max_pool(2, 2, 0), faster=1.5),
    Comparison("max pool, 3 x 3, stride 2", ("max_pool2d",), _max_pool(3, 2, 1), faster=1.5),
    Comparison("AdamW, 26 million", ("adamw",), _adamw(fused=False), faster=1.8,
        mode=UPDATE, on_cpu=_adamw(fused=True)),
    Comparison("AdamW in one, 26 million", ("fused_adamw",), _adamw(fused=False),
        faster=1.8, mode=UPDATE, on_cpu=_adamw(fused=True)),
    _whole("GPT-2, 2 x 512", 1.3, training_steps.gpt2),
    _whole("causal GPT, L = 1024", 1.35, training_steps.causal_gpt, 1024),
    _whole("causal GPT, L = 4096", 2, training_steps.causal_gpt, 4096, smaller=0.5),
    _whole("Llama, L = 2048", 1.4, training_steps.llama),
    _whole("U-Net block", 1.3, training_steps.unet),
    *(_whole(f"small {name}", 0.98, training_steps.architecture, name) for name in FIFTEEN),
    *(Comparison(f"{name} {size}", (name,), make) for name, (size, make) in CALLS.items()),
)  # fmt: skip
"""At the sizes of what the alternatives are for. A row may have a bar and no alternative: its
composite is then measured beside stock."""

QUICK: tuple[Comparison, ...] = (
    Comparison("attention, L = 300", ATTENTION, _attention(300), faster=2.2, smaller=0.9),
    _whole("causal GPT, L = 256", None, training_steps.causal_gpt, 256, vocabulary=300, width=64,
        layers=1),
)  # fmt: skip
"""Small ones, for tests."""
