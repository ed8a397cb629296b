"""Samples of the entries of registry.yaml that PyTorch's own samples do not reach.

The function with an entry's name takes a dtype and yields calls that the entry catches. The first
call is also the entry's example, unless its arguments include a module. Modules of transformers are
imported only when they are called.

Calls are rows of words, one word for each argument, and `name=value` for keyword arguments:

| word | argument |
|---|---|
| `2x3`, `x3` | a tensor of these sizes, with random numbers of the dtype |
| `2x3:i8` | a tensor of another kind, see `_KINDS` |
| `#[1,2]`, `#[1,2]:int32` | a tensor of these numbers |
| `@name` | a named value; a function is called with the dtype, and `@dtype` is the dtype |
| `[x3,2x2]` | a list |
| `1.0`, `torch.int8`, `silu` | a Python literal, a name of PyTorch, or text |
| `a\\|b` | one call with each word |
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, product
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from composites.functions import find_function

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional arguments and keyword arguments."""
Samples = Callable[[torch.dtype], Iterator[Call]]
Made = Callable[[torch.dtype], Any]
"""A function that makes an argument for a dtype."""

_SIZES = re.compile(r"(x\d+|\d+(?:x\d+)+)(?::(\w+))?")
_KINDS: Mapping[str, Callable[[Tensor, torch.dtype], Tensor]] = {
    "plain": lambda x, dtype: x.to(dtype),
    "f32": lambda x, dtype: x.requires_grad_(),
    "near": lambda x, dtype: (x + 2).to(dtype).requires_grad_(),
    "shifted": lambda x, dtype: (x + 3).to(dtype).requires_grad_(),
    "far": lambda x, dtype: (x + 30).to(dtype).requires_grad_(),
    "positive": lambda x, dtype: x.to(dtype).abs(),
    "negative": lambda x, dtype: (-x.to(dtype).abs()).requires_grad_(),
    "complex": lambda x, dtype: _complex(x, dtype),
    "mask": lambda x, dtype: x > -1,
    "i4": lambda x, dtype: (4 * x).round().clamp(-8, 7).to(torch.int8),
    "i8": lambda x, dtype: (60 * x).round().clamp(-128, 127).to(torch.int8),
    "ui8": lambda x, dtype: (70 * x + 128).clamp(0, 255).to(torch.uint8),
    "whole": lambda x, dtype: (4 * x).round().clamp(-8, 7).to(dtype),
    "e4m3": lambda x, dtype: x.to(torch.float8_e4m3fn),
    "e5m2": lambda x, dtype: x.to(torch.float8_e5m2),
    "scale": lambda x, dtype: x.abs() / 8 + 0.01,
    "narrow_scale": lambda x, dtype: (x.abs() / 8).to(dtype),
    "e4m3_scale": lambda x, dtype: (x.abs() / 8).to(torch.float8_e4m3fn),
    "e8m0_scale": lambda x, dtype: (
        (3 * x + 126).clamp(120, 131).to(torch.uint8).view(torch.float8_e8m0fnu)
    ),
}
"""Kinds of tensors, made from random numbers. `plain` and `positive` require no gradient."""


