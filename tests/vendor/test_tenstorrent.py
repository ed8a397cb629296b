"""The registry for tt-mlir: what each form is in StableHLO, that it computes the same, and that
calls which tt-mlir's patterns or verifiers do not take keep the stock lowering."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla
from composites_testing import vendor_calls
from composites_testing.modules import CallingWithWeight
from composites_testing.vendor_calls import (
    Form,
    check_forms,
    emitted,
    emitted_by,
    is_golden,
    stablehlo,
)

import composites

BF16, F32 = torch.bfloat16, torch.float32
QKV = ("query", "key", "value")
WEIGHTED = ("input", "weight", "bias")
HEADS, SHARED = (2, 4, 32, 8), (2, 2, 32, 8)
LOWER = torch.ones(32, 32, dtype=torch.bool).tril()
TARGET = torch.tensor([2, 0, 4, -100, 1])
INDEX = torch.tensor([[3, 1, 0], [2, 2, 5]])
LAYER = {"input": (4, 6), "weight": (6,), "bias": (6,)}
GROUPS = {"input": (2, 4, 3, 3), "weight": (4,), "bias": (4,)}
LOGITS = {"input": (5, 6), "target": TARGET}
SDPA = "scaled_dot_product_attention"
SDPA_TRAINING = (SDPA, f"{SDPA}_backward")


def form(call: Callable[..., Any], inputs: Any, *emits: str, **more: Any) -> Form:
    """A form that emits these composites of tenstorrent."""
    names = [f"tenstorrent.{name}" for name in emits]
    return vendor_calls.form(call, inputs, *names, **more)


def norm(*emits: str, inputs: Any = LAYER, **more: Any) -> Form:
    return form(F.layer_norm, inputs, *emits, **more)


def attention(
    query: tuple[int, ...],
    key: tuple[int, ...],
    *emits: str,
    value: tuple[int, ...] | None = None,
    attn_mask: Any = None,
    dtype: torch.dtype = BF16,
    **more: Any,
) -> Form:
    inputs: dict[str, Any] = {"query": query, "key": key, "value": value or key}
    if attn_mask is not None:
        inputs["attn_mask"] = attn_mask
    return form(F.scaled_dot_product_attention, inputs, *emits, dtype=dtype, **more)


FORMS: dict[str, Form] = {
    "gelu": form(F.gelu, {"input": (2, 3)}, "gelu"),
    "gelu_tanh": form(F.gelu, {"input": (2, 3)}, "gelu_tanh", approximate="tanh"),
    "rms_norm": form(
        F.rms_norm, {"input": (4, 6), "weight": (6,)}, "rms_norm", normalized_shape=[6], eps=1e-06
    ),
    "rms_norm_without_weight_or_eps": form(
        F.rms_norm, {"input": (4, 6)}, "rms_norm", normalized_shape=[6], dtype=BF16
    ),
    "rms_norm_training": form(
        F.rms_norm,
        {"input": (4, 6), "weight": (6,)},
        "rms_norm",
        "rms_norm_backward",
        normalized_shape=[6],
        eps=1e-06,
        trained=("input", "weight"),
    ),
    "layer_norm": norm("layer_norm", normalized_shape=[6]),
    "layer_norm_without_weight": norm(
        "layer_norm", inputs={"input": (2, 3, 6)}, normalized_shape=[6], eps=0.001
    ),
    "layer_norm_training": norm(
        "layer_norm", "layer_norm_backward", trained=WEIGHTED, normalized_shape=[6]
    ),
    "group_norm": form(F.group_norm, GROUPS, "group_norm", num_groups=2),
    "group_norm_training": form(
        F.group_norm, GROUPS, "group_norm", "group_norm_backward", num_groups=2, trained=WEIGHTED
    ),
    "topk": form(torch.topk, {"input": (3, 8)}, "topk", k=2, dim=-1),
    "argmax": form(torch.argmax, {"input": (3, 8)}, "argmax", dim=-1),
    "gather": form(torch.gather, {"input": (2, 8), "index": INDEX}, "gather", dim=-1),
    "attention": attention(HEADS, HEADS, SDPA),
    "attention_causal": attention(HEADS, SHARED, SDPA, is_causal=True, enable_gqa=True, scale=0.5),
    "attention_bool_mask": attention(HEADS, HEADS, SDPA, attn_mask=LOWER),
    "attention_of_three_dimensions": attention((4, 8, 8), (4, 6, 8), SDPA, attn_mask=(4, 1, 6)),
    "attention_training_additive_mask": attention(
        HEADS, HEADS, *SDPA_TRAINING, attn_mask=(2, 1, 1, 32), trained=(*QKV, "attn_mask")
    ),
    "sdpa": attention(HEADS, SHARED, "sdpa_fw", "sdpa_bw", enable_gqa=True, trained=QKV),
    "sdpa_causal": attention(
        HEADS, HEADS, "sdpa_fw", "sdpa_bw", is_causal=True, scale=0.5, trained=QKV
    ),
    "sdpa_mask": attention(HEADS, HEADS, "sdpa_fw", "sdpa_bw", attn_mask=LOWER, trained=QKV),
}

NEWER_FORMS: dict[str, Form] = {
    "cross_entropy": form(F.cross_entropy, LOGITS, "cross_entropy_fw"),
    "cross_entropy_training": form(
        F.cross_entropy, LOGITS, "cross_entropy_fw", "cross_entropy_bw", trained=("input",)
    ),
    "cross_entropy_of_pixels": form(
        F.cross_entropy,
        {"input": (2, 6, 2, 2), "target": torch.arange(8).reshape(2, 2, 2) % 6},
        "cross_entropy_fw",
        "cross_entropy_bw",
        reduction="none",
        trained=("input",),
    ),
    "layernorm_training": norm(
        "layernorm_fw", "layernorm_bw", dtype=BF16, trained=WEIGHTED, normalized_shape=[6]
    ),
    "layernorm_inference": norm("layer_norm", dtype=BF16, normalized_shape=[6]),
}


@pytest.fixture
def tenstorrent(registries: Callable[..., None]) -> Iterator[None]:
    registries("tenstorrent")
    with composites.enabled("tenstorrent.*"):
        yield


@pytest.fixture
def newer(registries: Callable[..., None]) -> Iterator[None]:
    """The operations that tt-mlir has since September 2026 too."""
    registries("tenstorrent_2026_09", "tenstorrent")
    with composites.enabled("tenstorrent.*"):
        yield


@pytest.mark.usefixtures("tenstorrent")
def test_forms() -> None:
    check_forms(FORMS, "tenstorrent")


@pytest.mark.usefixtures("newer")
def test_forms_of_september_2026() -> None:
    check_forms(NEWER_FORMS, "tenstorrent")


@pytest.mark.slow
@pytest.mark.usefixtures("tenstorrent")
def test_compiled_forms() -> None:
    others = (torch.topk, torch.argmax, torch.gather)
    check_forms({n: one for n, one in FORMS.items() if one.call not in others}, compiled=True)


@pytest.mark.slow
@pytest.mark.usefixtures("newer")
def test_compiled_forms_of_september_2026() -> None:
    check_forms(NEWER_FORMS, compiled=True)


# Calls that a pattern or a verifier of tt-mlir refuses, or would read as something else. The form
# that takes the call instead follows; nothing means the stock lowering. No pattern takes the
# backward of gelu and gather, and none of it may be lost.
OTHERWISE: dict[str, Form] = {
    "a bias without weight would be read as weight": norm(
        inputs={"input": (4, 6), "bias": (6,)}, normalized_shape=[6]
    ),
    "a bias of groups without weight": form(
        F.group_norm, {"input": (2, 4, 3), "bias": (4,)}, num_groups=2
    ),
    "two normalized dimensions": norm(inputs={"input": (3, 4, 6)}, normalized_shape=[4, 6]),
    "two dimensions of rms_norm": form(F.rms_norm, {"input": (3, 4, 6)}, normalized_shape=[4, 6]),
    "a norm in f64": norm(dtype=torch.float64, normalized_shape=[6]),
    "six dimensions": form(F.group_norm, {"input": (1, 4, 2, 1, 1, 2)}, num_groups=2),
    "rank 3 of group_norm is padded": form(
        F.group_norm, {"input": (2, 4, 3)}, "group_norm", num_groups=4
    ),
    "the top 0": form(torch.topk, {"input": (3, 4)}, k=0),
    "argmax of everything": form(torch.argmax, {"input": (3, 4)}),
    "gather in one dimension": form(torch.gather, {"input": (6,), "index": INDEX[0]}, dim=0),
    "gather in five dimensions": form(
        torch.gather, {"input": (1, 1, 1, 2, 8), "index": INDEX.reshape(1, 1, 1, 2, 3)}, dim=4
    ),
    "attention in f32": attention(HEADS, HEADS, dtype=F32),
    "a mask in f32": attention(HEADS, HEADS, attn_mask=torch.zeros(32, 32)),
    "attention of two dimensions": attention((8, 4), (8, 4)),
    "attention of five dimensions": attention((1, *HEADS), (1, *HEADS)),
    "causal over other lengths": attention((2, 4, 8, 8), (2, 4, 16, 8), is_causal=True),
    "values of another dimension": attention((2, 4, 8, 8), (2, 4, 8, 8), value=(2, 4, 8, 4)),
    "a head for all without enable_gqa": attention(HEADS, (2, 1, 32, 8)),
    "a batch that is broadcast": attention((1, 4, 8, 8), (2, 4, 8, 8)),
    "a mask that is broadcast to the keys": attention(
        HEADS, HEADS, SDPA, attn_mask=torch.tensor([[True]])
    ),
    "a row that is masked completely": attention(HEADS, HEADS, SDPA, attn_mask=LOWER.tril(-1)),
    "such a row in training": attention(
        HEADS, HEADS, "sdpa_fw", "sdpa_bw", attn_mask=LOWER.tril(-1), trained=QKV
    ),
    "a mask of one row in training": attention(
        HEADS, HEADS, "sdpa_fw", "sdpa_bw", attn_mask=LOWER[20].reshape(1, 1, 1, 32), trained=QKV
    ),
    "a mask for each head in training": attention(
        HEADS, HEADS, *SDPA_TRAINING, attn_mask=LOWER.expand(4, 32, 32).clone(), trained=QKV
    ),
    "half a tile in training": attention((2, 4, 16, 8), (2, 4, 16, 8), *SDPA_TRAINING, trained=QKV),
    "values of another dimension in training": attention(
        HEADS, HEADS, "sdpa_fw", "sdpa_bw", value=(2, 4, 32, 4), trained=QKV
    ),
    "the gradient of the key alone": attention(
        HEADS, HEADS, "sdpa_fw", "sdpa_bw", trained=("key",)
    ),
    "gelu in training": form(F.gelu, {"input": (2, 3)}, "gelu", trained=("input",)),
    "gather in training": form(
        torch.gather, {"input": (2, 8), "index": INDEX}, "gather", dim=1, trained=("input",)
    ),
    "class weights": form(F.cross_entropy, {"input": (5, 6), "target": TARGET, "weight": (6,)}),
    "smoothed labels": form(F.cross_entropy, LOGITS, label_smoothing=0.1),
    "probabilities as targets": form(F.cross_entropy, {"input": (5, 6), "target": (5, 6)}),
    "cross entropy in f64": form(F.cross_entropy, LOGITS, dtype=torch.float64),
    "a sum of losses": form(
        F.cross_entropy,
        {"input": (5, 6), "target": TARGET.clamp(min=0)},
        "cross_entropy_fw",
        reduction="sum",
        ignore_index=4,
    ),
    "layer norm without bias in training": norm(
        "layer_norm",
        "layer_norm_backward",
        dtype=BF16,
        inputs={"input": (4, 6), "weight": (6,)},
        normalized_shape=[6],
        trained=("input", "weight"),
    ),
}


@pytest.mark.usefixtures("newer")
def test_calls_that_an_operation_of_tt_mlir_is_not_for() -> None:
    check_forms(OTHERWISE)


@pytest.mark.usefixtures("newer")
def test_calls_with_something_else_that_no_operation_takes() -> None:
    x = torch.ones(2, 6, dtype=BF16, device="xla")
    wide = torch.ones(6, device="xla")
    for normalize in (F.layer_norm, F.rms_norm):
        assert emitted_by(normalize(x, [6], wide)) == []
    assert emitted_by(F.group_norm(x, 2, wide)) == []
    heads = torch.ones(HEADS, dtype=BF16, device="xla")
    for q in (heads, heads.clone().requires_grad_()):
        assert emitted_by(F.scaled_dot_product_attention(q, heads, heads, dropout_p=0.5)) == []
    assert emitted_by(torch.empty(4, dtype=BF16, device="xla").uniform_()) == []


@pytest.mark.usefixtures("newer")
def test_inference_mode_and_a_scale_that_is_an_integer() -> None:
    with torch.inference_mode():
        x = torch.ones(HEADS, dtype=BF16, device="xla")
        (call,) = emitted_by(F.scaled_dot_product_attention(x, x, x, scale=1))
    assert call.startswith('"tenstorrent.scaled_dot_product_attention"')
    assert "scale = 1.000000e+00 : f32" in call


@pytest.mark.slow
@pytest.mark.usefixtures("tenstorrent")
def test_llamas_norm_is_an_rms_norm() -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    norm, x = LlamaRMSNorm(6, eps=1e-6), torch.linspace(-1, 1, 12).reshape(2, 6)
    expected = norm(x)
    result = norm.to("xla")(x.to("xla"))
    (call, *_) = emitted_by(result)
    assert call.startswith('"tenstorrent.rms_norm"')
    assert "{epsilon = 9.99999997E-7 : f32, normalized_shape = dense<6> : tensor<1xi64>}" in call
    torch.testing.assert_close(result.cpu(), expected)


# The decompositions by themselves, in f32: a compiler may have a kernel for one direction only.


@pytest.mark.parametrize("mask_type", [0, 1, 2])
@pytest.mark.usefixtures("registries")
def test_sdpa_is_exact(mask_type: int) -> None:
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


@pytest.mark.usefixtures("registries")
def test_layernorm_is_exact() -> None:
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


REVISIONS = {
    "attributes": ("tenstorrent",),
    "operands": ("tenstorrent_2026_09", "tenstorrent"),
}
"""Files, by how AdamW gets the numbers that change from step to step."""


@pytest.mark.parametrize("revision", REVISIONS)
def test_adamw(revision: str, registries: Callable[..., None]) -> None:
    registries(*REVISIONS[revision])
    with composites.enabled("tenstorrent.*"):
        for name, options in ADAMW.items():
            parameter, state = steps("xla", 1, **options)
            moments = [t for key, t in state.items() if key != "step"]
            text = stablehlo([parameter.detach(), *moments])
            (call,) = emitted(text)
            assert is_golden("tenstorrent", f"{name}_{revision}", text)
            assert call.startswith('"tenstorrent.adamw"')
            parameter, state = steps("xla", 3, **options)
            expected, expected_state = steps("cpu", 3, **options)
            # 1 - beta^t of a beta^t in f32 has lost some of its digits.
            compare(parameter, expected)
            for key, value in expected_state.items():
                compare(state[key], value)


def compare(computed: torch.Tensor, expected: torch.Tensor) -> None:
    mine = computed.detach().cpu()
    torch.testing.assert_close(mine, expected.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("revision", "count"), [("attributes", 3), ("operands", 2)])
def test_adamw_makes_one_graph_of_all_steps_only_with_operands(
    revision: str, count: int, registries: Callable[..., None]
) -> None:
    registries(*REVISIONS[revision])
    texts: set[str] = set()
    with composites.enabled("tenstorrent.*"):
        parameter = torch.nn.Parameter(torch.ones(2, 3, device="xla"))
        optimizer = torch.optim.AdamW([parameter], lr=0.1)
        for _ in range(3):
            parameter.grad = torch.ones(2, 3).to("xla")
            optimizer.step()
            texts.add(stablehlo([parameter.detach()]))
            torch_xla.sync()
    # The first step is a graph of its own: zeros are made in it.
    assert len(texts) == count


@pytest.mark.parametrize("revision", REVISIONS)
def test_adam_is_adamw_where_no_weight_decays(
    revision: str, registries: Callable[..., None]
) -> None:
    registries(*REVISIONS[revision])
    for options, emits in (
        ({"maximize": True}, True),
        ({"kind": torch.optim.Adam}, True),
        ({"kind": torch.optim.Adam, "weight_decay": 0.1}, False),
    ):
        with composites.enabled("tenstorrent.*"):
            parameter, _ = steps("xla", 1, **options)
            assert bool(emitted_by(parameter.detach())) == emits, options
        compare(parameter, steps("cpu", 1, **options)[0])


def test_an_exported_step_has_adamw_with_operands(registries: Callable[..., None]) -> None:
    registries(*REVISIONS["operands"])
    module = CallingWithWeight(torch.square)
    program = composites.export(module, (), optimizer=torch.optim.AdamW, ops=["tenstorrent.*"])
    assert program.composites == {"tenstorrent.adamw": 1}


# Random numbers.


def drawn(low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    torch.manual_seed(3)
    torch_xla.manual_seed(3)
    return torch.empty(40, 50, device="xla").uniform_(low, high)


@pytest.mark.usefixtures("tenstorrent")
def test_uniform_has_constants_as_bounds() -> None:
    """tt-mlir aborts at others."""
    for name, numbers in (("uniform", drawn()), ("uniform_scaled", drawn(-2.0, 3.0))):
        text = stablehlo([numbers])
        assert is_golden("tenstorrent", name, text)
        (call,) = emitted(text)
        assert "{dtype = f32, shape = [40 : i32, 50 : i32]}" in call
        assert "(tensor<2xui32>, tensor<f32>, tensor<f32>) -> tensor<40x50xf32>" in call
        operands = re.findall(r"%\w+", call)
        for n, operand in enumerate(operands[1:3]):
            assert f"{operand} = stablehlo.constant dense<{n}.000000e+00> : tensor<f32>" in text


@pytest.mark.usefixtures("tenstorrent")
def test_uniform_draws_from_pytorchs_generator() -> None:
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
