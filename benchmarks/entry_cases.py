"""Each entry of the built-in registry at the size of a real model, one row each.

A backward is measured with its forward. Entries of operators have their example call in other
sizes; those of transformers' functions have a call of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.calls import Call, Case, Update, sized
from composites.torch_internals import assign_all

HIDDEN = "1024x3072xf32"
IMAGE = "8x64x56x56xf32"
SMALL_IMAGE = "2x64x64x64xf32"
QUERY, KEY, HALF, WHOLE = "2x8x512x64xf32", "2x2x512x64xf32", "2x512x32xf32", "2x512x64xf32"
LOGITS = "1024x16000xf32"


def _leaf(*shape: int) -> Tensor:
    return torch.randn(shape).requires_grad_()


def _of(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def _model(name: str) -> str:
    return f"transformers.models.{name}.modeling_{name}"


def _module(
    entry: str, size: tuple[int, ...], target: str, *arguments: Any, **keywords: Any
) -> Case:
    """A module of transformers, called with one tensor."""

    def make() -> Call:
        module: nn.Module = _of(target)(*arguments, **keywords)
        return Call(_call, (module, _leaf(*size)))

    return Case(entry, "x".join((*map(str, size), "f32")), make)


def _call(module: nn.Module, *arguments: Any, **keywords: Any) -> Any:
    return module(*arguments, **keywords)


def _later(target: str) -> Callable[..., Any]:
    """A function that is looked up at each call, because turning the entry on replaces it."""
    return lambda *arguments, **keywords: _of(target)(*arguments, **keywords)


def _function(entry: str, size: str, target: str, arguments: Callable[[], Any]) -> Case:
    def make() -> Call:
        positional, keywords = arguments()
        return Call(_later(target), positional, keywords)

    return Case(entry, size, make)


def _rows(limit: int, *shape: int) -> Tensor:
    return torch.randint(limit, shape, generator=torch.Generator().manual_seed(0))


def _complex_leaf(*shape: int) -> Tensor:
    return torch.complex(torch.randn(shape), torch.randn(shape)).requires_grad_()


def _step_of_gru() -> tuple[tuple[Any, ...], dict[str, Any]]:
    carry = {"h": _leaf(64, 512), "w_ih": _leaf(1536, 256), "w_hh": _leaf(1536, 512)}
    return (carry | {"b_ih": _leaf(1536), "b_hh": _leaf(1536)}, _leaf(64, 256)), {}


# ---- attention ----


def _heads(module: nn.Module, keys: int) -> tuple[Any, ...]:
    mask = torch.full((1, 1, 256, 256), torch.finfo(torch.float32).min).triu(1)
    module.num_key_value_groups = 8 // keys  # type: ignore[assignment]
    return module, _leaf(2, 8, 256, 64), _leaf(2, keys, 256, 64), _leaf(2, keys, 256, 64), mask


def _output(attention: Callable[..., Any]) -> Callable[..., Any]:
    """The first result. The second are the weights, which models drop unless they are asked for
    them. They are no result of the composite, and would be computed a second time here."""
    return lambda *arguments, **keywords: attention(*arguments, **keywords)[0]


def _eager_attention() -> Call:
    function = _output(_later(f"{_model('llama')}:eager_attention_forward"))
    return Call(function, _heads(nn.Module(), 2), {"scaling": 0.125, "dropout": 0.0})


def _attention_with_sinks() -> Call:
    module = nn.Module()
    module.sinks = nn.Parameter(torch.randn(8))
    function = _output(_later(f"{_model('gpt_oss')}:eager_attention_forward"))
    return Call(function, _heads(module, 2), {"scaling": 0.125, "dropout": 0.0})


def _dot_product_attention() -> Call:
    function = _later("composites.operators.attention:dot_product_attention")
    operands = (_leaf(2, 256, 8, 64), _leaf(2, 256, 2, 64), _leaf(2, 256, 2, 64))
    return Call(function, operands, {"is_causal": True})


def _scaled_attention() -> Call:
    from transformers.models.gptj.configuration_gptj import GPTJConfig
    from transformers.models.gptj.modeling_gptj import GPTJAttention

    make: Any = GPTJAttention  # it has no type hints
    module = make(GPTJConfig(n_embd=512, n_head=8, rotary_dim=32, attn_pdrop=0.0), 0)
    _, *operands = _heads(nn.Module(), 8)
    function = _output(lambda module, *heads: module._attn(*heads))
    return Call(function, (module, *operands))


def _relative_position_bias() -> Call:
    from transformers.models.swin.modeling_swin import SwinRelativePositionBias

    return Call(_call, (SwinRelativePositionBias(12, (12, 12)),))


# ---- experts ----


def _moe(**settings: Any) -> Any:
    from transformers.models.qwen3_moe.configuration_qwen3_moe import Qwen3MoeConfig

    config: Any = Qwen3MoeConfig(
        hidden_size=256, moe_intermediate_size=256, num_experts=8, num_experts_per_tok=2, **settings
    )
    config._experts_implementation = "batched_mm"
    return config


def _top_k_routing() -> Call:
    router = _of(f"{_model('qwen3_moe')}:Qwen3MoeTopKRouter")(_moe(norm_topk_prob=True))
    router.weight.data = torch.randn(router.weight.shape)
    return Call(_call, (router, _leaf(1024, 256)))


def _experts() -> Call:
    return _chosen(_of(f"{_model('qwen3_moe')}:Qwen3MoeExperts")(_moe(hidden_act="silu")))


def _gpt_oss_experts() -> Call:
    from transformers.models.gpt_oss.configuration_gpt_oss import GptOssConfig

    config: Any = GptOssConfig(hidden_size=256, intermediate_size=256, num_local_experts=8)
    config._experts_implementation = "batched_mm"
    return _chosen(_of(f"{_model('gpt_oss')}:GptOssExperts")(config))


def _chosen(module: nn.Module) -> Call:
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape) * 0.05
    index = torch.stack([torch.randperm(8)[:2] for _ in range(64)])
    return Call(_call, (module, _leaf(64, 256), index, _leaf(64, 2)))


# ---- norms, gates ----


def _gated() -> Call:
    norm = _of(f"{_model('mamba2')}:MambaRMSNormGated")(768, 768, eps=1e-5)
    return Call(_call, (norm, _leaf(1024, 768), _leaf(1024, 768)))


def _frozen_batch_norm() -> Call:
    norm = _of(f"{_model('detr')}:DetrFrozenBatchNorm2d")(64)
    norm.running_var += torch.rand(64)
    return Call(_call, (norm, _leaf(8, 64, 56, 56)))


def _linear_cross_entropy() -> Call:
    function = _later("composites.operators.linear_cross_entropy:linear_cross_entropy_loss")
    classes = torch.randint(0, 16000, (1024,))
    return Call(function, (_leaf(1024, 256), _leaf(16000, 256), classes))


def _swiglu() -> Call:
    from transformers.models.llama.configuration_llama import LlamaConfig

    config = LlamaConfig(hidden_size=384, intermediate_size=1024, num_attention_heads=6)
    return Call(_call, (_of(f"{_model('llama')}:LlamaMLP")(config), _leaf(1024, 384)))


# ---- scans ----


def _causal_conv1d() -> Any:
    return (_leaf(2, 1536, 256), _leaf(1536, 4), _leaf(1536)), {"activation": "silu"}


def _selective_scan() -> Any:
    decay = (-torch.rand(256, 16)).requires_grad_()
    x, dt, z = (_leaf(2, 256, 64) for _ in range(3))
    operands = (x, dt, decay, _leaf(2, 16, 64), _leaf(2, 16, 64), _leaf(256), z, _leaf(256))
    return operands, {"delta_softplus": True}


def _chunk_scan() -> Any:
    decay = (-torch.rand(8)).requires_grad_()
    operands = (_leaf(2, 256, 8, 32), _leaf(2, 256, 8), decay, _leaf(2, 256, 1, 64))
    options = {"D": _leaf(8), "dt_bias": _leaf(8), "dt_softplus": True}
    return (*operands, _leaf(2, 256, 1, 64), 64), options


def _rnn_scan() -> Call:
    from transformers.models.recurrent_gemma.configuration_recurrent_gemma import (
        RecurrentGemmaConfig,
    )

    sizes: dict[str, Any] = {"hidden_size": 256, "lru_width": 256, "num_attention_heads": 4}
    name = f"{_model('recurrent_gemma')}:RecurrentGemmaRglru"
    module = _of(name)(RecurrentGemmaConfig(**sizes))
    reset = torch.zeros(2, 64, 1, dtype=torch.bool)
    gate = torch.rand(2, 64, 256).requires_grad_()
    arguments = (module, _leaf(2, 64, 256), gate, reset, torch.zeros(2, 256))
    return Call(lambda module, *rest: module._rnn_scan(*rest), arguments)


def _wkv() -> Any:
    return (_leaf(256), _leaf(256), _leaf(2, 16, 256), _leaf(2, 16, 256)), {}


# ---- products wider than their operands ----


def _wide(entry: str, operator: str, *shapes: tuple[int, ...], rest: tuple[Any, ...] = ()) -> Case:
    """Stock computes the same numbers from operands that it casts first."""

    def make() -> Call:
        from torch._higher_order_ops.out_dtype import out_dtype

        operands = [torch.randn(shape).to(torch.bfloat16) for shape in shapes]
        return Call(out_dtype, (_overload(operator), torch.float32, *operands, *rest))

    return Case(entry, "x".join((*map(str, shapes[-1]), "bf16")), make)


def _overload(operator: str) -> Any:
    return getattr(torch.ops.aten, operator).default


# ---- optimizers ----

SHAPES = ((8192, 384), *((384, 384), (1536, 384), (384, 1536), (384,), (1536,)) * 8)
"""14 million parameters in 41 tensors."""


def _optimizer(entry: str, make: Callable[..., torch.optim.Optimizer], **options: Any) -> Case:
    shapes = tuple(s for s in SHAPES if len(s) == 2) if entry in _MATRICES else SHAPES

    def step(parameters: list[nn.Parameter]) -> Callable[[], Any]:
        return make(parameters, **options).step

    return Case(entry, f"{len(shapes)} tensors", lambda: Update(step, shapes))


_MATRICES = ("muon", "zeropower_via_newtonschulz")


def _lion(parameters: list[nn.Parameter]) -> Callable[[], None]:
    """`lion_pytorch.Lion` without its loop; it keeps the function that it was made with."""
    update = _later("lion_pytorch.lion_pytorch:update_fn")
    averages = [torch.zeros_like(parameter) for parameter in parameters]

    @torch.no_grad()
    def step() -> None:
        for parameter, average in zip(parameters, averages, strict=True):
            update(parameter, parameter.grad, average, 1e-4, 0.1, 0.9, 0.99)

    return step


def _scale_by_adam(parameters: list[nn.Parameter]) -> Callable[[], None]:
    """The update of optax, as a step of PyTorch."""
    update = _later("composites.operators.optimizers:scale_by_adam")
    states = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
    numbers = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}

    @torch.no_grad()
    def step() -> None:
        corrections = [torch.full((), n, device=parameters[0].device) for n in (0.1, 0.001)]
        for parameter, state in zip(parameters, states, strict=True):
            direction, *after = update(parameter.grad, *state, *corrections, **numbers)
            assign_all((parameter, *state), (parameter - 1e-3 * direction, *after))

    return step


def _direction(entry: str, parameters: list[nn.Parameter], **numbers: Any) -> Callable[[], None]:
    """An update of optax with one array beside the gradient, as a step of PyTorch."""
    update = _later(f"composites.operators.optimizers:{entry}")
    states = [torch.zeros_like(parameter) for parameter in parameters]

    @torch.no_grad()
    def step() -> None:
        for parameter, state in zip(parameters, states, strict=True):
            direction, after = update(parameter.grad, state, **numbers)
            assign_all((parameter, state), (parameter - 1e-3 * direction, after))

    return step


_lion_of_optax = partial(_direction, "scale_by_lion", beta1=0.9, beta2=0.99)
_trace_of_optax = partial(_direction, "momentum_trace", decay=0.9, nesterov=False)


def _clipping(parameters: list[nn.Parameter]) -> Callable[[], Any]:
    return partial(_later("torch.nn.utils:clip_grad_norm_"), parameters, 1.0)


_STATISTICS = ("running_mean", "running_var")
_BATCH_NORM: dict[str, Any] = {
    "input": IMAGE,
    **dict.fromkeys(("weight", "bias", "running_mean", "running_var"), "64xf32"),
    "constant": _STATISTICS,
    "uniform": ("running_var",),
}
_POOL = {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0]}
_SMALL_NORM: dict[str, Any] = {"input": SMALL_IMAGE, "weight": "64xf32", "bias": "64xf32"}
_LOSS: dict[str, Any] = {"self": HIDDEN, "target": HIDDEN, "constant": ("target",)}
_UPSAMPLED: dict[str, Any] = {"self": SMALL_IMAGE, "plain": {"output_size": [128, 128]}}
_ROTATED: dict[str, Any] = {"q": QUERY, "k": KEY, "constant": ("cos", "sin")}
_CELL: dict[str, Any] = {"input": "64x256xf32", "b_ih": "2048xf32", "b_hh": "2048xf32"}

CASES: tuple[Case, ...] = (
    *(
        sized(name, self=HIDDEN)
        for name in (
            *("gelu", "silu", "hardswish", "mish", "elu", "hardsigmoid", "log_sigmoid"),
            *("softplus", "leaky_relu", "hardtanh"),
        )
    ),
    sized("glu", self="1024x4096xf32"),
    sized("softmax", self="12x512x512xf32", plain={"dim": -1}),
    sized("log_softmax", self=LOGITS, plain={"dim": -1}),
    sized("embedding", weight="50257x384xf32", indices="2x512xi64", below=50257),
    sized("nll_loss", self=LOGITS, target="1024xi64", weight="16000xf32", below=16000,
        constant=("weight",), uniform=("weight",)),
    sized("nll_loss2d", self="2x21x128x128xf32", target="2x128x128xi64", weight="21xf32", below=21,
        constant=("weight",), uniform=("weight",)),
    sized("cross_entropy_loss", self=LOGITS, target="1024xi64", below=16000),
    Case("linear_cross_entropy", "1024x256xf32, 16000 classes", _linear_cross_entropy),
    # Stock has no gradient of the first, and fails for that of the second.
    sized("kl_div", self=LOGITS, target=LOGITS, constant=("self", "target"), uniform=("target",)),
    sized("batch_norm_inference", **{**_BATCH_NORM, "constant": tuple(_BATCH_NORM)}),
    *(sized(name, **_LOSS) for name in ("mse_loss", "smooth_l1_loss", "huber_loss")),
    sized("binary_cross_entropy", **_LOSS, uniform=("self", "target")),
    sized("binary_cross_entropy_with_logits", **_LOSS, uniform=("target",)),
    *(sized(name, self=IMAGE, plain=_POOL) for name in ("avg_pool2d", "max_pool2d")),
    sized("batch_norm_training", **_BATCH_NORM),
    sized("instance_norm", **_SMALL_NORM),
    sized("group_norm", **_SMALL_NORM, plain={"N": 2, "C": 64, "HxW": 4096, "group": 8}),
    sized("layer_norm", input="1024x768xf32", weight="768xf32", bias="768xf32",
        plain={"normalized_shape": [768]}),
    sized("rms_norm", input="1024x768xf32", weight="768xf32", plain={"normalized_shape": [768]}),
    sized("weight_norm", v="768x3072xf32", g="768x1xf32"),
    *(sized(name, self=HIDDEN, plain={"dim": [-1]}) for name in ("var", "std", "var_mean")),
    sized("topk", self="128x16000xf32", plain={"k": 50, "dim": -1}),
    sized("argmax", self=LOGITS, constant=("self",), plain={"dim": -1}),
    sized("cumsum", self="1024x1024xf32", plain={"dim": -1}),
    *(sized(name, self="128x4096xf32", plain={"dim": -1}) for name in ("sort", "stable_sort")),
    sized("scatter_reduce", self="1024x256xf32", index="512x256xi64", src="512x256xf32",
        below=1024),
    *(
        sized(f"upsample_{kind}2d", **_UPSAMPLED) for kind in ("nearest", "bilinear", "bicubic")
    ),
    sized("grid_sampler_2d", input="2x32x64x64xf32", grid="2x64x64x2xf32", uniform=("grid",)),
    sized("scaled_dot_product_attention", query="1x6x1024x64xf32", key="1x6x1024x64xf32",
        value="1x6x1024x64xf32", plain={"attn_mask": None, "dropout_p": 0.0, "is_causal": True}),
    sized("dropout", input=HIDDEN, plain={"p": 0.1}),
    sized("index", self="4096x384xf32", indices=["1024xi64"], below=4096),
    *(
        sized(name, **_ROTATED, cos=size, sin=size)
        for name, size in (
            ("rotary_embedding", WHOLE),
            ("partial_rotary_embedding", HALF),
            ("interleaved_rotary_embedding", WHOLE),
            ("glm_rotary_embedding", WHOLE),
            ("deepseek_rotary_embedding", WHOLE),
            ("half_rotary_embedding", HALF),
        )
    ),
    sized("rotary_embedding_vision", q="1024x8x64xf32", k="1024x8x64xf32", cos="1024x64xf32",
        sin="1024x64xf32", constant=("cos", "sin")),
    sized("gptj_rotary_embedding", tensor="2x512x8x64xf32", sin=HALF, cos=HALF,
        constant=("cos", "sin")),
    sized("lstm_cell", **_CELL, hx=["64x512xf32", "64x512xf32"], w_ih="2048x256xf32",
        w_hh="2048x512xf32"),
    sized("gru_cell", **{**_CELL, "b_ih": "1536xf32", "b_hh": "1536xf32"}, hx="64x512xf32",
        w_ih="1536x256xf32", w_hh="1536x512xf32"),
    sized("fft_r2c", self="64x1024xf32"),
    Case("fft_c2c", "64x1024xcomplex<f32>",
        lambda: Call(torch.ops.aten._fft_c2c, (_complex_leaf(64, 1024), [1], 0, True))),
    Case("fft_c2r", "64x513xcomplex<f32>",
        lambda: Call(torch.ops.aten._fft_c2r, (_complex_leaf(64, 513), [1], 2, 1024))),
    _function("embedding_bag", "50257x64xf32, 1024x16", "torch.nn.functional:embedding_bag",
        lambda: ((_rows(50257, 1024, 16), _leaf(50257, 64)), {})),
    _function("scanned_gru_cell", "64x256xf32", "torch_xla.experimental.gru:_gru_step_fn",
        _step_of_gru),
    sized("lstm", input="32x16x256xf32", hx=["1x16x256xf32", "1x16x256xf32"],
        params=["1024x256xf32", "1024x256xf32", "1024xf32", "1024xf32"]),
    sized("gru", input="32x16x256xf32", hx="1x16x256xf32",
        params=["768x256xf32", "768x256xf32", "768xf32", "768xf32"]),
    _module("llama_rms_norm", (1024, 768), f"{_model('llama')}:LlamaRMSNorm", 768),
    _module("t5_rms_norm", (1024, 768), f"{_model('t5')}:T5LayerNorm", 768),
    _module("olmo2_rms_norm", (1024, 768), f"{_model('olmo2')}:Olmo2RMSNorm", 768),
    _module("gemma_rms_norm", (1024, 768), f"{_model('gemma')}:GemmaRMSNorm", 768),
    _module("weightless_rms_norm", (1024, 768), f"{_model('llama4')}:Llama4TextL2Norm"),
    _module("cohere_layer_norm", (1024, 768), f"{_model('cohere')}:CohereLayerNorm", 768),
    Case("rms_norm_gated", "1024x768xf32", _gated),
    Case("frozen_batch_norm", IMAGE, _frozen_batch_norm),
    _module("drop_path", (32, 196, 384), f"{_model('swin')}:SwinDropPath", 0.1),
    *(
        _module(entry, (1024, 3072), f"transformers.activations:{name}")
        for entry, name in (
            ("new_gelu", "NewGELUActivation"),
            ("fast_gelu", "FastGELUActivation"),
            ("quick_gelu", "QuickGELUActivation"),
            ("relu_squared", "ReLUSquaredActivation"),
        )
    ),
    _module("bloom_gelu", (1024, 3072), f"{_model('bloom')}:BloomGelu"),
    Case("swiglu", "1024x384xf32", _swiglu),
    Case("eager_attention", "2x8x256x64xf32", _eager_attention),
    Case("attention_with_sinks", "2x8x256x64xf32", _attention_with_sinks),
    Case("scaled_attention", "2x8x256x64xf32", _scaled_attention),
    Case("dot_product_attention", "2x256x8x64xf32", _dot_product_attention),
    Case("relative_position_bias", "12 heads, 12x12", _relative_position_bias),
    sized("alibi", attention_mask="2x2048xi64", plain={"num_heads": 32, "dtype": torch.float32}),
    Case("top_k_routing", "1024x256xf32", _top_k_routing),
    Case("experts", "64x256xf32, 8 experts", _experts),
    Case("gpt_oss_experts", "64x256xf32, 8 experts", _gpt_oss_experts),
    _function("causal_conv1d", "2x1536x256xf32", f"{_model('mamba')}:causal_conv1d_fn",
        _causal_conv1d),
    _function("selective_scan", "2x256x64xf32", f"{_model('mamba')}:mamba_selective_scan",
        _selective_scan),
    _function("chunk_scan", "2x256x8x32xf32", f"{_model('mamba2')}:mamba2_chunk_scan", _chunk_scan),
    Case("rnn_scan", "2x64x256xf32", _rnn_scan),
    _function("wkv", "2x16x256xf32", f"{_model('rwkv')}:rwkv_linear_attention_cpu", _wkv),
    _wide("mm", "mm", (512, 1024), (1024, 1024)),
    _wide("convolution", "convolution", (2, 64, 32, 32), (64, 64, 3, 3),
        rest=(None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)),
    _optimizer("adamw", torch.optim.AdamW),
    _optimizer("fused_adamw", torch.optim.AdamW),
    _optimizer("adam", torch.optim.Adam),
    _optimizer("fused_adam", torch.optim.Adam),
    _optimizer("sgd", torch.optim.SGD, lr=0.01, momentum=0.9),
    _optimizer("adafactor", torch.optim.Adafactor),
    _optimizer("muon", torch.optim.Muon),
    _optimizer("zeropower_via_newtonschulz", torch.optim.Muon),
    Case("scale_by_adam", f"{len(SHAPES)} tensors", lambda: Update(_scale_by_adam, SHAPES)),
    Case("scale_by_lion", f"{len(SHAPES)} tensors", lambda: Update(_lion_of_optax, SHAPES)),
    Case("momentum_trace", f"{len(SHAPES)} tensors", lambda: Update(_trace_of_optax, SHAPES)),
    Case("lion", f"{len(SHAPES)} tensors", lambda: Update(_lion, SHAPES)),
    Case("clip_grad_norm", f"{len(SHAPES)} tensors", lambda: Update(_clipping, SHAPES)),
)  # fmt: skip

NOT_MEASURED: Mapping[str, str] = dict.fromkeys(
    ("bmm", "addmm", "baddbmm", "matmul_accumulate"),
    "stock torch_xla has no call with its result: the product is rounded to bf16 there",
)
"""Entries that stock torch_xla has nothing to compare with."""