def _complex(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Complex numbers of a floating-point type. For bf16 they are of f32, because PyTorch 2.14
    cannot multiply complex bf16 numbers on the CPU."""
    x = x.to(torch.float32 if dtype == torch.bfloat16 else dtype)
    return (x + 1j * x.flip(-1)).requires_grad_()


def table(*rows: str, gradients: bool = True, **values: Any) -> Samples:
    """Return samples from rows of calls.

    Args:
        gradients: True if tensors without a kind require a gradient.
        values: the values for words such as `@name`.
    """

    def samples(dtype: torch.dtype) -> Iterator[Call]:
        for words in _rows(rows):
            seeds = count()

            def made(word: str, seeds: Iterator[int] = seeds) -> Any:
                if word == "@dtype":
                    return dtype
                if word.startswith("@"):
                    value = values[word[1:]]
                    return value(dtype) if inspect.isfunction(value) else value
                if word.startswith("["):
                    return [made(part) for part in word[1:-1].split(",") if part]
                sizes = _SIZES.fullmatch(word)
                if sizes is None:
                    return _literal(word)
                x = random(*(int(size) for size in sizes[1].split("x") if size), seed=next(seeds))
                if sizes[2]:
                    return _KINDS[sizes[2]](x, dtype)
                return x.to(dtype).requires_grad_(gradients)

            pairs = [word.rpartition("=")[::2] for word in words]
            positional = tuple(made(word) for name, word in pairs if not name)
            yield positional, {name: made(word) for name, word in pairs if name}

    return samples


def _rows(rows: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the words of each call, with one of the alternatives of each word."""
    for row in rows:
        pairs = [word.rpartition("=") for word in row.split()]
        yield from product(*([f"{n}{e}{word}" for word in v.split("|")] for n, e, v in pairs))


def _literal(word: str) -> Any:
    if word.startswith("#"):
        numbers, _, dtype = word[1:].partition(":")
        return torch.tensor(ast.literal_eval(numbers), dtype=getattr(torch, dtype, None))
    if word.startswith("torch."):
        return getattr(torch, word.removeprefix("torch."))
    try:
        return ast.literal_eval(word)
    except ValueError:
        return word


def random(*shape: int, seed: int = 0) -> Tensor:
    """Return normally distributed numbers in f32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _module(target: str, *settings: Any, **named: Any) -> Made:
    """Return a function that makes a module of transformers with random parameters."""

    def make(dtype: torch.dtype) -> torch.nn.Module:
        made: torch.nn.Module = find_function(f"transformers.{target}")(*settings, **named)
        for seed, parameter in enumerate(made.parameters(), 20):
            parameter.data = random(*parameter.shape, seed=seed)
        return made.to(dtype)

    return make


def _part(family: str, model: str, name: str, *settings: Any, **sizes: Any) -> Made:
    """Make a module of a model of transformers. `name` is the module's class without `model`."""

    def make(dtype: torch.dtype) -> Any:
        package = f"models.{family}"
        make_config = f"transformers.{package}.configuration_{family}:{model}Config"
        config = find_function(make_config)(**sizes)
        config._experts_implementation = "batched_mm"
        return _module(f"{package}.modeling_{family}:{model}{name}", config, *settings)(dtype)

    return make


def one_operand(target: str, *settings: Any, sizes: str = "2x3x8|4x8", **named: Any) -> Samples:
    """Return samples of the `forward` of a module of transformers with one operand."""
    return table(f"@module {sizes}", module=_module(target, *settings, **named))


new_gelu = one_operand("activations:NewGELUActivation")
fast_gelu = one_operand("activations:FastGELUActivation")
quick_gelu = one_operand("activations:QuickGELUActivation")
relu_squared = one_operand("activations:ReLUSquaredActivation")
xielu = one_operand("activations:XIELUActivation")
bloom_gelu = one_operand("models.bloom.modeling_bloom:BloomGelu")
llama_rms_norm = one_operand("models.llama.modeling_llama:LlamaRMSNorm", 8, eps=1e-5)
t5_rms_norm = one_operand("models.t5.modeling_t5:T5LayerNorm", 8, eps=1e-5)
olmo2_rms_norm = one_operand("models.olmo2.modeling_olmo2:Olmo2RMSNorm", 8, eps=1e-5)
gemma_rms_norm = one_operand("models.gemma.modeling_gemma:GemmaRMSNorm", 8, eps=1e-5)
weightless_rms_norm = one_operand("models.llama4.modeling_llama4:Llama4TextL2Norm", eps=1e-5)
cohere_layer_norm = one_operand("models.cohere.modeling_cohere:CohereLayerNorm", 8, eps=1e-5)
rms_norm_gated = table(
    "@norm 2x3x8 None|2x3x8",
    "@norm 4x8 None|4x8",
    norm=_module("models.mamba2.modeling_mamba2:MambaRMSNormGated", 8, 4, eps=1e-5),
)
global_response_norm = one_operand(
    "models.convnextv2.modeling_convnextv2:ConvNextV2GRN", 8, sizes="2x3x3x8"
)
layer_scale = one_operand(
    "models.dinov2.modeling_dinov2:Dinov2LayerScale",
    SimpleNamespace(hidden_size=8, layerscale_value=1.0),
)
drop_path = one_operand("models.swin.modeling_swin:SwinDropPath", 0.3)
relative_position_bias = one_operand(
    "models.swin.modeling_swin:SwinRelativePositionBias", 3, (2, 2), sizes=""
)


def frozen_batch_norm(dtype: torch.dtype) -> Iterator[Call]:
    norm = _module("models.detr.modeling_detr:DetrFrozenBatchNorm2d", 4)(dtype)
    for seed, buffer in enumerate(norm.buffers()):
        buffer.data = random(4, seed=seed).abs().to(dtype)
    return table("@norm 2x4x3x3", norm=norm)(dtype)


_MLP = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2}
swiglu = table("@mlp 2x3x8|4x8", mlp=_part("llama", "Llama", "MLP", **_MLP, hidden_act="silu"))
geglu = table(
    "@tanh|@erf 2x3x8|4x8",
    tanh=_part("llama", "Llama", "MLP", **_MLP, hidden_act="gelu_pytorch_tanh"),
    erf=_part("llama", "Llama", "MLP", **_MLP, hidden_act="gelu"),
)
weight_norm = table("3x4 3x1 0", "4x3x5 1x3x1 1", "4x3x5 1x1x5 2")


