"""Samples of the entries of registry.yaml that no samples of PyTorch reach.

The function of an entry's name takes a dtype and yields calls that the entry catches. The first
call is the entry's example too, unless it has a module. Modules of transformers are imported only
when they are called.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from composites.functions import find_function

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments and keywords."""

_MODELS = "transformers.models"


def _random(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def _leaf(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    return _random(*shape, dtype=dtype, seed=seed).requires_grad_()


def module_samples(
    target: str,
    *settings: Any,
    shapes: Sequence[Sequence[int]] = ((2, 3, 8), (4, 8)),
    **named: Any,
) -> Callable[[torch.dtype], Iterator[Call]]:
    """Samples of the `forward` of a module, whose class and settings are given."""

    def samples(dtype: torch.dtype) -> Iterator[Call]:
        module = find_function(target)(*settings, **named)
        for parameter in module.parameters():
            parameter.data = _random(*parameter.shape, dtype=dtype, seed=5)
        for seed, shape in enumerate(shapes):
            yield (module, _leaf(*shape, dtype=dtype, seed=seed)), {}

    return samples


def _part(family: str, model: str, name: str, *settings: Any, **sizes: Any) -> Any:
    """A module of a model of transformers, by the name of its class without that of the model."""
    place = f"{_MODELS}.{family}"
    config = find_function(f"{place}.configuration_{family}:{model}Config")(**sizes)
    config._experts_implementation = "batched_mm"
    return find_function(f"{place}.modeling_{family}:{model}{name}")(config, *settings)


new_gelu = module_samples("transformers.activations:NewGELUActivation")
fast_gelu = module_samples("transformers.activations:FastGELUActivation")
quick_gelu = module_samples("transformers.activations:QuickGELUActivation")
relu_squared = module_samples("transformers.activations:ReLUSquaredActivation")
xielu = module_samples("transformers.activations:XIELUActivation")
bloom_gelu = module_samples(f"{_MODELS}.bloom.modeling_bloom:BloomGelu")
llama_rms_norm = module_samples(f"{_MODELS}.llama.modeling_llama:LlamaRMSNorm", 8, eps=1e-5)
t5_rms_norm = module_samples(f"{_MODELS}.t5.modeling_t5:T5LayerNorm", 8, eps=1e-5)
olmo2_rms_norm = module_samples(f"{_MODELS}.olmo2.modeling_olmo2:Olmo2RMSNorm", 8, eps=1e-5)
gemma_rms_norm = module_samples(f"{_MODELS}.gemma.modeling_gemma:GemmaRMSNorm", 8, eps=1e-5)
weightless_rms_norm = module_samples(f"{_MODELS}.llama4.modeling_llama4:Llama4TextL2Norm", eps=1e-5)
cohere_layer_norm = module_samples(f"{_MODELS}.cohere.modeling_cohere:CohereLayerNorm", 8, eps=1e-5)
global_response_norm = module_samples(
    f"{_MODELS}.convnextv2.modeling_convnextv2:ConvNextV2GRN", 8, shapes=((2, 3, 3, 8),)
)
layer_scale = module_samples(
    f"{_MODELS}.dinov2.modeling_dinov2:Dinov2LayerScale",
    SimpleNamespace(hidden_size=8, layerscale_value=1.0),
)
drop_path = module_samples(f"{_MODELS}.swin.modeling_swin:SwinDropPath", 0.3)


def rms_norm_gated(dtype: torch.dtype) -> Iterator[Call]:
    calls = module_samples(f"{_MODELS}.mamba2.modeling_mamba2:MambaRMSNormGated", 8, 4, eps=1e-5)
    for (norm, x), _ in calls(dtype):
        yield (norm, x), {}
        yield (norm, x, _leaf(*x.shape, dtype=dtype, seed=9)), {}


def swiglu(dtype: torch.dtype, *activations: str) -> Iterator[Call]:
    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2}
    for activation in activations or ("silu",):
        for seed, shape in enumerate(((2, 3, 8), (4, 8))):
            module = _part("llama", "Llama", "MLP", **sizes, hidden_act=activation).to(dtype)
            yield (module, _leaf(*shape, dtype=dtype, seed=seed)), {}


def geglu(dtype: torch.dtype) -> Iterator[Call]:
    yield from swiglu(dtype, "gelu_pytorch_tanh", "gelu")


def weight_norm(dtype: torch.dtype) -> Iterator[Call]:
    for shape, dim, sizes in (
        ((3, 4), 0, (3, 1)),
        ((4, 3, 5), 1, (1, 3, 1)),
        ((4, 3, 5), 2, (1, 1, 5)),
    ):
        yield (_leaf(*shape, dtype=dtype, seed=0), _leaf(*sizes, dtype=dtype, seed=1), dim), {}


def eager_attention(dtype: torch.dtype) -> Iterator[Call]:
    module = _attention()
    for softcap in (None, 2.0):
        for mask in (None, _causal_mask(dtype)):
            yield (module, *_heads(dtype), mask), {"scaling": 0.3, "softcap": softcap}


def attention_with_sinks(dtype: torch.dtype) -> Iterator[Call]:
    module = _attention()
    module.sinks = torch.nn.Parameter(_random(4, dtype=dtype, seed=4))
    for mask in (None, _causal_mask(dtype)):
        yield (module, *_heads(dtype), mask), {"scaling": 0.3}


def scaled_attention(dtype: torch.dtype) -> Iterator[Call]:
    module = _part("gptj", "GPTJ", "Attention", 0, n_embd=32, n_head=4, rotary_dim=4)
    heads = [_leaf(2, 4, 3, 8, dtype=dtype, seed=n) for n in range(3)]
    for mask in (None, _causal_mask(dtype)):
        yield (module, *heads, mask), {}


def relative_position_bias(dtype: torch.dtype) -> Iterator[Call]:
    make = find_function(f"{_MODELS}.swin.modeling_swin:SwinRelativePositionBias")
    bias = make(3, (2, 2))
    table = bias.relative_position_bias_table
    table.data = _random(*table.shape, dtype=dtype, seed=0)
    yield (bias,), {}


def patch_rotary_embedding(dtype: torch.dtype) -> Iterator[Call]:
    q, k = (_leaf(2, 4, 5, 8, dtype=dtype, seed=n) for n in range(2))
    for patches in (3, 5):
        yield (q, k, *(_random(patches, 8, dtype=dtype, seed=n) for n in (2, 3))), {}


def index(dtype: torch.dtype) -> Iterator[Call]:
    x, numbers = _leaf(4, 3, 5, dtype=dtype, seed=0), torch.tensor([[0, 2], [2, -1]])
    for indices in ([numbers], [None, numbers], [None, None, numbers[0]]):
        yield (x, indices), {}


def frozen_batch_norm(dtype: torch.dtype) -> Iterator[Call]:
    norm = find_function(f"{_MODELS}.detr.modeling_detr:DetrFrozenBatchNorm2d")(4)
    for seed, buffer in enumerate(norm.buffers()):
        buffer.data = _random(4, dtype=dtype, seed=seed).abs()
    yield (norm.to(dtype), _leaf(2, 4, 3, 3, dtype=dtype, seed=9)), {}


def _attention() -> Any:
    """A stand-in for the module of attention functions, with the attributes that they read."""
    module: Any = torch.nn.Module()
    module.num_key_value_groups = 2
    module.head_dim = 8
    return module


def _heads(dtype: torch.dtype) -> list[Tensor]:
    """Query, key and value: four heads, and two."""
    return [_leaf(2, heads, 3, 8, dtype=dtype, seed=n) for n, heads in enumerate((4, 2, 2))]


def _causal_mask(dtype: torch.dtype) -> Tensor:
    return torch.full((1, 1, 3, 3), torch.finfo(dtype).min, dtype=dtype).triu(1)


_EXPERTS = {"hidden_size": 8, "num_experts": 4, "moe_intermediate_size": 6}


def top_k_routing(dtype: torch.dtype) -> Iterator[Call]:
    for norm_topk_prob in (False, True):
        settings = {**_EXPERTS, "num_experts_per_tok": 2, "norm_topk_prob": norm_topk_prob}
        router = _part("qwen3_moe", "Qwen3Moe", "TopKRouter", **settings)
        # Numbers that are exact in every dtype, so that all dtypes choose the same experts.
        router.weight.data = (torch.arange(32).reshape(4, 8) % 7 - 3).to(dtype)
        hidden = (torch.arange(40).reshape(5, 8) % 11 - 5).to(dtype) / 8
        yield (router, hidden.requires_grad_()), {}


def experts(dtype: torch.dtype) -> Iterator[Call]:
    for activation in ("silu", "gelu", "gelu_pytorch_tanh"):
        settings = {**_EXPERTS, "hidden_act": activation}
        yield from _choices(_part("qwen3_moe", "Qwen3Moe", "Experts", **settings), dtype)


def gpt_oss_experts(dtype: torch.dtype) -> Iterator[Call]:
    sizes = {"hidden_size": 8, "intermediate_size": 6, "num_local_experts": 4}
    yield from _choices(_part("gpt_oss", "GptOss", "Experts", **sizes), dtype)


def _choices(module: torch.nn.Module, dtype: torch.dtype) -> Iterator[Call]:
    """Five tokens, each with two of four experts."""
    for seed, parameter in enumerate(module.parameters()):
        parameter.data = _random(*parameter.shape, dtype=dtype, seed=seed)
    chosen = torch.tensor([[0, 1], [3, 2], [1, 3], [2, 0], [3, 1]])
    hidden = _leaf(5, 8, dtype=dtype, seed=7)
    yield (module, hidden, chosen, _leaf(5, 2, dtype=dtype, seed=8)), {}


def causal_conv1d(dtype: torch.dtype) -> Iterator[Call]:
    x, weight = _leaf(2, 4, 5, dtype=dtype, seed=0), _leaf(4, 3, dtype=dtype, seed=1)
    bias = _leaf(4, dtype=dtype, seed=2)
    for arguments in ((x, weight, bias), (x, weight)):
        yield arguments, {"activation": "silu"}
        yield arguments, {}


def selective_scan(dtype: torch.dtype) -> Iterator[Call]:
    leaf = partial(_leaf, dtype=dtype)
    x, dt, z = (leaf(2, 4, 3, seed=n) for n in range(3))
    decay = (-_random(4, 5, dtype=dtype, seed=3).abs()).requires_grad_()
    arguments = (x, dt, decay, leaf(2, 5, 3, seed=4), leaf(2, 5, 3, seed=5))
    for return_last_state in (False, True):
        yield (
            (*arguments, leaf(4, seed=6), z, leaf(4, seed=7)),
            {"delta_softplus": True, "return_last_state": return_last_state},
        )
    yield arguments, {}


def chunk_scan(dtype: torch.dtype) -> Iterator[Call]:
    leaf = partial(_leaf, dtype=dtype)
    x, dt = leaf(2, 6, 4, 3, seed=0), leaf(2, 6, 4, seed=1)
    decay = (-_random(4, dtype=dtype, seed=2).abs()).requires_grad_()
    arguments = (x, dt, decay, leaf(2, 6, 2, 5, seed=3), leaf(2, 6, 2, 5, seed=4))
    named = {"D": leaf(4, seed=5), "dt_bias": leaf(4, seed=6), "dt_softplus": True}
    for chunk_size in (4, 2):  # 4 does not divide the length
        yield (*arguments, chunk_size), {**named, "dt_limit": (0.0, 1.0)}
    yield (*arguments, 3), {"return_final_states": True}


def lightning_attention(dtype: torch.dtype) -> Iterator[Call]:
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "head_dim": 4, "block_size": 2}
    module = _part("minimax", "MiniMax", "LightningAttention", 0, **sizes).to(dtype)
    for seed, length in enumerate((3, 4)):  # 2 does not divide 3
        x, mask = _leaf(2, length, 8, dtype=dtype, seed=seed), torch.ones(2, length)
        yield (module, x), {"position_embeddings": None, "attention_mask": mask if seed else None}


