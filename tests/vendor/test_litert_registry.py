"""The registries for LiteRT: what each form is in StableHLO, that it computes the same, and that
calls which LiteRT would refuse or read as something else keep the stock lowering.

tests/consumers/test_litert.py runs LiteRT itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from composites_testing.selection import first_of_each

import composites

F32 = torch.float32
FILES = ("litert", "litert_odml", "litert_tfl")
IMAGE = (1, 2, 6, 8)


def pool(shape: tuple[int, ...] = IMAGE, **more: Any) -> dict[str, Any]:
    emits = more.pop("emits", ())
    return {"call": F.avg_pool2d, "inputs": {"input": shape}, "emits": emits, "keywords": more}


def attention(query: tuple[int, ...], key: tuple[int, ...], **more: Any) -> dict[str, Any]:
    inputs: dict[str, Any] = {"query": query, "key": key, "value": key}
    mask, emits = more.pop("attn_mask", None), more.pop("emits", ())
    if mask is not None:
        inputs["attn_mask"] = mask
    return {
        "call": F.scaled_dot_product_attention, "inputs": inputs, "emits": emits, "keywords": more,
        "inside": len(emits),  # a softmax
    }  # fmt: skip


def resize(mode: str, shape: tuple[int, ...] = (1, 2, 3, 4), **more: Any) -> dict[str, Any]:
    emits = more.pop("emits", ())
    return {
        "call": F.interpolate, "inputs": {"input": shape}, "emits": emits,
        "keywords": {"mode": mode, **more},
    }  # fmt: skip


def stacked(first: Any, second: Any, third: Any, fourth: Any, dim: int) -> torch.Tensor:
    return torch.stack([first, second, third, fourth], dim)


def normalized(input: Any, **options: Any) -> torch.Tensor:
    return F.normalize(input, **options)  # what is there when it is called


def updated(x: Any, update: Any, begin: Any) -> torch.Tensor:
    import litert_ops

    return litert_ops.dynamic_update_slice(x, update, begin)


def of_litert(name: str) -> Callable[..., Any]:
    def call(**given: Any) -> Any:
        import litert_ops

        return getattr(litert_ops, name)(**given)

    return call


def multiplied(lhs: Any, rhs: Any) -> torch.Tensor:
    import litert_ops

    return litert_ops.bmm_4d_adj_y(lhs, rhs)


SDPA = "odml.scaled_dot_product_attention"
POOL = "aten.avg_pool2d.default"
LAYER = {"input": (2, 4, 6), "weight": (6,), "bias": (6,)}
GROUP = {"input": (2, 4, 3, 5), "weight": (4,), "bias": (4,)}
FOUR = {"first": (2, 3), "second": (2, 3), "third": (2, 3), "fourth": (2, 3)}
LOWER = torch.ones(5, 5, dtype=torch.bool).tril()

FORMS: dict[str, dict[str, Any]] = {
    "gelu": {"call": F.gelu, "inputs": {"input": (2, 3)}, "emits": ("aten.gelu.default",)},
    "gelu_tanh": {
        "call": F.gelu, "inputs": {"input": (2, 3)}, "emits": ("aten.gelu.default",),
        "keywords": {"approximate": "tanh"},
    },
    "hardswish": {
        "call": F.hardswish, "inputs": {"input": (2, 3)}, "emits": ("aten.hardswish.default",),
    },
    "avg_pool2d": pool(kernel_size=2, emits=(POOL,)),
    "avg_pool2d_with_padding": pool(kernel_size=(3, 5), stride=2, padding=(1, 2), emits=(POOL,)),
    "avg_pool2d_ceil": pool((1, 2, 7, 8), kernel_size=2, ceil_mode=True, emits=(POOL,)),
    "avg_pool2d_same": pool(
        kernel_size=3, stride=1, padding=1, count_include_pad=False, emits=(POOL,)
    ),
    "adaptive_avg_pool2d": {
        "call": F.adaptive_avg_pool2d, "inputs": {"input": IMAGE}, "emits": (POOL,),
        "keywords": {"output_size": (3, 2)},
    },
    "softmax": {
        "call": F.softmax, "inputs": {"input": (2, 3)}, "emits": ("odml.softmax",),
        "keywords": {"dim": 1},
    },
    "embedding_lookup": {
        "call": F.embedding, "inputs": {"input": torch.tensor([[1, 4], [0, 1]]), "weight": (5, 3)},
        "emits": ("odml.embedding_lookup",),
    },
    "upsample_bilinear2d": resize(
        "bilinear", scale_factor=2.0, emits=("odml.upsample_bilinear2d",)
    ),
    "upsample_bilinear2d_corners": resize(
        "bilinear", size=(5, 7), align_corners=True, emits=("odml.upsample_bilinear2d",)
    ),
    "rms_norm": {
        "call": F.rms_norm, "inputs": {"input": (2, 4, 6), "weight": (6,)},
        "emits": ("odml.rms_norm",), "keywords": {"normalized_shape": [6], "eps": 1e-6},
    },
    "rms_norm_without_weight_or_eps": {
        "call": F.rms_norm, "inputs": {"input": (4, 6)}, "emits": ("odml.rms_norm",),
        "keywords": {"normalized_shape": [6]},
    },
    "group_norm": {
        "call": F.group_norm, "inputs": GROUP, "emits": ("odml.group_norm",),
        "keywords": {"num_groups": 2},
    },
    "layer_norm": {
        "call": F.layer_norm, "inputs": LAYER, "emits": ("odml.group_norm",),
        "keywords": {"normalized_shape": [6]},
    },
    "l2_norm": {
        "call": normalized, "inputs": {"input": (4, 6)}, "emits": ("odml.l2_norm",),
        "keywords": {"dim": -1, "eps": 1e-6},
    },
    "attention": attention((2, 4, 5, 8), (2, 4, 7, 8), emits=(SDPA,)),
    "attention_causal": attention(
        (2, 4, 5, 8), (2, 2, 5, 8), is_causal=True, enable_gqa=True, scale=1, emits=(SDPA,)
    ),
    "attention_bool_mask": attention(
        (2, 4, 5, 8), (2, 4, 5, 8), attn_mask=LOWER, emits=(SDPA,)
    ),
    "attention_additive_mask": attention(
        (2, 4, 5, 8), (2, 4, 7, 8), attn_mask=(2, 1, 1, 7), emits=(SDPA,)
    ),
    "mean": {
        "call": torch.mean, "inputs": {"input": (2, 3, 4)}, "emits": ("tfl.mean",),
        "keywords": {"dim": (-1, 0), "keepdim": True},
    },
    "resize_nearest_neighbor": resize(
        "nearest", scale_factor=(2.0, 3.0), emits=("tfl.resize_nearest_neighbor",)
    ),
    "mirror_pad": {
        "call": F.pad, "inputs": {"input": (1, 2, 5, 6)}, "emits": ("tfl.mirror_pad",),
        "keywords": {"pad": (1, 2, 3, 4), "mode": "reflect"},
    },
    "pack": {
        "call": stacked, "inputs": FOUR, "emits": ("tfl.pack",), "keywords": {"dim": -1},
    },
    "dynamic_update_slice": {
        "call": updated, "emits": ("tfl.dynamic_update_slice",),
        "inputs": {
            "x": (3, 5), "update": (2, 2), "begin": torch.tensor([1, 2], dtype=torch.int32)
        },
    },
    "slice": {
        "call": of_litert("slice"), "emits": ("tfl.slice",), "keywords": {"sizes": [2, 3]},
        "inputs": {"x": (3, 5), "begin": torch.tensor([2, 1], dtype=torch.int32)},  # is clamped
    },
    "unpack": {
        "call": of_litert("unpack"), "emits": ("tfl.unpack",), "inputs": {"x": (2, 3)},
        "keywords": {"num": 3, "axis": 1},
    },
    "random_uniform": {
        "call": of_litert("random_uniform"), "emits": ("odml.random_uniform",),
        "inputs": {"like": (2, 3)}, "keywords": {"seed": 3, "seed2": 4},
    },
    "update_kv_cache": {
        "call": of_litert("update_kv_cache"), "emits": ("odml.update_kv_cache",),
        "inputs": {
            "k_cache": (1, 4, 2, 3), "v_cache": (1, 4, 2, 3), "positions": torch.tensor([3, 1]),
            "key": (1, 2, 2, 3), "value": (1, 2, 2, 3),
        },
        "keywords": {"kv_cache_max": 4},
    },
    "quantize_and_dequantize": {
        "call": of_litert("quantize_and_dequantize"), "emits": ("odml.quantize_and_dequantize",),
        "inputs": {"weight": (4, 3)}, "keywords": {"axis": 0, "bits": 4},
    },
    "rope": {
        "call": of_litert("rope"), "emits": ("odml.rope",),
        "inputs": {"x": (1, 3, 2, 8), "positions": torch.tensor([0, 1, 5], dtype=torch.int32)},
    },
    "bmm_4d_adj_y": {
        "call": multiplied, "inputs": {"lhs": (1, 2, 3, 4), "rhs": (1, 2, 5, 4)},
        "emits": ("tfl.bmm_4d_adj_y",),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str, registries: Any, form: Callable[..., Any], check: Any) -> None:
    registries(*FILES)
    with composites.enabled("aten.*", "odml.*", "tfl.*"):
        check(form(**FORMS[name]), ("litert", name))


# torch.compile has decompositions of its own for interpolation.
COMPILED = [name for name, spec in FORMS.items() if spec["call"] is not F.interpolate]


@pytest.mark.parametrize("name", first_of_each(COMPILED, lambda name: FORMS[name]["emits"]))
def test_compiled_form(name: str, registries: Any, form: Callable[..., Any], check: Any) -> None:
    """In the graphs of torch.compile, run operator by operator, a call is the same composite."""
    registries(*FILES)
    with composites.enabled("aten.*", "odml.*", "tfl.*"):
        check(form(**FORMS[name]).compiled())


LLAMA_NORM = {
    "as LiteRT takes it": (F32, False, ["odml.rms_norm"]),
    "in bf16": (torch.bfloat16, False, []),
    "in training": (F32, True, []),
}


@pytest.mark.parametrize("name", LLAMA_NORM)
def test_compiled_python_functions_that_an_entry_claims(
    name: str, registries: Any, stablehlo: Any, emitted: Any
) -> None:
    """torch.compile reads the conditions; what the entry does not claim is the function itself."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    registries(*FILES)
    dtype, requires_grad, expected = LLAMA_NORM[name]
    norm = LlamaRMSNorm(6).to("xla", dtype).requires_grad_(requires_grad)
    x = torch.arange(12.0).reshape(2, 6).to("xla", dtype)  # ones would be folded with eps
    torch._dynamo.reset()
    with composites.enabled("odml.*"):
        result = torch.compile(norm, backend="aot_eager", fullgraph=True)(x)
        found = [call.split('"')[1] for call in emitted(stablehlo([result.detach()]))]
    assert found == expected
    assert torch.equal(result.detach().cpu(), norm(x).detach().cpu())


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_tfl_has_a_boolean(
    approximate: str, registries: Any, form: Callable[..., Any], check: Any, emitted: Any
) -> None:
    registries(*FILES)
    gelu = form(
        call=F.gelu, inputs={"input": (2, 3)}, emits=("tfl.gelu",),
        keywords={"approximate": approximate},
    )  # fmt: skip
    with composites.enabled("tfl.gelu"):
        text = check(gelu, ("litert", f"tfl_gelu_{approximate}"))
    flag = {"none": "false", "tanh": "true"}[approximate]
    assert f"{{approximate = {flag}}}" in emitted(text)[0]


# Calls that LiteRT refuses, or reads as something else; nothing means the stock lowering.
OTHERWISE: dict[str, dict[str, Any]] = {
    "a divisor": pool(kernel_size=2, divisor_override=3),
    "rounding up without counting padding": pool(
        (1, 2, 7, 8), kernel_size=2, ceil_mode=True, count_include_pad=False
    ),
    "padding that is neither SAME nor VALID": pool(
        kernel_size=4, stride=1, padding=1, count_include_pad=False
    ),
    "padding that is SAME for one size and not for another": pool(
        kernel_size=3, stride=2, padding=1, count_include_pad=False
    ),
    "no padding to count": pool(kernel_size=2, count_include_pad=False, emits=(POOL,)),
    "pooling without a batch": pool((2, 6, 8), kernel_size=2),
    "windows of several sizes": {
        "call": F.adaptive_avg_pool2d, "inputs": {"input": IMAGE}, "keywords": {"output_size": 4},
    },
    "softmax over another dimension": {
        "call": F.softmax, "inputs": {"input": (2, 3)}, "keywords": {"dim": 0},
    },
    "two dimensions of rms_norm": {
        "call": F.rms_norm, "inputs": {"input": (3, 4, 6)},
        "keywords": {"normalized_shape": [4, 6]},
    },
    "rms_norm of five dimensions": {
        "call": F.rms_norm, "inputs": {"input": (1, 1, 2, 2, 6)},
        "keywords": {"normalized_shape": [6]},
    },
    "group norm without weight": {
        "call": F.group_norm, "inputs": {"input": (2, 4, 3, 3)}, "keywords": {"num_groups": 2},
    },
    "group norm of sequences": {
        "call": F.group_norm, "inputs": GROUP | {"input": (2, 4, 3)}, "keywords": {"num_groups": 2},
    },
    "layer norm without bias": {
        "call": F.layer_norm, "inputs": {"input": (4, 6), "weight": (6,)},
        "keywords": {"normalized_shape": [6]},
    },
    "layer norm of two dimensions": {
        "call": F.layer_norm, "inputs": {"input": (3, 4, 6), "weight": (4, 6), "bias": (4, 6)},
        "keywords": {"normalized_shape": [4, 6]},
    },
    "another norm": {
        "call": normalized, "inputs": {"input": (4, 6)}, "keywords": {"dim": -1, "p": 1.0},
    },
    "a norm of another dimension": {"call": normalized, "inputs": {"input": (2, 4, 6)}},
    "attention in bf16": attention((2, 4, 5, 8), (2, 4, 5, 8)) | {"dtype": torch.bfloat16},
    "attention of three dimensions": attention((4, 5, 8), (4, 7, 8)),
    "attention to one head for all without enable_gqa": attention((2, 4, 5, 8), (2, 1, 5, 8)),
    "attention to values of another dimension": {
        "call": F.scaled_dot_product_attention,
        "inputs": {"query": (2, 4, 8, 8), "key": (2, 4, 8, 8), "value": (2, 4, 8, 4)},
    },
    "causal attention over other lengths": attention(
        (2, 4, 5, 8), (2, 4, 7, 8), is_causal=True, emits=(SDPA,)
    ),
    "a mean of everything": {"call": torch.mean, "inputs": {"input": (2, 3)}},
    # TensorFlow's nearest neighbour is at the centre of a pixel.
    "nearest by a ratio": resize("nearest", size=(5, 6)),
    "nearest to something smaller": resize("nearest", (1, 2, 4, 4), size=(2, 2)),
    "reflection without a batch": {
        "call": F.pad, "inputs": {"input": (2, 5, 6)},
        "keywords": {"pad": (1, 2, 3, 4), "mode": "reflect"},
    },
    "gelu in training": {
        "call": F.gelu, "inputs": {"input": (2, 3)}, "emits": ("aten.gelu.default",),
        "trained": ("input",),
    },
    "embedding in training": {
        "call": F.embedding, "inputs": {"input": torch.tensor([[1, 4], [0, 1]]), "weight": (5, 3)},
        "trained": ("weight",),
    },
    "layer norm in training": {
        "call": F.layer_norm, "inputs": LAYER, "keywords": {"normalized_shape": [6]},
        "trained": ("input", "weight", "bias"),
    },
    "attention in training": attention((2, 4, 5, 8), (2, 4, 5, 8), is_causal=True)
    | {"trained": ("query", "key", "value")},
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERWISE)
def test_calls_that_litert_is_not_for(
    name: str, registries: Any, form: Callable[..., Any], check: Any
) -> None:
    registries(*FILES)
    with composites.enabled("aten.*", "odml.*", "tfl.*"):
        if not OTHERWISE[name].get("inside"):  # what the stock lowering is made of may be one too
            composites.disable("odml.softmax" if "attention" in name else "tfl.mean")
        check(form(**OTHERWISE[name]))


def test_stacks_of_another_number_keep_the_stock_lowering(
    registries: Any, stablehlo: Any, emitted: Any
) -> None:
    registries(*FILES)
    with composites.enabled("tfl.*"):
        x = torch.ones(2, 3, device="xla")
        assert emitted(stablehlo([torch.stack([x, x, x])])) == []
        assert emitted(stablehlo([torch.stack([x, x, x, x, x])])) == []


def test_a_scale_factor_that_is_not_the_ratio_of_the_sizes_keeps_the_stock_lowering(
    registries: Any, stablehlo: Any, emitted: Any
) -> None:
    registries(*FILES)
    with composites.enabled("odml.*"):
        x = torch.ones(1, 1, 6, 6, device="xla")
        resized = F.interpolate(x, scale_factor=1.7, mode="bilinear")
        assert emitted(stablehlo([resized])) == []


def test_a_short_vector_stays_short_under_l2_norm(registries: Any) -> None:
    registries(*FILES)
    x = torch.tensor([[0.0, 0.0], [3e-9, 4e-9]])
    with composites.enabled("odml.*"):
        result = F.normalize(x.to("xla"), dim=-1, eps=1e-12).cpu()
    torch.testing.assert_close(result, F.normalize(x, dim=-1, eps=1e-12))


def test_a_row_that_is_masked_completely_is_a_number(registries: Any) -> None:
    registries(*FILES)
    x = torch.linspace(-1, 1, 40).reshape(1, 1, 5, 8)
    mask = LOWER.tril(-1)
    with composites.enabled("odml.*"):
        args = (x.to("xla"),) * 3
        result = F.scaled_dot_product_attention(*args, attn_mask=mask.to("xla")).cpu()
    expected = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    torch.testing.assert_close(result[:, :, 1:], expected[:, :, 1:])
    torch.testing.assert_close(result[:, :, 0], x.mean(2))


def test_an_exported_program_has_them(registries: Any) -> None:
    registries(*FILES)

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.norm = torch.nn.Embedding(10, 8), torch.nn.LayerNorm(8)

        def forward(self, indices: torch.Tensor) -> torch.Tensor:
            x = self.norm(self.table(indices))
            heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
            return F.normalize(F.scaled_dot_product_attention(heads, heads, heads), dim=-1)

    program = composites.export(
        Block(), (torch.ones(2, 5, dtype=torch.int64),), ops=["aten.*", "odml.*", "tfl.*"]
    )
    assert program.composites == {
        "odml.embedding_lookup": 1, "odml.group_norm": 1, "odml.l2_norm": 1, "odml.softmax": 1,
        "odml.scaled_dot_product_attention": 1,
    }  # fmt: skip


# litert_training.yaml.

TRAINING = (*FILES, "litert_training")


def gradient(function: Callable[..., torch.Tensor], device: str, x: torch.Tensor) -> torch.Tensor:
    leaf = x.to(device).requires_grad_()
    result = function(leaf)
    weights = torch.arange(result.numel(), dtype=torch.float32).reshape(result.shape)
    (result * weights.to(device)).sum().backward()
    assert leaf.grad is not None
    return leaf.grad.cpu()


POOLS: dict[str, tuple[tuple[int, ...], dict[str, Any], bool]] = {
    "square": ((2, 3, 4, 6), {"kernel_size": 2}, True),
    "flat": ((1, 2, 6, 6), {"kernel_size": (3, 1), "stride": (3, 1)}, True),
    "overlapping": ((1, 2, 6, 6), {"kernel_size": 3, "stride": 1}, False),
    "padded": ((1, 2, 6, 6), {"kernel_size": 2, "padding": 1}, False),
    "rest": ((1, 2, 5, 6), {"kernel_size": 2}, False),
}