def _attention(dtype: torch.dtype) -> Any:
    """Make a stand-in for the module of attention functions, with the attributes they read."""
    stand_in: Any = torch.nn.Module()
    stand_in.num_key_value_groups, stand_in.head_dim = 2, 8
    return stand_in


def _with_sinks(dtype: torch.dtype) -> Any:
    stand_in = _attention(dtype)
    stand_in.sinks = torch.nn.Parameter(random(4, seed=4).to(dtype))
    return stand_in


def _causal(dtype: torch.dtype) -> Tensor:
    return torch.full((1, 1, 3, 3), torch.finfo(dtype).min, dtype=dtype).triu(1)


_HEADS = "@module 2x4x3x8 2x2x3x8 2x2x3x8 None|@causal scaling=0.3"
eager_attention = table(f"{_HEADS} softcap=None|2.0", module=_attention, causal=_causal)
attention_with_sinks = table(_HEADS, module=_with_sinks, causal=_causal)
scaled_attention = table(
    "@module 2x4x3x8 2x4x3x8 2x4x3x8 None|@causal",
    module=_part("gptj", "GPTJ", "Attention", 0, n_embd=32, n_head=4, rotary_dim=4),
    causal=_causal,
)
patch_rotary_embedding = table(
    *(f"2x4x5x8 2x4x5x8 {patches}x8:plain {patches}x8:plain" for patches in (3, 5))
)
_ROWS = torch.tensor([[0, 2], [2, -1]])
index = table("4x3x5 [@all]|[None,@all]|[None,None,@first]", all=_ROWS, first=_ROWS[0])

_EXPERTS = {"hidden_size": 8, "num_experts": 4, "moe_intermediate_size": 6}


def top_k_routing(dtype: torch.dtype) -> Iterator[Call]:
    for norm_topk_prob in (False, True):
        settings = {**_EXPERTS, "num_experts_per_tok": 2, "norm_topk_prob": norm_topk_prob}
        router = _part("qwen3_moe", "Qwen3Moe", "TopKRouter", **settings)(dtype)
        # These numbers are exact in every dtype, so that all dtypes choose the same experts.
        router.weight.data = (torch.arange(32).reshape(4, 8) % 7 - 3).to(dtype)
        hidden = (torch.arange(40).reshape(5, 8) % 11 - 5).to(dtype) / 8
        yield (router, hidden.requires_grad_()), {}


