"""What the sharding benchmark runs: calls whose tensors a mesh of devices shares out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

Spec = tuple[str | None, ...]
"""For each dimension of a tensor, the axis of the mesh that shares it out, or None."""

MODEL = "model"
DATA = "data"
FSDP = "fsdp"
"""The axis of the mesh that torch_xla's FSDPv2 asks for."""


@dataclass(frozen=True, slots=True)
class Sharded:
    """A call with sharded tensors. `make` gives its tensors on the CPU, by name; those of floating
    point are leaves. The step is `function(**tensors)` and the gradients of its sum of squares."""

    name: str
    entries: tuple[str, ...]
    make: Callable[[], dict[str, Tensor]]
    function: Callable[..., Any]
    specs: Mapping[str, Spec] | Callable[[str, Tensor], Spec | None]
    """Of the tensors that are shared out; the others are whole on each device."""
    axes: tuple[str, ...] = (MODEL,)
    """Of the mesh. Where there are two, the first has two devices."""

    def spec(self, name: str, tensor: Tensor) -> Spec | None:
        """How a tensor is shared out; None if it is whole on each device."""
        return self.specs(name, tensor) if callable(self.specs) else self.specs.get(name)

    @property
    def held(self) -> bool:
        """Whether a test holds that composites have no more collectives than stock."""
        return self.name not in MORE


def _made(**shapes: tuple[int, ...]) -> Callable[[], dict[str, Tensor]]:
    return lambda: {name: torch.randn(shape) for name, shape in shapes.items()}


def _attention(name: str, spec: Spec, **keywords: Any) -> Sharded:
    heads = keywords.pop("heads", 8)
    shape, narrow = (2, 8, 32, 16), (2, heads, 32, 16)

    def call(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value, **keywords)

    return Sharded(
        f"attention, {name}",
        ("scaled_dot_product_attention",),
        _made(query=shape, key=narrow, value=narrow),
        call,
        dict.fromkeys(("query", "key", "value"), spec),
    )


