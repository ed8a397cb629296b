"""The registries for LiteRT: what each form is in StableHLO, that it computes the same, and that
calls which LiteRT would refuse or read as something else keep the stock lowering.

tests/consumers/test_litert.py runs LiteRT itself.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from composites_testing.vendor_calls import (
    Form,
    check_forms,
    emitted,
    emitted_by,
    form,
    stablehlo,
    values_and_gradients,
)

import composites

FILES = ("litert", "litert_odml", "litert_tfl")
IMAGE = (1, 2, 6, 8)


def pool(*emits: str, shape: tuple[int, ...] = IMAGE, **keywords: Any) -> Form:
    return form(F.avg_pool2d, {"input": shape}, *emits, **keywords)


def resize(mode: str, *emits: str, shape: tuple[int, ...] = (1, 2, 3, 4), **more: Any) -> Form:
    return form(F.interpolate, {"input": shape}, *emits, mode=mode, **more)


def attention(
    query: tuple[int, ...],
    key: tuple[int, ...],
    *emits: str,
    value: tuple[int, ...] | None = None,
    attn_mask: Any = None,
    **more: Any,
) -> Form:
    inputs: dict[str, Any] = {"query": query, "key": key, "value": value or key}
    if attn_mask is not None:
        inputs["attn_mask"] = attn_mask
    softmaxes = len(emits)
    return form(F.scaled_dot_product_attention, inputs, *emits, inside=softmaxes, **more)


def stacked(dim: int = 0, **tensors: torch.Tensor) -> torch.Tensor:
    return torch.stack(list(tensors.values()), dim)


def normalized(input: Any, **options: Any) -> torch.Tensor:
    return F.normalize(input, **options)  # what is there when it is called


def of_litert(name: str) -> Callable[..., Any]:
    def call(**given: Any) -> Any:
        import litert_ops

        return getattr(litert_ops, name)(**given)

    return call


SDPA = "odml.scaled_dot_product_attention"
POOL = "aten.avg_pool2d.default"
LAYER = {"input": (2, 4, 6), "weight": (6,), "bias": (6,)}
GROUP = {"input": (2, 4, 3, 5), "weight": (4,), "bias": (4,)}
FOUR = {"first": (2, 3), "second": (2, 3), "third": (2, 3), "fourth": (2, 3)}
LOWER = torch.ones(5, 5, dtype=torch.bool).tril()

FORMS: dict[str, Form] = {
    "gelu": form(F.gelu, {"input": (2, 3)}, "aten.gelu.default"),
    "gelu_tanh": form(F.gelu, {"input": (2, 3)}, "aten.gelu.default", approximate="tanh"),
    "hardswish": form(F.hardswish, {"input": (2, 3)}, "aten.hardswish.default"),
    "avg_pool2d": pool(POOL, kernel_size=2),
    "avg_pool2d_with_padding": pool(POOL, kernel_size=(3, 5), stride=2, padding=(1, 2)),
    "avg_pool2d_ceil": pool(POOL, shape=(1, 2, 7, 8), kernel_size=2, ceil_mode=True),
    "avg_pool2d_same": pool(POOL, kernel_size=3, stride=1, padding=1, count_include_pad=False),
    "adaptive_avg_pool2d": form(F.adaptive_avg_pool2d, {"input": IMAGE}, POOL, output_size=(3, 2)),
    "softmax": form(F.softmax, {"input": (2, 3)}, "odml.softmax", dim=1),
    "embedding_lookup": form(
        F.embedding,
        {"input": torch.tensor([[1, 4], [0, 1]]), "weight": (5, 3)},
        "odml.embedding_lookup",
    ),
    "upsample_bilinear2d": resize("bilinear", "odml.upsample_bilinear2d", scale_factor=2.0),
    "upsample_bilinear2d_corners": resize(
        "bilinear", "odml.upsample_bilinear2d", size=(5, 7), align_corners=True
    ),
    "rms_norm": form(
        F.rms_norm,
        {"input": (2, 4, 6), "weight": (6,)},
        "odml.rms_norm",
        normalized_shape=[6],
        eps=1e-06,
    ),
    "rms_norm_without_weight_or_eps": form(
        F.rms_norm, {"input": (4, 6)}, "odml.rms_norm", normalized_shape=[6]
    ),
    "group_norm": form(F.group_norm, GROUP, "odml.group_norm", num_groups=2),
    "layer_norm": form(F.layer_norm, LAYER, "odml.group_norm", normalized_shape=[6]),
    "l2_norm": form(normalized, {"input": (4, 6)}, "odml.l2_norm", dim=-1, eps=1e-06),
    "attention": attention((2, 4, 5, 8), (2, 4, 7, 8), SDPA),
    "attention_causal": attention(
        (2, 4, 5, 8), (2, 2, 5, 8), SDPA, is_causal=True, enable_gqa=True, scale=1
    ),
    "attention_bool_mask": attention((2, 4, 5, 8), (2, 4, 5, 8), SDPA, attn_mask=LOWER),
    "attention_additive_mask": attention((2, 4, 5, 8), (2, 4, 7, 8), SDPA, attn_mask=(2, 1, 1, 7)),
    "mean": form(torch.mean, {"input": (2, 3, 4)}, "tfl.mean", dim=(-1, 0), keepdim=True),
    "resize_nearest_neighbor": resize(
        "nearest", "tfl.resize_nearest_neighbor", scale_factor=(2.0, 3.0)
    ),
    "mirror_pad": form(
        F.pad, {"input": (1, 2, 5, 6)}, "tfl.mirror_pad", pad=(1, 2, 3, 4), mode="reflect"
    ),
    "pack": form(stacked, FOUR, "tfl.pack", dim=-1),
    "dynamic_update_slice": form(
        of_litert("dynamic_update_slice"),
        {"x": (3, 5), "update": (2, 2), "begin": torch.tensor([1, 2], dtype=torch.int32)},
        "tfl.dynamic_update_slice",
    ),
    "slice": form(
        of_litert("slice"),
        {"x": (3, 5), "begin": torch.tensor([2, 1], dtype=torch.int32)},
        "tfl.slice",
        sizes=[2, 3],
    ),
    "unpack": form(of_litert("unpack"), {"x": (2, 3)}, "tfl.unpack", num=3, axis=1),
    "random_uniform": form(
        of_litert("random_uniform"), {"like": (2, 3)}, "odml.random_uniform", seed=3, seed2=4
    ),
    "update_kv_cache": form(
        of_litert("update_kv_cache"),
        {
            "k_cache": (1, 4, 2, 3),
            "v_cache": (1, 4, 2, 3),
            "positions": torch.tensor([3, 1]),
            "key": (1, 2, 2, 3),
            "value": (1, 2, 2, 3),
        },
        "odml.update_kv_cache",
        kv_cache_max=4,
    ),
    "quantize_and_dequantize": form(
        of_litert("quantize_and_dequantize"),
        {"weight": (4, 3)},
        "odml.quantize_and_dequantize",
        axis=0,
        bits=4,
    ),
    "rope": form(
        of_litert("rope"),
        {"x": (1, 3, 2, 8), "positions": torch.tensor([0, 1, 5], dtype=torch.int32)},
        "odml.rope",
    ),
    "bmm_4d_adj_y": form(
        of_litert("bmm_4d_adj_y"), {"lhs": (1, 2, 3, 4), "rhs": (1, 2, 5, 4)}, "tfl.bmm_4d_adj_y"
    ),
}


@pytest.fixture
def litert(registries: Callable[..., None]) -> Iterator[None]:
    registries(*FILES)
    with composites.enabled("aten.*", "odml.*", "tfl.*"):
        yield


@pytest.mark.usefixtures("litert")
def test_forms() -> None:
    check_forms(FORMS, "litert")


@pytest.mark.slow
@pytest.mark.usefixtures("litert")
def test_compiled_forms() -> None:
    # torch.compile has decompositions of its own for interpolation.
    compiled = {name: one for name, one in FORMS.items() if one.call is not F.interpolate}
    check_forms(compiled, compiled=True)


@pytest.mark.slow
@pytest.mark.usefixtures("litert")
def test_compiled_python_functions_that_an_entry_claims() -> None:
    """torch.compile reads the conditions; what the entry does not claim is the function itself."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    composites.disable("tfl.*")
    # LiteRT takes f32, and has no gradients.
    for dtype, requires_grad, expected in (
        (torch.float32, False, ["odml.rms_norm"]),
        (torch.bfloat16, False, []),
        (torch.float32, True, []),
    ):
        norm = LlamaRMSNorm(6).to("xla", dtype).requires_grad_(requires_grad)
        x = torch.arange(12.0).reshape(2, 6).to("xla", dtype)  # ones would be folded with eps
        torch._dynamo.reset()
        result = torch.compile(norm, backend="aot_eager", fullgraph=True)(x).detach()
        names = [call.split('"')[1] for call in emitted_by(result)]
        assert names == expected, (dtype, requires_grad)
        assert torch.equal(result.cpu(), norm(x).detach().cpu())