# Five tokens, each with two of four experts.
_CHOSEN = torch.tensor([[0, 1], [3, 2], [1, 3], [2, 0], [3, 1]])
experts = table(
    "@silu|@gelu|@tanh 5x8 @chosen 5x2",
    silu=_part("qwen3_moe", "Qwen3Moe", "Experts", **_EXPERTS, hidden_act="silu"),
    gelu=_part("qwen3_moe", "Qwen3Moe", "Experts", **_EXPERTS, hidden_act="gelu"),
    tanh=_part("qwen3_moe", "Qwen3Moe", "Experts", **_EXPERTS, hidden_act="gelu_pytorch_tanh"),
    chosen=_CHOSEN,
)
_GPT_OSS = {"hidden_size": 8, "intermediate_size": 6, "num_local_experts": 4}
gpt_oss_experts = table(
    "@module 5x8 @chosen 5x2",
    module=_part("gpt_oss", "GptOss", "Experts", **_GPT_OSS),
    chosen=_CHOSEN,
)

causal_conv1d = table("2x4x5 4x3 x4|None activation=silu|None")
_SCAN = "2x4x3 2x4x3 4x5:negative 2x5x3 2x5x3"
selective_scan = table(
    f"{_SCAN} x4 2x4x3 x4 delta_softplus=True return_last_state=False|True", _SCAN
)
_CHUNKS = "2x6x4x3 2x6x4 x4:negative 2x6x2x5 2x6x2x5"
chunk_scan = table(  # 4 does not divide the length
    f"{_CHUNKS} 4|2 D=x4 dt_bias=x4 dt_softplus=True dt_limit=@limit",
    f"{_CHUNKS} 3 return_final_states=True",
    limit=(0.0, 1.0),
)
_LIGHTNING = {"hidden_size": 8, "num_attention_heads": 2, "head_dim": 4, "block_size": 2}
lightning_attention = table(  # 2 does not divide 3
    "@module 2x3x8 position_embeddings=None attention_mask=None",
    "@module 2x4x8 position_embeddings=None attention_mask=@ones",
    module=_part("minimax", "MiniMax", "LightningAttention", 0, **_LIGHTNING),
    ones=torch.ones(2, 4),
)
_DELTA = "2x3x4x6 2x3x4:negative 2x3x4"
gated_delta_rule = table(  # 4 value heads
    f"2x3x2x5 2x3x2x5 {_DELTA} chunk_size=2 use_qk_l2norm_in_kernel=True",
    f"2x3x4x5 2x3x4x5 {_DELTA} chunk_size=2",
    f"2x3x4x5 2x3x4x5 {_DELTA} 4 2x4x5x6:f32 output_final_state=True",
)
_KIMI = "2x3x4x5 2x3x4x5 2x3x4x6 2x3x4x5:negative 2x3x4"
kimi_delta_rule = table(
    f"{_KIMI} chunk_size=2 use_qk_l2norm_in_kernel=True",
    f"{_KIMI} 4 2x4x5x6:f32 output_final_state=True",
)
_RGLRU = {"hidden_size": 4, "lru_width": 4, "num_attention_heads": 2}
rnn_scan = table(
    "@module 2x3x4 2x3x4 @reset None|2x4:f32",
    module=_part("recurrent_gemma", "RecurrentGemma", "Rglru", **_RGLRU),
    reset=torch.tensor([[[True], [False], [True]], [[False], [False], [False]]]),
)
wkv = table("x4 x4 2x3x4 2x3x4")

