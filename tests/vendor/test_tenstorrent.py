"""The registry for tt-mlir: what each form is in StableHLO, that it computes the same, and that
calls which tt-mlir's patterns or verifiers do not take keep the stock lowering."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla
from composites_testing.selection import first_of_each

import composites

BF16, F32 = torch.bfloat16, torch.float32
QKV = ("query", "key", "value")


def norm(dtype: torch.dtype = F32, **more: Any) -> dict[str, Any]:
    inputs = {"input": (4, 6), "weight": (6,), "bias": (6,)}
    return {"call": F.layer_norm, "inputs": inputs, "dtype": dtype} | more


def attention(query: tuple[int, ...], key: tuple[int, ...], **more: Any) -> dict[str, Any]:
    inputs: dict[str, Any] = {"query": query, "key": key, "value": key}
    mask = more.pop("attn_mask", None)
    if mask is not None:
        inputs["attn_mask"] = mask
    return {
        "call": F.scaled_dot_product_attention, "inputs": inputs, "dtype": BF16, "keywords": more
    }  # fmt: skip


HEADS, SHARED = (2, 4, 32, 8), (2, 2, 32, 8)
LOWER = torch.ones(32, 32, dtype=torch.bool).tril()
TARGET = torch.tensor([2, 0, 4, -100, 1])
INDEX = torch.tensor([[3, 1, 0], [2, 2, 5]])

FORMS: dict[str, dict[str, Any]] = {
    "gelu": {"call": F.gelu, "inputs": {"input": (2, 3)}, "emits": ("gelu",)},
    "gelu_tanh": {
        "call": F.gelu, "inputs": {"input": (2, 3)}, "emits": ("gelu_tanh",),
        "keywords": {"approximate": "tanh"},
    },
    "rms_norm": {
        "call": F.rms_norm, "inputs": {"input": (4, 6), "weight": (6,)}, "emits": ("rms_norm",),
        "keywords": {"normalized_shape": [6], "eps": 1e-6},
    },
    "rms_norm_without_weight_or_eps": {
        "call": F.rms_norm, "inputs": {"input": (4, 6)}, "emits": ("rms_norm",), "dtype": BF16,
        "keywords": {"normalized_shape": [6]},
    },
    "rms_norm_training": {
        "call": F.rms_norm, "inputs": {"input": (4, 6), "weight": (6,)},
        "emits": ("rms_norm", "rms_norm_backward"), "trained": ("input", "weight"),
        "keywords": {"normalized_shape": [6], "eps": 1e-6},
    },
    "layer_norm": norm(emits=("layer_norm",), keywords={"normalized_shape": [6]}),
    "layer_norm_without_weight": norm(
        inputs={"input": (2, 3, 6)}, emits=("layer_norm",),
        keywords={"normalized_shape": [6], "eps": 1e-3},
    ),
    "layer_norm_training": norm(
        emits=("layer_norm", "layer_norm_backward"), trained=("input", "weight", "bias"),
        keywords={"normalized_shape": [6]},
    ),
    "group_norm": {
        "call": F.group_norm, "inputs": {"input": (2, 4, 3, 3), "weight": (4,), "bias": (4,)},
        "emits": ("group_norm",), "keywords": {"num_groups": 2},
    },
    "group_norm_training": {
        "call": F.group_norm, "inputs": {"input": (2, 4, 3, 3), "weight": (4,), "bias": (4,)},
        "emits": ("group_norm", "group_norm_backward"), "trained": ("input", "weight", "bias"),
        "keywords": {"num_groups": 2},
    },
    "topk": {
        "call": torch.topk, "inputs": {"input": (3, 8)}, "emits": ("topk",),
        "keywords": {"k": 2, "dim": -1},
    },
    "argmax": {
        "call": torch.argmax, "inputs": {"input": (3, 8)}, "emits": ("argmax",),
        "keywords": {"dim": -1},
    },
    "gather": {
        "call": torch.gather, "inputs": {"input": (2, 8), "index": INDEX}, "emits": ("gather",),
        "keywords": {"dim": -1},
    },
    "attention": attention(HEADS, HEADS, emits=("scaled_dot_product_attention",)),
    "attention_causal": attention(
        HEADS, SHARED, is_causal=True, enable_gqa=True, scale=0.5,
        emits=("scaled_dot_product_attention",),
    ),
    "attention_bool_mask": attention(
        HEADS, HEADS, attn_mask=LOWER, emits=("scaled_dot_product_attention",)
    ),
    "attention_of_three_dimensions": attention(
        (4, 8, 8), (4, 6, 8), attn_mask=(4, 1, 6), emits=("scaled_dot_product_attention",)
    ),
    "attention_training_additive_mask": attention(
        HEADS, HEADS, attn_mask=(2, 1, 1, 32), trained=(*QKV, "attn_mask"),
        emits=("scaled_dot_product_attention", "scaled_dot_product_attention_backward"),
    ),
    "sdpa": attention(HEADS, SHARED, enable_gqa=True, trained=QKV, emits=("sdpa_fw", "sdpa_bw")),
    "sdpa_causal": attention(
        HEADS, HEADS, is_causal=True, scale=0.5, trained=QKV, emits=("sdpa_fw", "sdpa_bw")
    ),
    "sdpa_mask": attention(
        HEADS, HEADS, attn_mask=LOWER, trained=QKV, emits=("sdpa_fw", "sdpa_bw")
    ),
}  # fmt: skip

NEWER_FORMS: dict[str, dict[str, Any]] = {
    "cross_entropy": {
        "call": F.cross_entropy, "inputs": {"input": (5, 6), "target": TARGET},
        "emits": ("cross_entropy_fw",),
    },
    "cross_entropy_training": {
        "call": F.cross_entropy, "inputs": {"input": (5, 6), "target": TARGET},
        "emits": ("cross_entropy_fw", "cross_entropy_bw"), "trained": ("input",),
    },
    "cross_entropy_of_pixels": {
        "call": F.cross_entropy,
        "inputs": {"input": (2, 6, 2, 2), "target": torch.arange(8).reshape(2, 2, 2) % 6},
        "emits": ("cross_entropy_fw", "cross_entropy_bw"), "trained": ("input",),
        "keywords": {"reduction": "none"},
    },
    "layernorm_training": norm(
        BF16, emits=("layernorm_fw", "layernorm_bw"), trained=("input", "weight", "bias"),
        keywords={"normalized_shape": [6]},
    ),
    "layernorm_inference": norm(BF16, emits=("layer_norm",), keywords={"normalized_shape": [6]}),
}  # fmt: skip


def made(form: Callable[..., Any], spec: dict[str, Any]) -> Any:
    spec = dict(spec)
    keywords = dict(spec.pop("keywords", {}))
    for key in ("emits", "trained"):  # of attention's forms, beside its arguments
        spec[key] = keywords.pop(key, spec.get(key, ()))
    spec["emits"] = tuple(f"tenstorrent.{name}" for name in spec["emits"])
    return form(keywords=keywords, **spec)


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str, registries: Any, form: Any, check: Any) -> None:
    registries("tenstorrent")
    with composites.enabled("tenstorrent.*"):
        check(made(form, FORMS[name]), ("tenstorrent", name))


@pytest.mark.parametrize("name", NEWER_FORMS)
def test_form_of_september_2026(name: str, registries: Any, form: Any, check: Any) -> None:
    registries("tenstorrent_2026_09", "tenstorrent")
    with composites.enabled("tenstorrent.*"):
        check(made(form, NEWER_FORMS[name]), ("tenstorrent", name))


# Calls that a pattern or a verifier of tt-mlir refuses, or would read as something else. The form
# that takes the call instead follows; nothing means the stock lowering.
SIX = {"normalized_shape": [6]}
OTHERWISE: dict[str, dict[str, Any]] = {
    "a bias without weight would be read as weight": norm(
        inputs={"input": (4, 6), "bias": (6,)}, keywords=SIX
    ),
    "a bias of groups without weight": {
        "call": F.group_norm, "inputs": {"input": (2, 4, 3), "bias": (4,)},
        "keywords": {"num_groups": 2},
    },
    "two normalized dimensions": norm(
        inputs={"input": (3, 4, 6)}, keywords={"normalized_shape": [4, 6]}
    ),
    "two dimensions of rms_norm": {
        "call": F.rms_norm, "inputs": {"input": (3, 4, 6)},
        "keywords": {"normalized_shape": [4, 6]},
    },
    "a norm in f64": norm(torch.float64, keywords=SIX),
    "six dimensions": {
        "call": F.group_norm, "inputs": {"input": (1, 4, 2, 1, 1, 2)},
        "keywords": {"num_groups": 2},
    },
    "rank 3 of group_norm is padded": {
        "call": F.group_norm, "inputs": {"input": (2, 4, 3)}, "emits": ("group_norm",),
        "keywords": {"num_groups": 4},
    },
    "the top 0": {"call": torch.topk, "inputs": {"input": (3, 4)}, "keywords": {"k": 0}},
    "argmax of everything": {"call": torch.argmax, "inputs": {"input": (3, 4)}},
    "gather in one dimension": {
        "call": torch.gather, "inputs": {"input": (6,), "index": INDEX[0]}, "keywords": {"dim": 0},
    },
    "gather in five dimensions": {
        "call": torch.gather,
        "inputs": {"input": (1, 1, 1, 2, 8), "index": INDEX.reshape(1, 1, 1, 2, 3)},
        "keywords": {"dim": 4},
    },
    "attention in f32": attention(HEADS, HEADS) | {"dtype": F32},
    "a mask in f32": attention(HEADS, HEADS, attn_mask=torch.zeros(32, 32)),
    "attention of two dimensions": attention((8, 4), (8, 4)),
    "attention of five dimensions": attention((1, *HEADS), (1, *HEADS)),
    "causal over other lengths": attention((2, 4, 8, 8), (2, 4, 16, 8), is_causal=True),
    "values of another dimension": {
        "call": F.scaled_dot_product_attention, "dtype": BF16,
        "inputs": {"query": (2, 4, 8, 8), "key": (2, 4, 8, 8), "value": (2, 4, 8, 4)},
    },
    "a head for all without enable_gqa": attention(HEADS, (2, 1, 32, 8)),
    "a batch that is broadcast": attention((1, 4, 8, 8), (2, 4, 8, 8)),
    "a mask that is broadcast to the keys": attention(
        HEADS, HEADS, attn_mask=torch.tensor([[True]]), emits=("scaled_dot_product_attention",)
    ),
    "a row that is masked completely": attention(
        HEADS, HEADS, attn_mask=LOWER.tril(-1), emits=("scaled_dot_product_attention",)
    ),
    "such a row in training": attention(
        HEADS, HEADS, attn_mask=LOWER.tril(-1), trained=QKV, emits=("sdpa_fw", "sdpa_bw")
    ),
    "a mask of one row in training": attention(
        HEADS, HEADS, attn_mask=LOWER[20].reshape(1, 1, 1, 32), trained=QKV,
        emits=("sdpa_fw", "sdpa_bw"),
    ),
    "a mask for each head in training": attention(
        HEADS, HEADS, attn_mask=LOWER.expand(4, 32, 32).clone(), trained=QKV,
        emits=("scaled_dot_product_attention", "scaled_dot_product_attention_backward"),
    ),
    "half a tile in training": attention(
        (2, 4, 16, 8), (2, 4, 16, 8), trained=QKV,
        emits=("scaled_dot_product_attention", "scaled_dot_product_attention_backward"),
    ),
    "values of another dimension in training": {
        "call": F.scaled_dot_product_attention, "dtype": BF16, "trained": QKV,
        "inputs": {"query": HEADS, "key": HEADS, "value": (2, 4, 32, 4)},
        "emits": ("sdpa_fw", "sdpa_bw"),
    },
    "the gradient of the key alone": attention(
        HEADS, HEADS, trained=("key",), emits=("sdpa_fw", "sdpa_bw")
    ),
    # No pattern takes the backward, and none of it may be lost.
    "gelu in training": {
        "call": F.gelu, "inputs": {"input": (2, 3)}, "emits": ("gelu",), "trained": ("input",),
    },
    "gather in training": {
        "call": torch.gather, "inputs": {"input": (2, 8), "index": INDEX}, "emits": ("gather",),
        "keywords": {"dim": 1}, "trained": ("input",),
    },
    "class weights": {
        "call": F.cross_entropy, "inputs": {"input": (5, 6), "target": TARGET, "weight": (6,)},
    },
    "smoothed labels": {
        "call": F.cross_entropy, "inputs": {"input": (5, 6), "target": TARGET},
        "keywords": {"label_smoothing": 0.1},
    },
    "probabilities as targets": {
        "call": F.cross_entropy, "inputs": {"input": (5, 6), "target": (5, 6)},
    },
    "cross entropy in f64": {
        "call": F.cross_entropy, "inputs": {"input": (5, 6), "target": TARGET},
        "dtype": torch.float64,
    },
    "a sum of losses": {
        "call": F.cross_entropy, "inputs": {"input": (5, 6), "target": TARGET},
        "keywords": {"reduction": "sum", "ignore_index": 4}, "emits": ("cross_entropy_fw",),
    },
    "layer norm without bias in training": norm(
        BF16, inputs={"input": (4, 6), "weight": (6,)}, keywords=SIX, trained=("input", "weight"),
        emits=("layer_norm", "layer_norm_backward"),
    ),
}  # fmt: skip
OTHERWISE["a sum of losses"]["inputs"]["target"] = TARGET.clamp(min=0)


@pytest.mark.parametrize("name", OTHERWISE)
def test_calls_that_an_operation_of_tt_mlir_is_not_for(
    name: str, registries: Any, form: Any, check: Any
) -> None:
    registries("tenstorrent_2026_09", "tenstorrent")
    with composites.enabled("tenstorrent.*"):
        check(made(form, OTHERWISE[name]))


COMPILED = [name for name, spec in FORMS.items() if spec["call"] in (
    F.gelu, F.layer_norm, F.rms_norm, F.group_norm, F.scaled_dot_product_attention
)]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    first_of_each([*COMPILED, *NEWER_FORMS], lambda name: (FORMS | NEWER_FORMS)[name].get("emits")),
)
def test_compiled_form(name: str, registries: Any, form: Any, check: Any) -> None:
    """In the graphs of torch.compile, run operator by operator, a call is the same composite."""
    registries(*(["tenstorrent_2026_09"] if name in NEWER_FORMS else []), "tenstorrent")
    with composites.enabled("tenstorrent.*"):
        check(made(form, (FORMS | NEWER_FORMS)[name]).compiled())


def test_weights_of_another_type_keep_the_stock_lowering(
    registries: Any, stablehlo: Any, emitted: Any
) -> None:
    registries("tenstorrent")
    x = torch.ones(2, 6, dtype=BF16, device="xla")
    weight = torch.ones(6, device="xla")
    with composites.enabled("tenstorrent.*"):
        for call in (F.layer_norm, F.rms_norm):
            assert emitted(stablehlo([call(x, [6], weight)])) == []
        assert emitted(stablehlo([F.group_norm(x, 2, weight)])) == []


def test_a_scale_that_is_an_integer_is_sent_as_a_float(
    registries: Any, stablehlo: Any, emitted: Any
) -> None:
    registries("tenstorrent")
    x = torch.ones(HEADS, dtype=BF16, device="xla")
    with composites.enabled("tenstorrent.*"):
        (call,) = emitted(stablehlo([F.scaled_dot_product_attention(x, x, x, scale=1)]))
    assert "scale = 1.000000e+00 : f32" in call


def test_dropout_keeps_the_stock_lowering(registries: Any, stablehlo: Any, emitted: Any) -> None:
    registries("tenstorrent")
    x = torch.ones(HEADS, dtype=BF16, device="xla")
    with composites.enabled("tenstorrent.*"):
        for q in (x, x.clone().requires_grad_()):
            dropped = F.scaled_dot_product_attention(q, x, x, dropout_p=0.5)
            assert emitted(stablehlo([dropped])) == []


def test_inference_mode(registries: Any, stablehlo: Any, emitted: Any) -> None:
    registries("tenstorrent_2026_09", "tenstorrent")
    with composites.enabled("tenstorrent.*"), torch.inference_mode():
        x = torch.ones(HEADS, dtype=BF16, device="xla")
        (call,) = emitted(stablehlo([F.scaled_dot_product_attention(x, x, x)]))
        assert call.startswith('"tenstorrent.scaled_dot_product_attention"')


def test_llamas_norm_is_an_rms_norm(registries: Any, stablehlo: Any, emitted: Any) -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    registries("tenstorrent")
    norm, x = LlamaRMSNorm(6, eps=1e-6), torch.linspace(-1, 1, 12).reshape(2, 6)
    expected = norm(x)
    with composites.enabled("tenstorrent.*"):
        result = norm.to("xla")(x.to("xla"))
        (call, *_) = emitted(stablehlo([result]))
    assert call.startswith('"tenstorrent.rms_norm"')
    assert "{epsilon = 9.99999997E-7 : f32, normalized_shape = dense<6> : tensor<1xi64>}" in call
    torch.testing.assert_close(result.cpu(), expected)


# The decompositions by themselves, in f32: a compiler may have a kernel for one direction only.


@pytest.mark.parametrize("mask_type", [0, 1, 2])
def test_sdpa_is_exact(mask_type: int, registries: Any) -> None:
    registries("tenstorrent")
    import tenstorrent_ops as ops

    torch.manual_seed(0)
    query, grad = torch.randn(2, 4, 32, 8, requires_grad=True), torch.randn(2, 4, 32, 6)
    key = torch.randn(2, 2, 32, 8, requires_grad=True)
    value = torch.randn(2, 2, 32, 6, requires_grad=True)
    keep = LOWER.flip(0) if mask_type == 2 else None
    stock = F.scaled_dot_product_attention(
        query, key, value, keep, is_causal=mask_type == 1, enable_gqa=True
    )
    expected = torch.autograd.grad(stock, (query, key, value), grad)
    mask = None if keep is None else keep.to(F32).reshape(1, 1, 32, 32)
    options = {"mask_type": mask_type, "dropout_probability": 0.0}
    with torch.no_grad():
        result, intermediates = ops.sdpa_fw(query, key, value, mask, **options)
        assert intermediates.shape == (2, 4, 32, 32)
        assert not intermediates[..., 1:].any()
        torch.testing.assert_close(result, stock)
        # A producer that fills the whole tile with the same number is read as well.
        for given in (intermediates, intermediates[..., :1].expand(2, 4, 32, 32)):
            grads = ops.sdpa_bw(grad, result, query, key, value, given, mask, **options)
            for got, want in zip(grads, expected, strict=True):
                torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_layernorm_is_exact(registries: Any) -> None:
    registries("tenstorrent")
    import tenstorrent_ops as ops

    torch.manual_seed(0)
    x, grad = torch.randn(1, 1, 4, 6, requires_grad=True), torch.randn(1, 1, 4, 6)
    weight, bias = (torch.randn(1, 1, 1, 6, requires_grad=True) for _ in range(2))
    stock = F.layer_norm(x, [6], weight.reshape(6), bias.reshape(6))
    expected = torch.autograd.grad(stock, (x, weight, bias), grad)
    with torch.no_grad():
        result, mean, rstd = ops.layernorm_fw(x, weight, bias, epsilon=1e-5)
        torch.testing.assert_close(result, stock)
        for got, want in zip(ops.layernorm_bw(x, weight, mean, rstd, grad), expected, strict=True):
            torch.testing.assert_close(got, want)


# AdamW.


def steps(device: str, count: int, **options: Any) -> tuple[torch.nn.Parameter, dict[str, Any]]:
    """A parameter after some steps of AdamW, and its state."""
    kind = options.pop("kind", torch.optim.AdamW)
    parameter = torch.nn.Parameter(torch.linspace(-1, 1, 6).reshape(2, 3).to(device))
    optimizer = kind([parameter], **options)
    for step in range(count):
        parameter.grad = torch.linspace(-0.5, 1, 6).reshape(2, 3).to(device) * (step + 1)
        optimizer.step()
    return parameter, optimizer.state[parameter]


ADAMW: dict[str, dict[str, Any]] = {
    "adamw": {"lr": 1e-2},
    "adamw_amsgrad": {"lr": 1e-2, "amsgrad": True, "weight_decay": 0.1, "betas": (0.8, 0.99)},
}


@pytest.mark.parametrize("revision", ["attributes", "operands"])
@pytest.mark.parametrize("name", ADAMW)
def test_adamw(
    name: str, revision: str, registries: Any, stablehlo: Any, golden: Any, emitted: Any
) -> None:
    newer = ["tenstorrent_2026_09"] if revision == "operands" else []
    registries(*newer, "tenstorrent")
    with composites.enabled("tenstorrent.*"):
        parameter, state = steps("xla", 1, **ADAMW[name])
        moments = [t for key, t in state.items() if key != "step"]
        text = stablehlo([parameter.detach(), *moments])
        (call,) = emitted(text)
        golden("tenstorrent", f"{name}_{revision}", text)
        assert call.startswith('"tenstorrent.adamw"')
        parameter, state = steps("xla", 3, **ADAMW[name])
    expected, expected_state = steps("cpu", 3, **ADAMW[name])
    # 1 - beta^t of a beta^t in f32 has lost some of its digits.
    torch.testing.assert_close(parameter.cpu().detach(), expected.detach(), rtol=1e-4, atol=1e-6)
    for key, value in expected_state.items():
        torch.testing.assert_close(state[key].cpu(), value, rtol=1e-4, atol=1e-6)


def test_adamw_makes_one_graph_of_all_steps_only_with_operands(
    registries: Any, stablehlo: Any
) -> None:
    texts: dict[str, set[str]] = {}
    for files in (("tenstorrent",), ("tenstorrent_2026_09", "tenstorrent")):
        registries(*files)
        with composites.enabled("tenstorrent.*"):
            parameter = torch.nn.Parameter(torch.ones(2, 3, device="xla"))
            optimizer = torch.optim.AdamW([parameter], lr=0.1)
            for _ in range(3):
                parameter.grad = torch.ones(2, 3).to("xla")
                optimizer.step()
                texts.setdefault(files[0], set()).add(stablehlo([parameter.detach()]))
                torch_xla.sync()
    counts = {name: len(found) for name, found in texts.items()}
    # The first step is a graph of its own: zeros are made in it.
    assert counts == {"tenstorrent": 3, "tenstorrent_2026_09": 2}


@pytest.mark.parametrize(
    ("options", "emits"),
    [
        ({"maximize": True}, True),
        ({"kind": torch.optim.Adam}, True),
        ({"kind": torch.optim.Adam, "weight_decay": 0.1}, False),
    ],
)
@pytest.mark.parametrize("files", [("tenstorrent",), ("tenstorrent_2026_09", "tenstorrent")])
def test_adam_is_adamw_where_no_weight_decays(
    options: dict[str, Any],
    emits: bool,
    files: tuple[str, ...],
    registries: Any,
    stablehlo: Any,
    emitted: Any,
) -> None:
    registries(*files)
    with composites.enabled("tenstorrent.*"):
        parameter, _ = steps("xla", 1, **options)
        assert bool(emitted(stablehlo([parameter.detach()]))) == emits
    expected, _ = steps("cpu", 1, **options)
    torch.testing.assert_close(parameter.cpu().detach(), expected.detach(), rtol=1e-4, atol=1e-6)


def test_an_exported_step_has_adamw_with_operands(registries: Any) -> None:
    registries("tenstorrent_2026_09", "tenstorrent")

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).square().mean()

    program = composites.export(
        Loss(), (torch.ones(4, 3),), optimizer=torch.optim.AdamW, ops=["tenstorrent.*"]
    )
    assert program.composites == {"tenstorrent.adamw": 2}


def test_each_call_may_have_a_decomposition_of_its_own(registries: Any) -> None:
    """tt-mlir groups calls of a sharded module by their decomposition."""
    registries("tenstorrent")

    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.gelu(F.gelu(x))

    program = composites.export(
        Twice(), (torch.ones(4, 3),), ops=["tenstorrent.*"], share_decompositions=False
    )
    assert len(set(re.findall(r"decomposition = (@[\w.]+)", program.mlir))) == 2


# Random numbers.


def drawn(low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    torch.manual_seed(3)
    torch_xla.manual_seed(3)
    return torch.empty(40, 50, device="xla").uniform_(low, high)


def test_uniform_has_constants_as_bounds(
    registries: Any, stablehlo: Any, golden: Any, emitted: Any
) -> None:
    """tt-mlir aborts at others."""
    registries("tenstorrent")
    with composites.enabled("tenstorrent.uniform"):
        for name, numbers in (("uniform", drawn()), ("uniform_scaled", drawn(-2.0, 3.0))):
            text = stablehlo([numbers])
            golden("tenstorrent", name, text)
            (call,) = emitted(text)
            assert "{dtype = f32, shape = [40 : i32, 50 : i32]}" in call
            assert "(tensor<2xui32>, tensor<f32>, tensor<f32>) -> tensor<40x50xf32>" in call
            operands = re.findall(r"%\w+", call)
            bounds = [f"{name} = stablehlo.constant dense<{n}.000000e+00> : tensor<f32>"
                      for n, name in enumerate(operands[1:3])]  # fmt: skip
            assert all(bound in text for bound in bounds)


def test_uniform_draws_from_pytorchs_generator(registries: Any) -> None:
    registries("tenstorrent")
    with composites.enabled("tenstorrent.uniform"):
        numbers, same, wide = drawn().cpu(), drawn().cpu(), drawn(-2.0, 3.0).cpu()
        further = torch.empty(40, 50, device="xla").uniform_().cpu()
    assert torch.equal(numbers, same)
    assert not torch.equal(numbers, further)
    torch.testing.assert_close(wide, numbers * 5 - 2)
    for found in (numbers, further):
        assert 0 <= found.min() < 0.01 < 0.99 < found.max() < 1
        assert abs(found.mean() - 0.5) < 0.03
        assert abs(found.var() - 1 / 12) < 0.01
        assert len(found.unique()) > 1990
        neighbours = torch.corrcoef(torch.stack([found[:, 1:].flatten(), found[:, :-1].flatten()]))
        assert abs(neighbours[0, 1]) < 0.1


def test_uniform_of_other_types_keeps_the_stock_lowering(
    registries: Any, stablehlo: Any, emitted: Any
) -> None:
    registries("tenstorrent")
    with composites.enabled("tenstorrent.uniform"):
        numbers = torch.empty(4, dtype=BF16, device="xla").uniform_()
        assert emitted(stablehlo([numbers])) == []
