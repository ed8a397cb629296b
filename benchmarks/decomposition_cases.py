"""What the alternatives are measured with, one row each: calls, and whole training steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
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
    case_of,
    cross_entropy,
    embedding,
    images,
    max_pool,
    resampling,
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


_FILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
CALLS: Mapping[str, tuple[str, Case]] = {
    name: (name.partition(" ")[0], case_of(**row)) for name, row in _FILE.items()
}
"""Entries whose alternatives have no bar, and a call of each."""

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
    *(Comparison(name, (entry,), call) for name, (entry, call) in CALLS.items()),
)  # fmt: skip
"""At the sizes of what the alternatives are for. A row may have a bar and no alternative: its
composite is then measured beside stock."""