def test_gelu_of_tfl_has_a_boolean(registries: Callable[..., None]) -> None:
    registries(*FILES)
    forms = {
        f"tfl_gelu_{approximate}": form(
            F.gelu, {"input": (2, 3)}, "tfl.gelu", approximate=approximate
        )
        for approximate in ("none", "tanh")
    }
    with composites.enabled("tfl.gelu"):
        exact, tanh = check_forms(forms, "litert").values()
    assert "{approximate = false}" in emitted(exact)[0]
    assert "{approximate = true}" in emitted(tanh)[0]


# Other calls that LiteRT takes.
ALSO: dict[str, Form] = {
    "no padding to count": pool(POOL, kernel_size=2, count_include_pad=False),
    "causal attention over other lengths": attention(
        (2, 4, 5, 8), (2, 4, 7, 8), SDPA, is_causal=True
    ),
    "gelu in training": form(F.gelu, {"input": (2, 3)}, "aten.gelu.default", trained=("input",)),
    "a vector shorter than eps": form(
        normalized, {"input": torch.tensor([[0.0, 0.0], [3e-9, 4e-9]])}, "odml.l2_norm", dim=-1
    ),
}

# Calls that LiteRT refuses, or reads as something else; nothing means the stock lowering.
OTHERWISE: dict[str, Form] = {
    "a divisor": pool(kernel_size=2, divisor_override=3),
    "rounding up without counting padding": pool(
        shape=(1, 2, 7, 8), kernel_size=2, ceil_mode=True, count_include_pad=False
    ),
    "padding that is neither SAME nor VALID": pool(
        kernel_size=4, stride=1, padding=1, count_include_pad=False
    ),
    "padding that is SAME for one size and not for another": pool(
        kernel_size=3, stride=2, padding=1, count_include_pad=False
    ),
    "pooling without a batch": pool(shape=(2, 6, 8), kernel_size=2),
    "windows of several sizes": form(F.adaptive_avg_pool2d, {"input": IMAGE}, output_size=4),
    "softmax over another dimension": form(F.softmax, {"input": (2, 3)}, dim=0),
    "two dimensions of rms_norm": form(F.rms_norm, {"input": (3, 4, 6)}, normalized_shape=[4, 6]),
    "rms_norm of five dimensions": form(
        F.rms_norm, {"input": (1, 1, 2, 2, 6)}, normalized_shape=[6]
    ),
    "group norm without weight": form(F.group_norm, {"input": (2, 4, 3, 3)}, num_groups=2),
    "group norm of sequences": form(F.group_norm, GROUP | {"input": (2, 4, 3)}, num_groups=2),
    "layer norm without bias": form(
        F.layer_norm, {"input": (4, 6), "weight": (6,)}, normalized_shape=[6]
    ),
    "layer norm of two dimensions": form(
        F.layer_norm,
        {"input": (3, 4, 6), "weight": (4, 6), "bias": (4, 6)},
        normalized_shape=[4, 6],
    ),
    "another norm": form(normalized, {"input": (4, 6)}, dim=-1, p=1.0),
    "a norm of another dimension": form(normalized, {"input": (2, 4, 6)}),
    "attention in bf16": attention((2, 4, 5, 8), (2, 4, 5, 8), dtype=torch.bfloat16),
    "attention of three dimensions": attention((4, 5, 8), (4, 7, 8)),
    "attention to one head for all without enable_gqa": attention((2, 4, 5, 8), (2, 1, 5, 8)),
    "attention to values of another dimension": attention(
        (2, 4, 8, 8), (2, 4, 8, 8), value=(2, 4, 8, 4)
    ),
    "a mean of everything": form(torch.mean, {"input": (2, 3)}),
    "nearest by a ratio": resize("nearest", size=(5, 6)),
    "nearest to something smaller": resize("nearest", shape=(1, 2, 4, 4), size=(2, 2)),
    "reflection without a batch": form(
        F.pad, {"input": (2, 5, 6)}, pad=(1, 2, 3, 4), mode="reflect"
    ),
    "a stack of three": form(stacked, {"first": (2, 3), "second": (2, 3), "third": (2, 3)}),
    "a stack of five": form(stacked, FOUR | {"fifth": (2, 3)}),
    "embedding in training": form(
        F.embedding,
        {"input": torch.tensor([[1, 4], [0, 1]]), "weight": (5, 3)},
        trained=("weight",),
    ),
    "layer norm in training": form(
        F.layer_norm, LAYER, normalized_shape=[6], trained=("input", "weight", "bias")
    ),
    "attention in training": attention(
        (2, 4, 5, 8), (2, 4, 5, 8), is_causal=True, trained=("query", "key", "value")
    ),
}


