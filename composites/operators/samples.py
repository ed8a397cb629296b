"""Samples for `composites verify`, for entries that no samples of PyTorch reach.

Each function takes a dtype and yields calls of what its entry catches. The modules of transformers
are imported when they are called only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

Call = tuple[tuple[Any, ...], dict[str, Any]]


def _random(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def _hidden(dtype: torch.dtype) -> Iterator[Tensor]:
    for number, shape in enumerate(((2, 3, 8), (4, 8))):
        yield _random(*shape, dtype=dtype, seed=number).requires_grad_()


def llama_rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    for x in _hidden(dtype):
        yield (LlamaRMSNorm(8, eps=1e-5).to(dtype), x), {}


def t5_rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    make: Any = T5LayerNorm  # it has no type hints
    for x in _hidden(dtype):
        yield (make(8, eps=1e-5).to(dtype), x), {}


def olmo2_rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm

    for x in _hidden(dtype):
        yield (Olmo2RMSNorm(8, eps=1e-5).to(dtype), x), {}


def swiglu(dtype: torch.dtype) -> Iterator[Call]:
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    config = LlamaConfig(hidden_size=8, intermediate_size=16, num_attention_heads=2)
    make: Any = LlamaMLP  # it has no type hints
    for x in _hidden(dtype):
        yield (make(config).to(dtype), x), {}


def new_gelu(dtype: torch.dtype) -> Iterator[Call]:
    from transformers.activations import NewGELUActivation

    for x in _hidden(dtype):
        yield (NewGELUActivation(), x), {}


def sgd(dtype: torch.dtype) -> Iterator[Call]:
    for nesterov in (False, True):
        parameter, gradient, momentum = (_random(3, 4, dtype=dtype, seed=n) for n in range(3))
        yield (
            ([parameter], [gradient], [momentum], None, None),
            {
                "weight_decay": 0.1,
                "momentum": 0.9,
                "lr": 0.01,
                "dampening": 0.0,
                "nesterov": nesterov,
                "maximize": False,
                "has_sparse_grad": False,
            },
        )