lion = table("x3 x3 x3 0.01 0.0|0.1 0.9 0.99", gradients=False)
_ADAM = "beta1=0.9 beta2=0.999 eps=1e-8"
scale_by_adam = table(
    f"x3 x3 x3:positive #0.1 #0.001 None {_ADAM} eps_root=0.0",
    f"x3 x3 x3:positive #0.57 #0.008 None {_ADAM} eps_root=1e-6",
    f"x3 x3 x3:positive #0.41 #0.004 #0.34 {_ADAM} eps_root=0.0",
    f"x3 x3 x3:positive #[0.1,0.2,0.3] #0.1 None {_ADAM}",  # not claimed, nor is the next call
    f"x3 x3 x3:positive #0.1 #0.2 #[0.1,0.2,0.3] {_ADAM}",
    gradients=False,
)
scale_by_lion = table("x3 x3 beta1=0.9 beta2=0.99", "x3 x3 beta1=0.0 beta2=0.5", gradients=False)
momentum_trace = table("x3 x3 decay=0.9 nesterov=False|True", gradients=False)
sgd = table(
    "[x3] [x3] [x3] None None lr=0.01 weight_decay=0.01 momentum=0.9 dampening=0.0"
    " nesterov=False|True maximize=False has_sparse_grad=False",
    gradients=False,
)
_ADAFACTOR = (
    "[#3.0] None None d=1.0 lr=0.01 beta2_decay=-0.8 weight_decay=0.1 eps1=None eps2=1e-3"
    " has_complex=False"
)
adafactor = table(
    f"[3x4] [3x4] [3x1:positive] [1x4:positive] [None] {_ADAFACTOR} maximize=False",
    f"[2x3x4] [2x3x4] [2x3x1:positive] [2x1x4:positive] [None] {_ADAFACTOR} maximize=True",
    f"[x5] [x5] [None] [None] [x5:positive] {_ADAFACTOR} maximize=False",
    gradients=False,
)
# The direction is rounded to bf16, also for f32.
_NEWTON_SCHULZ = "ns_coefficients=@abc ns_steps=5 eps=1e-7"
_ABC = (3.4445, -4.775, 2.0315)
_MUON = f"lr=0.0003 weight_decay=0.1 momentum=0.95 has_complex=False {_NEWTON_SCHULZ}"
muon = table(
    f"[3x4] [3x4] [3x4] {_MUON} nesterov=True adjust_lr_fn=None",
    f"[6x4] [6x4] [6x4] {_MUON} nesterov=False adjust_lr_fn=match_rms_adamw",
    f"[4x4] [4x4] [4x4] {_MUON} nesterov=True adjust_lr_fn=original",
    gradients=False,
    abc=_ABC,
)
zeropower_via_newtonschulz = table(f"3x4|6x4|4x4 {_NEWTON_SCHULZ}", gradients=False, abc=_ABC)


def _trained(dtype: torch.dtype) -> list[torch.nn.Parameter]:
    """Make parameters with gradients."""
    parameters = [torch.nn.Parameter(random(*shape).to(dtype)) for shape in ((3,), (2, 2))]
    for seed, parameter in enumerate(parameters, 1):
        parameter.grad = random(*parameter.shape, seed=seed).to(dtype)
    return parameters


clip_grad_norm = table(
    "@trained 1.0 2.0", "@trained 1e6 1.0", "@trained 0.5 torch.inf", trained=_trained
)
_SQUARES = "[x3:positive,2x2:positive]"
_LISTS = f"[x3,2x2] [x3,2x2] [x3,2x2] {_SQUARES}"
_FUSED = (
    f"None None {_ADAM} lr=0.01 weight_decay=0.01 has_complex=False capturable=False"
    " differentiable=False"
)
fused_adamw, fused_adam = (
    table(
        f"{_LISTS} [] [#3.0,#3.0] {_FUSED} amsgrad=False maximize=False {own}",
        f"{_LISTS} {_SQUARES} [#3.0,#4.0] {_FUSED} amsgrad=True maximize=True {own}",
        gradients=False,
    )
    for own in ("decoupled_weight_decay=True", "decoupled_weight_decay=False")
)

lstm_cell = table("2x3 [2x4,2x4] 16x3 16x4 x16 x16", "2x3 [2x4,2x4] 16x3 16x4")
gru_cell = table("2x3 2x4 12x3 12x4 x12 x12", "2x3 2x4 12x3 12x4")


def scanned_gru_cell(dtype: torch.dtype) -> Iterator[Call]:
    for (x, h, w_ih, w_hh, *biases), _ in gru_cell(dtype):
        named = dict(zip(("b_ih", "b_hh"), biases, strict=False))
        yield ({"h": h, "w_ih": w_ih, "w_hh": w_hh, **named}, x), {}


def _layers(gates: int, states: Callable[[str], str]) -> Samples:
    """Return samples of one layer, one bidirectional layer, and two bidirectional layers."""
    rows, bias = 4 * gates, f"x{4 * gates},x{4 * gates}"
    first, second = f"{rows}x3,{rows}x4", f"{rows}x8,{rows}x4"
    return table(
        f"5x2x3 {states('1x2x4')} [{first},{bias}] True 1 0.0 False False False",
        f"2x5x3 {states('2x2x4')} [{first},{first}] False 1 0.0 False True True",
        f"5x2x3 {states('4x2x4')} [{first},{bias},{first},{bias},{second},{bias},{second},{bias}]"
        " True 2 0.0 False True False",
    )