@pytest.mark.usefixtures("litert")
def test_calls_that_litert_is_not_for() -> None:
    check_forms(ALSO)
    # Attention's stock lowering is made of a softmax, and that of others of a mean.
    softmaxes = {name for name in OTHERWISE if name.startswith(("attention", "a mean"))}
    composites.disable("odml.softmax")
    check_forms({name: OTHERWISE[name] for name in softmaxes})
    composites.enable("odml.softmax")
    composites.disable("tfl.mean")
    check_forms({name: one for name, one in OTHERWISE.items() if name not in softmaxes})


@pytest.mark.usefixtures("litert")
def test_a_factor_that_is_not_the_ratio_of_the_sizes_keeps_the_stock_lowering() -> None:
    x = torch.ones(1, 1, 6, 6, device="xla")
    assert emitted_by(F.interpolate(x, scale_factor=1.7, mode="bilinear")) == []


@pytest.mark.usefixtures("litert")
def test_a_row_that_is_masked_completely_is_a_number() -> None:
    x = torch.linspace(-1, 1, 40).reshape(1, 1, 5, 8)
    mask = LOWER.tril(-1)
    args = (x.to("xla"),) * 3
    result = F.scaled_dot_product_attention(*args, attn_mask=mask.to("xla")).cpu()
    expected = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    torch.testing.assert_close(result[:, :, 1:], expected[:, :, 1:])
    torch.testing.assert_close(result[:, :, 0], x.mean(2))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = torch.nn.Embedding(10, 8), torch.nn.LayerNorm(8)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.table(indices))
        heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
        return F.normalize(F.scaled_dot_product_attention(heads, heads, heads), dim=-1)


