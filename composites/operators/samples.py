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


def weight_norm(dtype: torch.dtype) -> Iterator[Call]:
    for dim, sizes in ((0, (4, 1, 1)), (1, (1, 3, 1)), (2, (1, 1, 5))):
        v, g = _random(4, 3, 5, dtype=dtype), _random(*sizes, dtype=dtype, seed=1)
        yield (v.requires_grad_(), g.requires_grad_(), dim), {}


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


def _weights(gates: int, width: int, dtype: torch.dtype, biases: bool) -> list[Tensor]:
    """Of a layer with a state of 4 and an input of `width`."""
    rows = gates * 4
    shapes = [(rows, width), (rows, 4), (rows,), (rows,)][: 4 if biases else 2]
    return [
        (_random(*shape, dtype=dtype, seed=10 + n) / 2).requires_grad_()
        for n, shape in enumerate(shapes)
    ]


def _states(count: int, *shape: int, dtype: torch.dtype) -> list[Tensor]:
    return [_random(*shape, dtype=dtype, seed=20 + n).requires_grad_() for n in range(count)]


def lstm_cell(dtype: torch.dtype) -> Iterator[Call]:
    for biases in (True, False):
        x = _random(2, 3, dtype=dtype).requires_grad_()
        yield (x, _states(2, 2, 4, dtype=dtype), *_weights(4, 3, dtype, biases)), {}


def gru_cell(dtype: torch.dtype) -> Iterator[Call]:
    for biases in (True, False):
        x = _random(2, 3, dtype=dtype).requires_grad_()
        yield (x, *_states(1, 2, 4, dtype=dtype), *_weights(3, 3, dtype, biases)), {}


def lstm(dtype: torch.dtype) -> Iterator[Call]:
    for x, states, weights, options in _layers(4, 2, dtype):
        yield (x, states, weights, *options), {}


def gru(dtype: torch.dtype) -> Iterator[Call]:
    for x, (state,), weights, options in _layers(3, 1, dtype):
        yield (x, state, weights, *options), {}


def _layers(
    gates: int, states: int, dtype: torch.dtype
) -> Iterator[tuple[Tensor, list[Tensor], list[Tensor], tuple[Any, ...]]]:
    for layers, biases, two_ways, batch_first in (
        (1, True, False, False),
        (1, False, True, True),
        (2, True, True, False),
    ):
        directions = 2 if two_ways else 1
        x = _random(*((2, 5, 3) if batch_first else (5, 2, 3)), dtype=dtype).requires_grad_()
        weights: list[Tensor] = []
        for layer in range(layers):
            for _ in range(directions):
                width = 3 if layer == 0 else 4 * directions
                weights += _weights(gates, width, dtype, biases)
        given = _states(states, layers * directions, 2, 4, dtype=dtype)
        yield x, given, weights, (biases, layers, 0.0, False, two_ways, batch_first)


def adafactor(dtype: torch.dtype) -> Iterator[Call]:
    for shape, maximize in (((3, 4), False), ((2, 3, 4), True), ((5,), False)):
        param, grad = (_random(*shape, dtype=dtype, seed=n) for n in range(2))
        square = _random(*shape, dtype=dtype, seed=2).abs()
        is_matrix = len(shape) > 1
        yield (
            (
                [param],
                [grad],
                [square[..., :1].clone() if is_matrix else None],
                [square[..., :1, :].clone() if is_matrix else None],
                [None if is_matrix else square],
                [torch.tensor(3.0)],
                None,
                None,
            ),
            {
                "d": 1.0,
                "lr": 0.01,
                "beta2_decay": -0.8,
                "weight_decay": 0.1,
                "eps1": None,
                "eps2": 1e-3,
                "maximize": maximize,
                "has_complex": False,
            },
        )


NEWTON_SCHULZ = {"ns_coefficients": (3.4445, -4.775, 2.0315), "ns_steps": 5, "eps": 1e-7}


def muon(dtype: torch.dtype) -> Iterator[Call]:
    for shape, nesterov, adjust in (
        ((6, 4), True, None),
        ((4, 6), False, "match_rms_adamw"),
        ((4, 4), True, "original"),
    ):
        param, grad, momentum = (_random(*shape, dtype=dtype, seed=n) for n in range(3))
        yield (
            ([param], [grad], [momentum]),
            {
                "lr": 0.0003,  # the direction is rounded to bf16, also in f32
                "weight_decay": 0.1,
                "momentum": 0.95,
                "nesterov": nesterov,
                "adjust_lr_fn": adjust,
                "has_complex": False,
                **NEWTON_SCHULZ,
            },
        )


def zeropower_via_newtonschulz(dtype: torch.dtype) -> Iterator[Call]:
    for shape in ((6, 4), (4, 6), (4, 4)):
        yield (_random(*shape, dtype=dtype),), dict(NEWTON_SCHULZ)


def clip_grad_norm(dtype: torch.dtype) -> Iterator[Call]:
    for norm_type, max_norm in ((2.0, 1.0), (1.0, 1e6), (float("inf"), 0.5)):
        parameters = [torch.nn.Parameter(_random(*shape, dtype=dtype)) for shape in ((3, 4), (5,))]
        for number, parameter in enumerate(parameters):
            parameter.grad = _random(*parameter.shape, dtype=dtype, seed=number + 1)
        yield (parameters, max_norm, norm_type), {}


def fused_adamw(dtype: torch.dtype) -> Iterator[Call]:
    return _fused(dtype, decoupled_weight_decay=True)


def fused_adam(dtype: torch.dtype) -> Iterator[Call]:
    return _fused(dtype, decoupled_weight_decay=False)


def _fused(dtype: torch.dtype, *, decoupled_weight_decay: bool) -> Iterator[Call]:
    for amsgrad, steps, maximize in ((False, (3.0, 3.0), False), (True, (3.0, 4.0), True)):

        def each(seed: int) -> list[Tensor]:
            return [_random(*shape, dtype=dtype, seed=seed) for shape in ((3, 4), (5,))]

        squares = [[tensor.abs() for tensor in each(seed)] for seed in (3, 4)]
        yield (
            (
                *(each(seed) for seed in range(3)),
                squares[0],
                squares[1] if amsgrad else [],
                [torch.tensor(step) for step in steps],
                None,
                None,
            ),
            {
                "amsgrad": amsgrad,
                "has_complex": False,
                "beta1": 0.9,
                "beta2": 0.99,
                "lr": 0.01,
                "weight_decay": 0.1,
                "eps": 1e-8,
                "maximize": maximize,
                "capturable": False,
                "differentiable": False,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )
