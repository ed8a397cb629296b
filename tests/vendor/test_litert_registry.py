"""The registries for LiteRT: what each form is in StableHLO, that it computes the same, and that
calls which LiteRT would refuse or read as something else keep the stock lowering.

tests/consumers/test_litert.py runs LiteRT itself.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from composites_testing.vendor_calls import (
    check_forms,
    emitted_by,
    read_forms,
    stablehlo,
    values_and_gradients,
)

import composites

FILES = ("litert", "litert_odml", "litert_tfl")


def stacked(dim: int = 0, **tensors: torch.Tensor) -> torch.Tensor:
    return torch.stack(list(tensors.values()), dim)


def normalized(input: Any, **options: Any) -> torch.Tensor:
    return F.normalize(input, **options)  # what is there when it is called


LOWER = torch.ones(5, 5, dtype=torch.bool).tril()
FORMS, ALSO, OTHERWISE, OF_TFL = read_forms(
    "litert.yaml", stacked=stacked, normalized=normalized, lower=LOWER
).values()
"""Calls that LiteRT takes; other calls that it takes; and calls that it refuses or misreads. Calls
that emit nothing have the stock lowering. The last calls are of litert_tfl.yaml alone."""


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
    compiled = {name: form for name, form in FORMS.items() if form.call is not F.interpolate}
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
    with composites.enabled("tfl.gelu"):
        check_forms(OF_TFL, "litert")


@pytest.mark.usefixtures("litert")
def test_calls_that_litert_is_not_for() -> None:
    check_forms(ALSO)
    # Attention's stock lowering is made of a softmax, and that of others of a mean.
    softmaxes = {name for name in OTHERWISE if name.startswith(("attention", "a mean"))}
    composites.disable("odml.softmax")
    check_forms({name: OTHERWISE[name] for name in softmaxes})
    composites.enable("odml.softmax")
    composites.disable("tfl.mean")
    check_forms({name: form for name, form in OTHERWISE.items() if name not in softmaxes})


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


# litert_lm.yaml.

ATTRIBUTES = {
    "swiglu": "gate_size = 4 : i64",
    "qkv_norm_rope": "epsilon = 9.99999997E-7 : f32, head_dim = 8 : i64, max_timescale ="
    " 1.000000e+06 : f32, min_timescale = 1.000000e+00 : f32, num_heads = 4 : i64, num_kv_heads ="
    " 2 : i64, proportion = 1.000000e+00 : f32",
    "short_conv_step": "conv_L_cache = 3 : i64",
    "cache_update": "cache_size = 8 : i64, head_size = 4 : i64, is_ring_buffer = false,"
    " kv_cache_batch_size = 2 : i64",
    "runtime_bmm": "is_global = false, is_src = false, rhs_cache_update = false",
    "sdpa_transposed": "k_ts_idx = 2 : i64, v_ts_idx = 3 : i64",
    "fused_sdpa_cache_update": "",
    "moe_experts": "",
}
"""The attributes of the first sample of each function."""


def test_functions_of_language_models(registries: Callable[..., None]) -> None:
    registries("litert_lm")
    import litert_lm_ops
    import litert_lm_samples

    with composites.enabled("odml.*"):
        for name, attributes in ATTRIBUTES.items():
            args, options = next(iter(getattr(litert_lm_samples, name)(torch.float32)))
            moved = [arg.to("xla") if isinstance(arg, torch.Tensor) else arg for arg in args]
            results = getattr(litert_lm_ops, name)(*moved, **options)
            (call,) = emitted_by(*(results if isinstance(results, tuple) else [results]))
            assert call.startswith(f'"odml.{name}" ')
            assert "".join(re.findall(r"{composite_attributes = {(.*?)}", call)) == attributes


def written(cache: torch.Tensor, new: torch.Tensor, first: int, count: int) -> torch.Tensor:
    """A cache [N, S, H] with rows one after the other, behind the last slot at the first."""
    cache = cache.clone()
    for row in range(count):
        cache[:, (first + row) % cache.shape[1]] = new[:, row]
    return cache


def test_caches_and_experts_one_by_one(registries: Callable[..., None]) -> None:
    """The reference is computed in loops, as in ML Drift's tests."""
    registries("litert_lm")
    import litert_lm_ops
    import litert_lm_samples

    for (*operands, _, _, _), options in litert_lm_samples.cache_update(torch.float32):
        new_k, new_v, param, k_cache, v_cache = (tensor[0] for tensor in operands[:5])
        first, end, _, update, *_ = param.flatten().tolist()
        count = update if options else min(end, 8) - first
        keys, values = litert_lm_ops.cache_update(*operands, 2, 8, 4, **options)
        assert torch.equal(keys[0], written(k_cache, new_k, first, count))
        assert torch.equal(values[0].mT, written(v_cache.mT, new_v, first, count))
    for operands, _ in litert_lm_samples.moe_experts(torch.float32):
        tokens, weights, chosen, *rest = operands
        gate, up, down, scale = (tensor.squeeze(2).movedim(1, 0) for tensor in rest)
        expected = torch.zeros_like(tokens)
        for t, token in enumerate(tokens[0]):
            for weight, e in zip(weights[0, t], chosen[0, t].tolist(), strict=True):
                hidden = F.gelu(gate[e] @ token, approximate="tanh") * (up[e] @ token)
                factor = scale.flatten()[e if scale.numel() > 1 else 0]
                expected[0, t] += weight * factor * (down[e] @ hidden)
        torch.testing.assert_close(litert_lm_ops.moe_experts(*operands), expected)
    for operands, options in litert_lm_samples.fused_sdpa_cache_update(torch.float32):
        softcap = options.get("softcap") or (operands[7:] or [None])[0]
        query, k_cache, v_cache, k_new, v_new, mask, param = (tensor[0] for tensor in operands[:7])
        first, end = param.flatten().tolist()[:2]
        # Slots that no earlier token has filled do not count.
        keys = torch.cat([k_cache[:, : min(first, 8)], k_new], 1)
        values = torch.cat([v_cache[..., : min(first, 8)], v_new], 2)
        scores = query @ keys.mT
        scores = scores if softcap is None else (scores / softcap).tanh() * softcap
        mask = torch.cat([mask[..., : min(first, 8)], mask[..., 8:]], -1)
        expected = (scores + torch.cat([mask, mask], 1)).softmax(-1) @ values.mT
        attended, keys, values = litert_lm_ops.fused_sdpa_cache_update(*operands)
        torch.testing.assert_close(attended[0], expected)
        assert torch.equal(keys[0], written(k_cache, k_new, first, end - first))
        assert torch.equal(values[0].mT, written(v_cache.mT, v_new.mT, first, end - first))


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

        _, (gradient,) = values_and_gradients(looked_up, "xla", [table])
        text = stablehlo([gradient])
        assert '"litert.embedding_dense_backward"' in text
        assert "stablehlo.scatter" not in text
        _, (expected,) = values_and_gradients(looked_up, "cpu", [table])
        torch.testing.assert_close(gradient.cpu(), expected)