def gated_delta_rule(dtype: torch.dtype) -> Iterator[Call]:
    leaf = partial(_leaf, dtype=dtype)
    gate = (-_random(2, 3, 4, dtype=dtype, seed=3).abs()).requires_grad_()
    of_values = (leaf(2, 3, 4, 6, seed=2), gate, leaf(2, 3, 4, seed=4))
    for groups, normalized in ((2, True), (4, False)):  # 4 value heads
        query, key = (leaf(2, 3, groups, 5, seed=n) for n in range(2))
        named = {"chunk_size": 2, "use_qk_l2norm_in_kernel": normalized}
        yield (query, key, *of_values), named
    state = _leaf(2, 4, 5, 6, dtype=torch.float32, seed=5)
    yield (query, key, *of_values, 4, state), {"output_final_state": True}


def rnn_scan(dtype: torch.dtype) -> Iterator[Call]:
    sizes = {"hidden_size": 4, "lru_width": 4, "num_attention_heads": 2}
    module = _part("recurrent_gemma", "RecurrentGemma", "Rglru", **sizes).to(dtype)
    x, gate = (_leaf(2, 3, 4, dtype=dtype, seed=n) for n in range(2))
    reset = torch.tensor([[[True], [False], [True]], [[False], [False], [False]]])
    yield (module, x, gate, reset, None), {}
    yield (module, x, gate, reset, _leaf(2, 4, dtype=torch.float32, seed=2)), {}


def wkv(dtype: torch.dtype) -> Iterator[Call]:
    decay, first = _leaf(4, dtype=dtype, seed=0), _leaf(4, dtype=dtype, seed=1)
    key, value = (_leaf(2, 3, 4, dtype=dtype, seed=n) for n in (2, 3))
    yield (decay, first, key, value), {}


def lion(dtype: torch.dtype) -> Iterator[Call]:
    for decay in (0.0, 0.1):
        parameter, gradient, average = (_random(3, dtype=dtype, seed=n) for n in range(3))
        yield (parameter, gradient, average, 0.01, decay, 0.9, 0.99), {}


def scale_by_adam(dtype: torch.dtype) -> Iterator[Call]:
    gradient, average, square = (_random(3, dtype=dtype, seed=n) for n in range(3))
    operands, named = (gradient, average, square.square()), {"beta1": 0.9, "beta2": 0.999}
    for step, eps_root, nesterov in ((1, 0.0, False), (8, 1e-6, False), (4, 0.0, True)):
        first, second, third = (
            torch.tensor(1 - beta**count)
            for beta, count in ((0.9, step + nesterov), (0.999, step), (0.9, step))
        )
        divisors = (first, second, third if nesterov else None)
        yield (*operands, *divisors), {**named, "eps": 1e-8, "eps_root": eps_root}
    one, other = torch.tensor(0.1), torch.tensor(0.2)
    each = torch.tensor([0.1, 0.2, 0.3])  # divisors with which a call is left alone
    for divisors in ((each, each / 2, None), (one, other, each)):
        yield (*operands, *divisors), {**named, "eps": 1e-8}


def scale_by_lion(dtype: torch.dtype) -> Iterator[Call]:
    for beta1, beta2 in ((0.9, 0.99), (0.0, 0.5)):
        gradient, average = (_random(3, dtype=dtype, seed=n) for n in range(2))
        yield (gradient, average), {"beta1": beta1, "beta2": beta2}


def momentum_trace(dtype: torch.dtype) -> Iterator[Call]:
    for nesterov in (False, True):
        gradient, trace = (_random(3, dtype=dtype, seed=n) for n in range(2))
        yield (gradient, trace), {"decay": 0.9, "nesterov": nesterov}


def sgd(dtype: torch.dtype) -> Iterator[Call]:
    numbers = {"lr": 0.01, "weight_decay": 0.01, "momentum": 0.9, "dampening": 0.0}
    for nesterov in (False, True):
        parameter, gradient, momentum = (_random(3, dtype=dtype, seed=n) for n in range(3))
        flags = {"nesterov": nesterov, "maximize": False, "has_sparse_grad": False}
        yield ([parameter], [gradient], [momentum], None, None), {**numbers, **flags}


def lstm_cell(dtype: torch.dtype) -> Iterator[Call]:
    for bias in (True, False):
        x, *states = (_leaf(2, size, dtype=dtype, seed=n) for n, size in enumerate((3, 4, 4)))
        yield (x, states, *torch.nn.LSTMCell(3, 4, bias).to(dtype).parameters()), {}


def gru_cell(dtype: torch.dtype) -> Iterator[Call]:
    for bias in (True, False):
        x, state = (_leaf(2, size, dtype=dtype, seed=n) for n, size in enumerate((3, 4)))
        yield (x, state, *torch.nn.GRUCell(3, 4, bias).to(dtype).parameters()), {}


def scanned_gru_cell(dtype: torch.dtype) -> Iterator[Call]:
    for (x, h, w_ih, w_hh, *biases), _ in gru_cell(dtype):
        named = dict(zip(("b_ih", "b_hh"), biases, strict=False))
        yield ({"h": h, "w_ih": w_ih, "w_hh": w_hh, **named}, x), {}


def embedding_bag(dtype: torch.dtype) -> Iterator[Call]:
    rows, offsets = torch.tensor([1, 2, 4, 1, 3, 0, 5, 2]), torch.tensor([0, 0, 3])
    for mode in ("mean", "sum", "max"):
        options = {"mode": mode}
        weight = _leaf(6, 3, dtype=dtype, seed=0)
        yield (rows.reshape(2, 4), weight), options
        yield (rows.reshape(2, 4), weight), {**options, "padding_idx": 1}
        yield (rows, weight, offsets), {**options, "padding_idx": -4}
        ends = torch.tensor([0, 2, 2, 8])
        yield (rows, weight, ends), {**options, "include_last_offset": True}
    factors = _leaf(8, dtype=dtype, seed=1)
    options = {"mode": "sum"}
    yield (rows, weight, offsets), {**options, "per_sample_weights": factors}
    yield (rows.reshape(4, 2), weight), {**options, "per_sample_weights": factors.reshape(4, 2)}


def fft_r2c(dtype: torch.dtype) -> Iterator[Call]:
    for dim, normalization, onesided in (([1], 0, True), ([0, 2], 1, True), ([2], 2, False)):
        yield (_leaf(2, 5, 6, dtype=dtype, seed=0), dim, normalization, onesided), {}


def fft_c2c(dtype: torch.dtype) -> Iterator[Call]:
    for dim, normalization, forward in (([1], 0, True), ([0, 2], 1, False), ([0, 1, 2], 2, False)):
        yield (_complex(2, 5, 6, dtype=dtype), dim, normalization, forward), {}


def fft_c2r(dtype: torch.dtype) -> Iterator[Call]:
    for dim, normalization, size in (([2], 0, 10), ([0, 2], 1, 11), ([0, 1, 2], 2, 10)):
        yield (_complex(2, 5, 6, dtype=dtype), dim, normalization, size), {}


def _complex(*shape: int, dtype: torch.dtype) -> Tensor:
    """Complex numbers of a floating-point type. Of bf16, whose complex numbers the CPU of PyTorch
    2.14 cannot multiply, they are those of f32."""
    dtype = torch.float32 if dtype == torch.bfloat16 else dtype
    imaginary = 1j * _random(*shape, dtype=dtype, seed=1)
    return (_random(*shape, dtype=dtype) + imaginary).requires_grad_()


def lstm(dtype: torch.dtype) -> Iterator[Call]:
    for x, states, weights, options in _layers("LSTM", dtype):
        yield (x, states, weights, *options), {}


def gru(dtype: torch.dtype) -> Iterator[Call]:
    for x, (state, _), weights, options in _layers("GRU", dtype):
        yield (x, state, weights, *options), {}


def _layers(
    mode: str, dtype: torch.dtype
) -> Iterator[tuple[Tensor, list[Tensor], list[Tensor], tuple[Any, ...]]]:
    """Operands, states, weights, and other arguments of layers with a state of 4."""
    for layers, bias, two_ways, batch_first in (
        (1, True, False, False),
        (1, False, True, True),
        (2, True, True, False),
    ):
        x = _leaf(*((2, 5, 3) if batch_first else (5, 2, 3)), dtype=dtype, seed=0)
        count = layers * (2 if two_ways else 1)
        states = [_leaf(count, 2, 4, dtype=dtype, seed=20 + n) for n in range(2)]
        layer = torch.nn.RNNBase(mode, 3, 4, layers, bias, bidirectional=two_ways).to(dtype)
        yield x, states, list(layer.parameters()), (bias, layers, 0.0, False, two_ways, batch_first)


def adafactor(dtype: torch.dtype) -> Iterator[Call]:
    numbers = {"d": 1.0, "lr": 0.01, "beta2_decay": -0.8, "weight_decay": 0.1, "eps2": 1e-3}
    for shape, maximize in (((3, 4), False), ((2, 3, 4), True), ((5,), False)):
        param, grad = (_random(*shape, dtype=dtype, seed=n) for n in range(2))
        square = _random(*shape, dtype=dtype, seed=2).abs()
        if len(shape) > 1:
            row, column, whole = square[..., :1].clone(), square[..., :1, :].clone(), None
        else:
            row, column, whole = None, None, square
        states = ([row], [column], [whole], [torch.tensor(3.0)])
        flags = {"eps1": None, "maximize": maximize, "has_complex": False}
        yield ([param], [grad], *states, None, None), {**numbers, **flags}


NEWTON_SCHULZ = {"ns_coefficients": (3.4445, -4.775, 2.0315), "ns_steps": 5, "eps": 1e-7}


def muon(dtype: torch.dtype) -> Iterator[Call]:
    # The direction is rounded to bf16, also in f32.
    numbers = {"lr": 0.0003, "weight_decay": 0.1, "momentum": 0.95, **NEWTON_SCHULZ}
    for shape, nesterov, adjust in (
        ((3, 4), True, None),
        ((6, 4), False, "match_rms_adamw"),
        ((4, 4), True, "original"),
    ):
        param, grad, momentum = (_random(*shape, dtype=dtype, seed=n) for n in range(3))
        options = {"nesterov": nesterov, "adjust_lr_fn": adjust, "has_complex": False}
        yield ([param], [grad], [momentum]), {**numbers, **options}


