"""What the alternatives are measured with, one row each: calls, and whole training steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks import training_steps
from benchmarks.cases import (
    BOTH,
    FORWARD,
    GRADIENT,
    UPDATE,
    Case,
    Mode,
    Update,
    attention,
    batch_norm,
    cross_entropy,
    embedding,
    grid_sampling,
    group_norm,
    images,
    instance_norm,
    largest,
    layer_norm,
    linear_cross_entropy,
    max_pool,
    norm_of_transformers,
    resampling,
    rms_norm,
    softmax,
)
from benchmarks.training_steps import Training

ALL = ("all",)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What runs, and what the alternatives are expected to reach beside stock."""

    name: str
    entries: tuple[str, ...]
    """What is on."""
    measured: Case | Update | Training
    faster: float | None = None
    """Stock's time to that of `fast`, at least."""
    smaller: float | None = None
    """Memory of `fast` to stock's, at most."""
    compiles: float | None = None
    """Compile time of `fast` to stock's, at most."""
    stock: bool = True
    """Whether stock can run it: it may need more memory than there is."""
    on_cpu: Update | None = None
    """What PyTorch runs on the CPU beside it, if it is not the same."""
    mode: Mode = BOTH


PARAMETERS = (
    *((50257, 384), (512, 384)),
    *((384, 1152), (1152,), (384, 384), (384,), (384, 1536), (1536,), (1536, 384), (384,)) * 4,
    *((384,), (384,)) * 9,
)
"""26 million, in 52 tensors: GPT-2 of four layers."""


def _adamw(*, fused: bool) -> Update:
    return Update(partial(torch.optim.AdamW, lr=1e-3, fused=fused), PARAMETERS)


def _resampled(mode: str) -> Case:
    return images(mode, resampling(mode), 4, 64, 64, 64)


small_pool = partial(functional.max_pool2d, kernel_size=2)


def _pooled(pool: Callable[..., Tensor]) -> Case:
    return images("max pool", pool, 8, 64, 112, 112)


def _whole(
    name: str,
    faster: float | None,
    build: Callable[..., Any],
    *arguments: Any,
    smaller: float | None = None,
    **keywords: Any,
) -> Comparison:
    """A training step with everything on."""
    step = Training(partial(build, *arguments, **keywords))
    return Comparison(f"step of {name}", ALL, step, faster, smaller, mode=UPDATE)


gated = norm_of_transformers("mamba2:MambaRMSNormGated", 768, 768, operands=2)
CALLS: dict[str, tuple[str, Case]] = {
    "softmax": ("12x512x512xf32", softmax(12, 512, 512)),
    "log_softmax": ("1024x16000xf32", softmax(1024, 16000, logarithm=True)),
    "linear_cross_entropy": (
        "1024x256xf32, 16000 classes",
        linear_cross_entropy(1024, 256, 16000),
    ),
    "batch_norm_training": ("8x64x56x56xf32", batch_norm(8, 64, 56, 56)),
    "instance_norm": ("2x64x64x64xf32", instance_norm(2, 64, 64, 64)),
    "group_norm": ("2x64x64x64xf32", group_norm(2, 64, 64, 64)),
    "layer_norm": ("1024x768xf32", layer_norm(1024, 768)),
    "rms_norm": ("1024x768xf32", rms_norm(1024, 768)),
    "topk": ("128x16000xf32", largest(50, 128, 16000)),
    "grid_sampler_2d": ("2x32x64x64xf32", grid_sampling(2, 32, 64, 64)),
    **{
        entry: ("1024x768xf32", norm)
        for entry, norm in (
            ("llama_rms_norm", norm_of_transformers("llama:LlamaRMSNorm", 768)),
            ("t5_rms_norm", norm_of_transformers("t5:T5LayerNorm", 768)),
            ("olmo2_rms_norm", norm_of_transformers("olmo2:Olmo2RMSNorm", 768)),
            ("gemma_rms_norm", norm_of_transformers("gemma:GemmaRMSNorm", 768)),
            ("weightless_rms_norm", norm_of_transformers("llama4:Llama4TextL2Norm")),
            ("cohere_layer_norm", norm_of_transformers("cohere:CohereLayerNorm", 768)),
            (
                "rms_norm_gated",
                norm_of_transformers("mamba2:MambaRMSNormGated", 768, 768, operands=2),
            ),
        )
    },
}
"""Entries whose alternatives have no bar: the size of a call, and the call."""

ATTENTION, LOSS = ("scaled_dot_product_attention",), ("cross_entropy_loss",)

FIFTEEN = (
    *("gpt2", "gpt_neox", "bloom", "llama", "mistral", "qwen2", "qwen3", "gemma2", "phi", "phi3"),
    *("olmo2", "starcoder2", "stablelm", "bert", "roberta"),
)
"""None of these is to be slower."""

ROWS: tuple[Comparison, ...] = (
    Comparison("attention, L = 1024", ATTENTION, attention(1024, batch=1), faster=2.2,
        compiles=1.3),
    Comparison("attention, L = 4096", ATTENTION, attention(4096, batch=1), faster=4, smaller=0.1,
        compiles=1.3),
    Comparison("attention, L = 32768", ATTENTION, attention(32768, batch=1), stock=False),
    Comparison("cross entropy, 1024 x 50257", LOSS, cross_entropy(1024, 50257), faster=2.3),
    Comparison("embedding backward, 50257 x 384", ("embedding",), embedding(1024, 50257), faster=2,
        mode=GRADIENT),
    Comparison("bilinear, forward", ("upsample_bilinear2d",), _resampled("bilinear"), faster=4,
        mode=FORWARD),
    Comparison("bilinear", ("upsample_bilinear2d",), _resampled("bilinear")),
    Comparison("nearest", ("upsample_nearest2d",), _resampled("nearest")),
    Comparison("bicubic", ("upsample_bicubic2d",), _resampled("bicubic")),
    Comparison("max pool, 2 x 2", ("max_pool2d",), _pooled(small_pool), faster=1.5),
    Comparison("max pool, 3 x 3, stride 2", ("max_pool2d",), _pooled(max_pool), faster=1.5),
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
    *(Comparison(f"{name} {size}", (name,), call) for name, (size, call) in CALLS.items()),
)  # fmt: skip
"""At the sizes of what the alternatives are for. A row may have a bar and no alternative: its
composite is then measured beside stock."""

QUICK: tuple[Comparison, ...] = (
    Comparison("attention, L = 300", ATTENTION, attention(300, batch=1), faster=2.2, smaller=0.9),
    _whole("causal GPT, L = 256", None, training_steps.causal_gpt, 256, vocabulary=300, width=64,
        layers=1),
)  # fmt: skip
"""Small ones, for tests."""