lstm = _layers(4, lambda sizes: f"[{sizes},{sizes}]")
gru = _layers(3, lambda sizes: sizes)

embedding_bag = table(
    "#[[1,2,4,1],[3,0,5,2]] 6x3 mode=mean|sum|max padding_idx=None|1",
    "#[1,2,4,1,3,0,5,2] 6x3 #[0,0,3] mode=mean|sum|max padding_idx=-4",
    "#[1,2,4,1,3,0,5,2] 6x3 #[0,2,2,8] mode=mean|sum|max include_last_offset=True",
    "#[1,2,4,1,3,0,5,2] 6x3 #[0,0,3] mode=sum per_sample_weights=x8",
    "#[[1,2,4,1],[3,0,5,2]] 6x3 mode=sum per_sample_weights=2x4",
)

fft_r2c = table("2x5x6 [1] 0 True", "2x5x6 [0,2] 1 True", "2x5x6 [2] 2 False")
fft_c2c = table(
    "2x5x6:complex [1] 0 True", "2x5x6:complex [0,2] 1 False", "2x5x6:complex [0,1,2] 2 False"
)
fft_c2r = table("2x5x6:complex [2] 0 10", "2x5x6:complex [0,2] 1 11", "2x5x6:complex [0,1,2] 2 10")

linear_cross_entropy = table(
    "2x3x8 5x8 #[[0,4,-100],[2,2,1]] None|x5 1|0 -100 0.0",
    "2x3x8 5x8 #[[0,4,2],[2,2,1]] None|x5 2 2 0.1|0.0",
)
dot_product_attention = table(
    *(
        f"{batch}5x{heads}x8 {batch}3x2x8 {batch}3x2x6 {more}"
        for batch, heads in (("2x", 4), ("", 2))
        for more in (
            *("", "is_causal=True scale=0.5", f"{heads}x5x3:mask None|{heads}x5x3"),
            f"{heads}x5x3 is_causal=True",
        )
    )
)

int8_weight_only_linear = table("2x3x8|4x8 5x8:i8 5x1:scale|1x1:scale x5|None")
float8_weight_only_linear = table("2x3x8|4x8 5x8:e4m3 5x1:scale|1x1:scale x5|None")
int8_dynamic_linear = table(
    "2x3x8 5x8:i8 5x1:scale x5|None symmetric=True per_tensor=False|True",
    "4x8 5x8:i8 5x1:scale x5|None symmetric=False per_tensor=False",
)
intx_weight_only_linear = table(
    "2x3x8 5x8:i4 5x2:narrow_scale 5x2:i4 x5|None group_size=4",
    "2x3x8 5x8:i4 5x2:narrow_scale 5x2:whole x5|None group_size=4 activation=int8_asymmetric",
    "4x8 5x8:i8 5x2:narrow_scale @zeros x5|None group_size=4 bits=8",
    zeros=torch.zeros(5, 2, dtype=torch.int8),
)
mx_linear = table(
    "2x3x64 5x64:e4m3 5x2:e8m0_scale x5|None scaling=rceil",
    "4x64 5x64:e5m2 5x2:e8m0_scale x5|None scaling=floor",
    "2x3x64 5x32:ui8 5x2:e8m0_scale x5|None scaling=ceil|even",
    gradients=False,
)
nvfp4_linear = table(
    "2x3x64|4x64 5x32:ui8 5x4:e4m3_scale #0.5 #0.0005 x5|None activation=none|static|dynamic",
    gradients=False,
)
weight_int8pack_mm = table("4x32:plain 16x32:i8 x16:narrow_scale")
scaled_mm = table(
    "16x32:e4m3 @b #0.1 #0.2 None|x48:plain out_dtype=@dtype",
    "16x32:e4m3 @b 16x1:scale 1x48:scale None|x48:plain out_dtype=@dtype",
    b=random(48, 32, seed=1).to(torch.float8_e4m3fn).t(),
)