def _layer_norm(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(input, weight.shape, weight, bias)


def _rms_norm(input: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(input, weight.shape, weight, 1e-6)


def _group_norm(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.group_norm(input, 8, weight, bias)


def _instance_norm(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.instance_norm(input, weight=weight, bias=bias)


def _norms() -> list[Sharded]:
    found = []
    for name, function, affine in (
        ("layer_norm", _layer_norm, ("weight", "bias")),
        ("rms_norm", _rms_norm, ("weight",)),
    ):
        made = _made(input=(8, 16, 64), **dict.fromkeys(affine, (64,)))
        rows: dict[str, Spec] = {"input": (MODEL, None, None)}
        features: dict[str, Spec] = {
            "input": (None, None, MODEL),
            **dict.fromkeys(affine, (MODEL,)),
        }
        found += [
            Sharded(f"{name}, rows", (name,), made, function, rows),
            Sharded(f"{name}, features", (name,), made, function, features),
        ]
    for name, function in (("group_norm", _group_norm), ("instance_norm", _instance_norm)):
        made = _made(input=(8, 32, 8, 8), weight=(32,), bias=(32,))
        found += [
            Sharded(
                f"{name}, samples", (name,), made, function, {"input": (MODEL, None, None, None)}
            ),
            Sharded(
                f"{name}, channels",
                (name,),
                made,
                function,
                {"input": (None, MODEL, None, None), "weight": (MODEL,), "bias": (MODEL,)},
            ),
        ]
    return found


def _cross_entropy(name: str, spec: Spec) -> Sharded:
    return Sharded(
        f"cross_entropy_loss, {name}",
        ("cross_entropy_loss",),
        lambda: {"input": torch.randn(16, 64), "target": torch.randint(64, (16,))},
        functional.cross_entropy,
        {"input": spec},
    )


def _dropout(input: Tensor) -> Tensor:
    return functional.dropout(input, 0.5)


def _softmax(input: Tensor) -> Tensor:
    return functional.softmax(input, -1)


def _mlp(input: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return functional.linear(functional.gelu(functional.linear(input, up)), down)


SMALL: Mapping[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
}
# Every number that is shared out is a multiple of 8, so that 8 devices have equal parts.
MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Llama": ("LlamaForCausalLM", {**SMALL, "num_key_value_heads": 8}),
    "BERT": ("BertForMaskedLM", SMALL),
    "GPT-2": ("GPT2LMHeadModel", {"vocab_size": 128, "n_embd": 64, "n_layer": 2, "n_head": 8}),
    "T5": (
        "T5ForConditionalGeneration",
        {
            "vocab_size": 128,
            "d_model": 64,
            "d_kv": 8,
            "d_ff": 128,
            "num_layers": 2,
            "num_heads": 8,
            "decoder_start_token_id": 0,
        },
    ),
    "Mixtral": (
        "MixtralForCausalLM",
        {
            **SMALL,
            "num_key_value_heads": 8,
            "num_local_experts": 8,
            "experts_implementation": "batched_mm",  # stock torch_xla runs no other one
        },
    ),
}
"""The class of transformers, and what its config is made of."""


def build(model: str) -> torch.nn.Module:
    """A model with random weights."""
    import transformers

    name, settings = MODELS[model]
    class_ = getattr(transformers, name)
    module: torch.nn.Module = class_(class_.config_class(**settings))
    return module


COLUMN: Spec = (MODEL, None)
ROW: Spec = (None, MODEL)
TENSOR_PARALLEL: Mapping[str, Spec] = {
    **dict.fromkeys(("q_proj.weight", "k_proj.weight", "v_proj.weight"), COLUMN),
    **dict.fromkeys(("gate_proj.weight", "up_proj.weight"), COLUMN),
    **dict.fromkeys(("o_proj.weight", "down_proj.weight"), ROW),
    **dict.fromkeys(("query.weight", "key.weight", "value.weight"), COLUMN),
    **dict.fromkeys(("query.bias", "key.bias", "value.bias"), (MODEL,)),
    "intermediate.dense.weight": COLUMN,
    "intermediate.dense.bias": (MODEL,),
    "output.dense.weight": ROW,  # of attention too
    # GPT-2 keeps its weights transposed.
    **dict.fromkeys(("c_attn.weight", "c_fc.weight"), ROW),
    **dict.fromkeys(("c_attn.bias", "c_fc.bias"), (MODEL,)),
    "c_proj.weight": COLUMN,
    **dict.fromkeys(("Attention.q.weight", "Attention.k.weight", "Attention.v.weight"), COLUMN),
    **dict.fromkeys(("Attention.o.weight", "DenseReluDense.wo.weight"), ROW),
    "DenseReluDense.wi.weight": COLUMN,
    # Mixtral keeps the experts of a layer in one tensor.
    "experts.gate_up_proj": (None, MODEL, None),
    "experts.down_proj": (None, None, MODEL),
}
"""By the end of a parameter's name: the sharding of Megatron (Shoeybi et al., 2019)."""

Parallelism = Literal["tensor", "data", "FSDP", "2-D"]


AXES: Mapping[Parallelism, tuple[str, ...]] = {
    "tensor": (MODEL,),
    "data": (DATA,),
    "FSDP": (FSDP,),
    "2-D": (DATA, MODEL),
}


def spec(kind: Parallelism, name: str, tensor: Tensor) -> Spec | None:
    """How a step's parameter, or its batch, is divided."""
    if name == "input_ids":
        return None if kind == "tensor" else (AXES[kind][0], None)
    if kind == "FSDP":
        return (FSDP, *[None] * (tensor.dim() - 1))
    if kind == "data":
        return None
    return next((s for end, s in TENSOR_PARALLEL.items() if name.endswith(end)), None)


def _fully_sharded(module: torch.nn.Module) -> torch.nn.Module:
    """The module in torch_xla's FSDPv2, as its layers are."""
    import torch_xla.distributed.spmd as spmd
    from torch_xla.experimental.spmd_fully_sharded_data_parallel import (
        SpmdFullyShardedDataParallel as FullySharded,
    )

    layers = tuple(getattr(module, "_no_split_modules", None) or ())
    mesh = spmd.get_global_mesh()

    def divide_result(result: Any, mesh: Any) -> None:
        first = result if isinstance(result, Tensor) else getattr(result, "logits", result[0])
        spmd.mark_sharding(first, mesh, (FSDP, *[None] * (first.dim() - 1)))

    def wrapped(child: torch.nn.Module) -> torch.nn.Module:
        found: torch.nn.Module = FullySharded(child, mesh=mesh, shard_output=divide_result)
        return found

    for owner in list(module.modules()):
        for name, child in owner.named_children():
            if type(child).__name__ in layers:
                setattr(owner, name, wrapped(child))
    return wrapped(module)


def _training(model: str, kind: Parallelism) -> Sharded:
    """A step of a language model with everything on, without an optimizer."""

    def make() -> dict[str, Tensor]:
        tensors = {n: p.detach() for n, p in build(model).named_parameters()}
        return tensors | {"input_ids": torch.randint(128, (8, 16))}

    def call(input_ids: Tensor, **parameters: Tensor) -> Tensor:
        module: Any = build(model).eval().to(input_ids.device)  # without dropout
        module.tie_weights()  # a move to another device makes two tensors of one
        if kind == "FSDP":
            module = _fully_sharded(module)
            names = [name for name, _ in module.named_parameters()]
            parameters = {name: parameters[name.replace("_orig_module.", "")] for name in names}
        given = {"input_ids": input_ids, "labels": input_ids}
        loss: Tensor = torch.func.functional_call(module, parameters, (), given).loss
        return loss

    return Sharded(
        f"step of {model}, {kind}",
        ("all",),
        make,
        call,
        partial(spec, kind),
        AXES[kind],
    )


HEADS: Spec = (None, MODEL, None, None)
SEQUENCE: Spec = (None, None, MODEL, None)
BATCH: Spec = (MODEL, None, None, None)

CASES: tuple[Sharded, ...] = (
    _attention("heads", HEADS),
    _attention("heads, causal", HEADS, is_causal=True),
    _attention("heads, grouped queries", HEADS, heads=4, enable_gqa=True),
    _attention("sequence", SEQUENCE),
    _attention("sequence, causal", SEQUENCE, is_causal=True),
    *_norms(),
    _cross_entropy("rows", (MODEL, None)),
    _cross_entropy("classes", (None, MODEL)),
    Sharded(
        "softmax, classes", ("softmax",), _made(input=(16, 64)), _softmax, {"input": (None, MODEL)}
    ),
    Sharded(
        "dropout, rows", ("dropout",), _made(input=(64, 64)), _dropout, {"input": (MODEL, None)}
    ),
    Sharded(
        "gelu between products",
        ("gelu",),
        _made(input=(8, 16, 32), up=(128, 32), down=(32, 128)),
        _mlp,
        {"up": (MODEL, None), "down": (None, MODEL)},
    ),
    *(_training(model, kind) for kind in AXES for model in MODELS),
)

MORE = frozenset(
    (
        # Stock gathers the batch at the first layer norm; from there on each device computes
        # everything, with 3.7 times the multiplications, and has no gradients to add up.
        "step of BERT, data",
        "step of BERT, 2-D",
    )
)
"""Where stock computes the same on every device."""