def test_an_exported_program_has_them(registries: Callable[..., None]) -> None:
    registries(*FILES)
    indices = torch.ones(2, 5, dtype=torch.int64)
    program = composites.export(Block(), (indices,), ops=["aten.*", "odml.*", "tfl.*"])
    assert program.composites == {
        "odml.embedding_lookup": 1, "odml.group_norm": 1, "odml.l2_norm": 1, "odml.softmax": 1,
        "odml.scaled_dot_product_attention": 1,
    }  # fmt: skip


# litert_training.yaml.


@pytest.fixture
def training(registries: Callable[..., None]) -> Iterator[None]:
    registries(*FILES, "litert_training")
    with composites.enabled("litert.*"):
        yield


POOLS: dict[str, tuple[tuple[int, ...], dict[str, Any], bool]] = {
    "square": ((2, 3, 4, 6), {"kernel_size": 2}, True),
    "flat": ((1, 2, 6, 6), {"kernel_size": (3, 1), "stride": (3, 1)}, True),
    "overlapping": ((1, 2, 6, 6), {"kernel_size": 3, "stride": 1}, False),
    "padded": ((1, 2, 6, 6), {"kernel_size": 2, "padding": 1}, False),
    "rest": ((1, 2, 5, 6), {"kernel_size": 2}, False),
}


@pytest.mark.usefixtures("training")
def test_max_pool2d_in_windows_beside_each_other() -> None:
    for name, (shape, options, claimed) in POOLS.items():
        x = torch.randint(0, 3, shape).float()  # with equal values in most windows
        if claimed:  # the stock lowering loses NaN
            x[0, 0, 0, 0] = torch.nan

        def pooled(t: torch.Tensor) -> torch.Tensor:
            return F.max_pool2d(t, **options)  # noqa: B023

        (result,), (grad,) = values_and_gradients(pooled, "xla", [x])
        assert bool(emitted_by(result)) == claimed, name
        (expected,), (expected_grad,) = values_and_gradients(pooled, "cpu", [x])
        torch.testing.assert_close(result.cpu(), expected, equal_nan=True, msg=name)
        if claimed:
            torch.testing.assert_close(grad.cpu(), expected_grad, equal_nan=True, msg=name)
    program = composites.export(torch.nn.MaxPool2d(2), (torch.ones(1, 2, 4, 6),), ops=["litert.*"])
    assert program.composites == {"litert.max_pool2d": 1}


@pytest.mark.usefixtures("training")
def test_the_gradient_of_an_embedding_without_scatter() -> None:
    indices = torch.tensor([[0, 2, 2], [4, 0, 0]])
    table = torch.randn(5, 3)
    for padding_idx in (None, 2):

        def looked_up(table: torch.Tensor) -> torch.Tensor:
            return F.embedding(indices.to(table.device), table, padding_idx=padding_idx)  # noqa: B023

        _, (found,) = values_and_gradients(looked_up, "xla", [table])
        text = stablehlo([found])
        assert '"litert.embedding_dense_backward"' in text
        assert "stablehlo.scatter" not in text
        _, (expected,) = values_and_gradients(looked_up, "cpu", [table])
        torch.testing.assert_close(found.cpu(), expected)