fake_quantize_per_tensor = table("4x6 0.1 3 -8 7", "4x6 0.37 0 -128 127", "4x6 0.05 9 0 15")
fake_quantize_per_tensor_with_tensors = table("4x6 #[0.1] #[3]:int32 #[1]|#[0] -8 7")
_WHOLE, _QUARTERS = "#[-3,-2,-1,0,1,2]", "#[-0.75,-0.5,-0.25,0,0.25,0.5]"
fake_quantize_per_channel = table(
    f"4x6 x6:scale {_WHOLE}:int32|{_QUARTERS} 1 -8 7",
    f"6x4 x6:scale {_WHOLE}:int32|{_QUARTERS} 0 -8 7",
)
_I8 = "-128 127 torch.int8"
quantize_per_tensor = table(f"4x6:plain 0.01 3 {_I8}", "4x6:plain 0.1 9 0 15 torch.uint8")
quantize_per_tensor_with_tensors = table(f"4x6:plain #[0.02]:float64|#0.02 #[3] {_I8}")
quantize_per_channel = table(
    f"4x6:plain x6:scale {_WHOLE} 1 {_I8}", f"6x2x3:plain x6:scale {_WHOLE} 0 {_I8}"
)
dequantize_per_tensor = table(f"4x6:i8 0.1 3 {_I8} out_dtype=None|@dtype")
dequantize_per_tensor_with_tensors = table(
    f"4x6:i8 #[0.02]:float64|#0.02 #[3] {_I8} out_dtype=@dtype"
)
dequantize_per_channel = table(
    f"4x6:i8 x6:scale {_WHOLE}|None 1 {_I8} out_dtype=@dtype",
    f"6x2x3:i8 x6:scale {_WHOLE}|None 0 {_I8} out_dtype=@dtype",
)
choose_qparams = table("4x6:plain|4x6:positive -128 127 0.000244140625 torch.int8")

# Two queries of four heads, and a cache of two heads with six rows.
_CACHED = "2x4x2x8 2x2x6x8 2x2x6x8"
attention, sink_attention = (
    table(
        f"{_CACHED} {sinks} scale=0.3",
        f"{_CACHED} {sinks} @padding scale=0.3 is_causal=True window=2",
        f"{_CACHED} {sinks} 1x4x2x6 scale=0.5 is_causal=True softcap=2.0",
        padding=torch.arange(6).reshape(1, 1, 1, 6) > torch.tensor([-1, 1]).reshape(2, 1, 1, 1),
    )
    for sinks in ("", "x4")
)
cached_attention = table(
    f"{_CACHED} #[[2,3]] scale=0.3",
    f"{_CACHED} #[[4,5],[0,1]] x4 scale=0.3 window=3 softcap=2.0",
)
paged_attention = table(
    "2x4x8 2x5x4x8 2x5x4x8 #[7,3] #[[3,0],[4,1]] scale=0.3",
    "2x4x8 2x5x4x8 2x5x4x8 #[7,3]:int32 #[[3,0],[4,1]]:int32 x4 scale=0.3 window=4 softcap=2.0",
)
update_kv_cache = table("2x2x6x8 2 #[1,4] 2x2x2x8", "2x6x8 2 #[1,4] 2x6x2")
update_ring_kv_cache = table(
    "2x2x6x8 #[4,5,6] 2x2x3x8", "2x2x3x8 #[1,2,3,4]:int32 2x2x4x8", gradients=False
)
update_quantized_kv_cache = table(
    "2x2x6x8:i8 2x2x6:scale #[2,3] 2x2x2x8:plain",
    "2x2x3x8:i8 2x2x3:scale #[4,5,6,7]:int32 2x2x4x8:plain is_ring=True",
)
_QUANTIZED = "2x4x2x8:plain 2x2x6x8:i8 2x2x6:scale 2x2x6x8:i8 2x2x6:scale"
quantized_cached_attention = table(
    f"{_QUANTIZED} #[[2,3]] scale=0.3",
    f"{_QUANTIZED} #[[4,5],[0,1]] x4:plain scale=0.3 window=3 softcap=2.0",
)