def zeropower_via_newtonschulz(dtype: torch.dtype) -> Iterator[Call]:
    for shape in ((3, 4), (6, 4), (4, 4)):
        yield (_random(*shape, dtype=dtype),), dict(NEWTON_SCHULZ)


def clip_grad_norm(dtype: torch.dtype) -> Iterator[Call]:
    for norm_type, max_norm in ((2.0, 1.0), (1.0, 1e6), (float("inf"), 0.5)):
        parameters = [torch.nn.Parameter(_random(*shape, dtype=dtype)) for shape in ((3,), (2, 2))]
        for number, parameter in enumerate(parameters):
            parameter.grad = _random(*parameter.shape, dtype=dtype, seed=number + 1)
        yield (parameters, max_norm, norm_type), {}


def fused_adamw(dtype: torch.dtype) -> Iterator[Call]:
    return _fused(dtype, decoupled_weight_decay=True)


def fused_adam(dtype: torch.dtype) -> Iterator[Call]:
    return _fused(dtype, decoupled_weight_decay=False)


def _fused(dtype: torch.dtype, **flags: bool) -> Iterator[Call]:
    numbers = {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
    flags |= {"has_complex": False, "capturable": False, "differentiable": False}
    for amsgrad, steps in ((False, (3.0, 3.0)), (True, (3.0, 4.0))):
        params, grads, averages, squares, greatest = (
            [_random(*shape, dtype=dtype, seed=seed) for shape in ((3,), (2, 2))]
            for seed in range(5)
        )
        states = (averages, [s.abs() for s in squares], [g.abs() for g in greatest if amsgrad])
        counts = [torch.tensor(step) for step in steps]
        own = {"amsgrad": amsgrad, "maximize": amsgrad}
        yield (params, grads, *states, counts, None, None), {**numbers, **flags, **own}


def linear_cross_entropy(dtype: torch.dtype) -> Iterator[Call]:
    rows = torch.tensor([[0, 4, 3], [2, 2, 1]])
    for bias in (None, _leaf(5, dtype=dtype, seed=2)):
        for reduction, ignored, smoothing in (
            (1, -100, 0.0), (2, 2, 0.1), (2, 2, 0.0), (0, -100, 0.0),
        ):  # fmt: skip
            states, weight = _leaf(2, 3, 8, dtype=dtype, seed=0), _leaf(5, 8, dtype=dtype, seed=1)
            target = torch.where(rows == 3, ignored, rows)
            yield (states, weight, target, bias, reduction, ignored, smoothing), {}


def dot_product_attention(dtype: torch.dtype) -> Iterator[Call]:
    for number, (batch, heads) in enumerate((((2,), 4), ((), 2))):
        seed = 10 * number
        query = _leaf(*batch, 5, heads, 8, dtype=dtype, seed=seed)
        key = _leaf(*batch, 3, 2, 8, dtype=dtype, seed=seed + 1)
        value = _leaf(*batch, 3, 2, 6, dtype=dtype, seed=seed + 2)
        bias = _leaf(heads, 5, 3, dtype=dtype, seed=seed + 3)
        mask = _random(heads, 5, 3, dtype=torch.float32, seed=seed + 4) > -1
        yield (query, key, value), {}
        yield (query, key, value), {"is_causal": True, "scale": 0.5}
        yield (query, key, value, mask), {}
        yield (query, key, value, bias), {"is_causal": True}
        yield (query, key, value, mask, bias), {}


def int8_weight_only_linear(dtype: torch.dtype) -> Iterator[Call]:
    for x, bias in _with_bias(dtype):
        for scales in ((5, 1), (1, 1)):
            yield (x, _integers(5, 8), _scales(*scales), bias), {}


def intx_weight_only_linear(dtype: torch.dtype) -> Iterator[Call]:
    for x, bias in _with_bias(dtype):
        scale, zeros = _scales(5, 2).to(dtype), _integers(5, 2, bits=4)
        for zero_point, options in (
            (zeros, {}),
            (zeros.to(dtype), {"activation": "int8_asymmetric"}),
            (torch.zeros_like(zeros), {"bits": 8}),
        ):
            weight = _integers(5, 8, bits=int(options.get("bits", 4)))
            yield (x, weight, scale, zero_point, bias), {"group_size": 4, **options}


def int8_dynamic_linear(dtype: torch.dtype) -> Iterator[Call]:
    for x, bias in _with_bias(dtype):
        for symmetric, per_tensor in ((True, False), (True, True), (False, False)):
            options = {"symmetric": symmetric, "per_tensor": per_tensor}
            yield (x, _integers(5, 8), _scales(5, 1), bias), options


def float8_weight_only_linear(dtype: torch.dtype) -> Iterator[Call]:
    for x, bias in _with_bias(dtype):
        weight = _random(5, 8, dtype=torch.float8_e4m3fn, seed=3)
        for scales in ((5, 1), (1, 1)):
            yield (x, weight, _scales(*scales), bias), {}


def mx_linear(dtype: torch.dtype) -> Iterator[Call]:
    scale = _bytes(5, 2, least=120, most=132).view(torch.float8_e8m0fnu)
    for x, bias in _with_bias(dtype, features=64):
        for weight, scaling in (
            (_random(5, 64, dtype=torch.float8_e4m3fn, seed=3), "rceil"),
            (_random(5, 64, dtype=torch.float8_e5m2, seed=3), "floor"),
            (_bytes(5, 32), "ceil"),
            (_bytes(5, 32), "even"),
        ):
            operands = (x.detach(), weight, scale, None if bias is None else bias.detach())
            yield operands, {"scaling": scaling}


def nvfp4_linear(dtype: torch.dtype) -> Iterator[Call]:
    scale, whole = _scales(5, 4).to(torch.float8_e4m3fn), torch.tensor(0.5)
    for x, bias in _with_bias(dtype, features=64):
        for activation in ("none", "static", "dynamic"):
            required = (x.detach(), _bytes(5, 32), scale, whole, whole / 1000)
            operands = (*required, None if bias is None else bias.detach())
            yield operands, {"activation": activation}


def _with_bias(dtype: torch.dtype, features: int = 8) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Inputs of linear layers with 5 results, with a bias and without."""
    yield _leaf(2, 3, features, dtype=dtype, seed=0), _leaf(5, dtype=dtype, seed=1)
    yield _leaf(4, features, dtype=dtype, seed=0), None


def _bytes(*shape: int, least: int = 0, most: int = 256) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(least, most, shape, generator=generator, dtype=torch.uint8)


def _integers(*shape: int, bits: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(bits)
    limit = 2 ** (bits - 1)
    return torch.randint(-limit, limit, shape, generator=generator, dtype=torch.int8)


def _scales(*shape: int) -> Tensor:
    return _random(*shape, dtype=torch.float32, seed=2).abs() / 8


def fake_quantize_per_tensor(dtype: torch.dtype) -> Iterator[Call]:
    x = _leaf(4, 6, dtype=dtype, seed=0)
    for scale, zero_point, limits in (
        (0.1, 3, (-8, 7)),
        (0.37, 0, (-128, 127)),
        (0.05, 9, (0, 15)),
    ):
        yield (x, scale, zero_point, *limits), {}


def fake_quantize_per_tensor_with_tensors(dtype: torch.dtype) -> Iterator[Call]:
    x, zero_point = _leaf(4, 6, dtype=dtype, seed=0), torch.tensor([3], dtype=torch.int32)
    for is_on in (1, 0):
        yield (x, torch.tensor([0.1]), zero_point, torch.tensor([is_on]), -8, 7), {}


def fake_quantize_per_channel(dtype: torch.dtype) -> Iterator[Call]:
    x, scale = _leaf(4, 6, dtype=dtype, seed=0), _scales(6) + 0.05
    zeros = torch.arange(6) - 3
    for zero_point in (zeros.to(torch.int32), zeros / 4):
        yield (x, scale, zero_point, 1, -8, 7), {}
        yield (x.t(), scale, zero_point, 0, -8, 7), {}


_I8 = (-128, 127, torch.int8)


def quantize_per_tensor(dtype: torch.dtype) -> Iterator[Call]:
    x = _random(4, 6, dtype=dtype)
    yield (x, 0.01, 3, *_I8), {}
    yield (x, 0.1, 9, 0, 15, torch.uint8), {}


def quantize_per_tensor_with_tensors(dtype: torch.dtype) -> Iterator[Call]:
    for scale in (torch.tensor([0.02], dtype=torch.float64), torch.tensor(0.02)):
        yield (_random(4, 6, dtype=dtype), scale, torch.tensor([3]), *_I8), {}


def quantize_per_channel(dtype: torch.dtype) -> Iterator[Call]:
    zeros = torch.arange(6) - 3
    for x, axis in ((_random(4, 6, dtype=dtype), 1), (_random(6, 2, 3, dtype=dtype), 0)):
        yield (x, _scales(6) + 0.01, zeros, axis, *_I8), {}


def dequantize_per_tensor(dtype: torch.dtype) -> Iterator[Call]:
    for out_dtype in (None, dtype):
        yield (_integers(4, 6), 0.1, 3, *_I8), {"out_dtype": out_dtype}


def dequantize_per_tensor_with_tensors(dtype: torch.dtype) -> Iterator[Call]:
    for scale in (torch.tensor([0.02], dtype=torch.float64), torch.tensor(0.02)):
        yield (_integers(4, 6), scale, torch.tensor([3]), *_I8), {"out_dtype": dtype}


def dequantize_per_channel(dtype: torch.dtype) -> Iterator[Call]:
    for zeros in (torch.arange(6) - 3, None):
        for x, axis in ((_integers(4, 6), 1), (_integers(6, 2, 3), 0)):
            yield (x, _scales(6), zeros, axis, *_I8), {"out_dtype": dtype}


def choose_qparams(dtype: torch.dtype) -> Iterator[Call]:
    for x in (_random(4, 6, dtype=dtype), _random(4, 6, dtype=dtype).abs()):
        yield (x, -128, 127, 2.0**-12, torch.int8), {}


def weight_int8pack_mm(dtype: torch.dtype) -> Iterator[Call]:
    yield (_random(4, 32, dtype=dtype), _integers(16, 32), _scales(16).to(dtype)), {}


def scaled_mm(dtype: torch.dtype) -> Iterator[Call]:
    a = _random(16, 32, dtype=torch.float8_e4m3fn)
    b = _random(48, 32, dtype=torch.float8_e4m3fn, seed=1).t()
    bias = _random(48, dtype=dtype, seed=2)
    for scales in ((_scales(1)[0], _scales(2)[1]), (_scales(16, 1), _scales(1, 48))):
        yield (a, b, *scales), {"out_dtype": dtype}
        yield (a, b, *scales, bias), {"out_dtype": dtype}


def attention(dtype: torch.dtype) -> Iterator[Call]:
    query, key, value = _cached(dtype)
    padding = torch.arange(6).reshape(1, 1, 1, 6) > torch.tensor([-1, 1]).reshape(2, 1, 1, 1)
    bias = _leaf(1, 4, 2, 6, dtype=dtype, seed=4)
    yield (query, key, value), {"scale": 0.3}
    yield (query, key, value, padding), {"scale": 0.3, "is_causal": True, "window": 2}
    yield (query, key, value, bias), {"scale": 0.5, "is_causal": True, "softcap": 2.0}


def sink_attention(dtype: torch.dtype) -> Iterator[Call]:
    sinks = _leaf(4, dtype=dtype, seed=3)
    for (query, key, value, *mask), options in attention(dtype):
        yield (query, key, value, sinks, *mask), options


def cached_attention(dtype: torch.dtype) -> Iterator[Call]:
    query, key, value = _cached(dtype)
    sinks = _leaf(4, dtype=dtype, seed=3)
    yield (query, key, value, torch.tensor([[2, 3]])), {"scale": 0.3}
    positions = torch.tensor([[4, 5], [0, 1]])
    options = {"scale": 0.3, "window": 3, "softcap": 2.0}
    yield (query, key, value, positions, sinks), options


def paged_attention(dtype: torch.dtype) -> Iterator[Call]:
    query = _leaf(2, 4, 8, dtype=dtype, seed=0)
    keys, values = (_leaf(2, 5, 4, 8, dtype=dtype, seed=n) for n in (1, 2))
    sinks = _leaf(4, dtype=dtype, seed=3)
    lengths, pages = torch.tensor([7, 3]), torch.tensor([[3, 0], [4, 1]])
    yield (query, keys, values, lengths, pages), {"scale": 0.3}
    options = {"scale": 0.3, "window": 4, "softcap": 2.0}
    yield (query, keys, values, lengths.int(), pages.int(), sinks), options


def update_kv_cache(dtype: torch.dtype) -> Iterator[Call]:
    _, cache, _ = _cached(dtype)
    rows = _leaf(2, 2, 2, 8, dtype=dtype, seed=3)
    yield (cache, 2, torch.tensor([1, 4]), rows), {}
    yield (cache[0], 2, torch.tensor([1, 4]), cache[0, :, :, :2]), {}


def _cached(dtype: torch.dtype) -> list[Tensor]:
    """Two queries of four heads, and a cache of two heads with six places."""
    sizes = (4, 2), (2, 6), (2, 6)
    return [_leaf(2, *size, 8, dtype=dtype, seed=n) for n, size in enumerate(sizes)]