@pytest.mark.parametrize("name", POOLS)
def test_max_pool2d_in_windows_beside_each_other(name: str, registries: Any) -> None:
    registries(*TRAINING)
    shape, options, claimed = POOLS[name]
    x = torch.randint(0, 3, shape).float()  # with equal values in most windows
    if claimed:  # the stock lowering loses NaN
        x[0, 0, 0, 0] = torch.nan

    def pooled(t: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(t, **options)

    module = Computed(pooled)
    program = composites.export(module, (x,), ops=["litert.*"])
    assert program.composites == ({"litert.max_pool2d": 1} if claimed else {})
    with composites.enabled("litert.max_pool2d"):
        result, grad = pooled(x.to("xla")).cpu(), gradient(pooled, "xla", x)
    torch.testing.assert_close(result, pooled(x), equal_nan=True)
    if claimed:
        torch.testing.assert_close(grad, gradient(pooled, "cpu", x), equal_nan=True)


class Computed(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


@pytest.mark.parametrize("padding_idx", [None, 2])
def test_the_gradient_of_an_embedding_without_scatter(
    padding_idx: int | None, registries: Any, stablehlo: Any
) -> None:
    registries(*TRAINING)
    indices = torch.tensor([[0, 2, 2], [4, 0, 0]])

    def looked_up(table: torch.Tensor) -> torch.Tensor:
        return F.embedding(indices.to(table.device), table, padding_idx=padding_idx)

    table = torch.randn(5, 3)
    with composites.enabled("litert.*"):
        found = gradient(looked_up, "xla", table)
        leaf = table.to("xla").requires_grad_()
        looked_up(leaf).sum().backward()
        text = stablehlo([leaf.grad])
    assert '"litert.embedding_dense_backward"' in text
    assert "stablehlo.scatter" not in text
    torch.testing.assert_close(found, gradient(looked_up, "cpu", table))
