"""The registry for tt-mlir: what each form is in StableHLO, that it computes the same, and that
calls which tt-mlir's patterns or verifiers do not take keep the stock lowering."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla
from composites_testing.modules import CallingWithWeight
from composites_testing.vendor_calls import (
    check_forms,
    emitted,
    emitted_by,
    is_golden,
    read_forms,
    stablehlo,
)

import composites

BF16, F32 = torch.bfloat16, torch.float32
HEADS = (2, 4, 32, 8)
LOWER = torch.ones(32, 32, dtype=torch.bool).tril()
FORMS, NEWER_FORMS, OTHERWISE = read_forms(
    "tenstorrent.yaml",
    namespace="tenstorrent.",
    lower=LOWER,
    below_the_diagonal=LOWER.tril(-1),
    one_row=LOWER[20].reshape(1, 1, 1, 32),
    of_each_head=LOWER.expand(4, 32, 32),
    zeros=torch.zeros(32, 32),
).values()
"""Calls that tt-mlir takes; those that it takes since September 2026; and calls that a pattern or a
verifier refuses, or would misread: the form that takes them instead follows, and nothing means the
stock lowering. No pattern takes the backward of gelu and gather, and none of it may be
lost."""


@pytest.fixture
def tenstorrent(registries: Callable[..., None]) -> Iterator[None]:
    registries("tenstorrent")
    with composites.enabled("tenstorrent.*"):
        yield


@pytest.mark.usefixtures("tenstorrent")
def test_forms() -> None:
    check_forms(FORMS | NEWER_FORMS, "tenstorrent")


@pytest.mark.slow
@pytest.mark.usefixtures("tenstorrent")
def test_compiled_forms() -> None:
    left_out = (torch.topk, torch.argmax, torch.gather)
    forms = FORMS | NEWER_FORMS
    check_forms({n: form for n, form in forms.items() if form.call not in left_out}, compiled=True)


def test_august_2026(registries: Callable[..., None]) -> None:
    """Calls without a tt-mlir operator of that version become operators that it had."""
    registries("tenstorrent_2026_08")
    with composites.enabled("tenstorrent.*"):
        check_forms(FORMS, "tenstorrent")
        x, target = torch.ones(2, 6, device="xla"), torch.tensor([1, 0]).to("xla")
        assert emitted_by(F.cross_entropy(x, target)) == []
        weight = torch.ones(6, dtype=BF16, device="xla").requires_grad_()
        (call,) = emitted_by(F.layer_norm(x.to(BF16), [6], weight, weight))
        assert call.startswith('"tenstorrent.layer_norm"')


@pytest.mark.usefixtures("tenstorrent")
def test_calls_that_an_operation_of_tt_mlir_is_not_for() -> None:
    check_forms(OTHERWISE)


@pytest.mark.usefixtures("tenstorrent")
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


@pytest.mark.usefixtures("tenstorrent")
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
        for saved in (intermediates, intermediates[..., :1].expand(2, 4, 32, 32)):
            grads = ops.sdpa_bw(grad, result, query, key, value, saved, mask, **options)
            torch.testing.assert_close(tuple(grads), expected, rtol=1e-5, atol=1e-5)


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
        torch.testing.assert_close(ops.layernorm_bw(x, weight, mean, rstd, grad), expected)


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


REVISIONS = {"attributes": ("tenstorrent_2026_08",), "operands": ("tenstorrent",)}
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
    torch.testing.assert_close(computed.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-6)


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
    """tt-mlir aborts at other bounds."""
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
    for draws in (numbers, further):
        assert 0 <= draws.min() < 0.01 < 0.99 < draws.max() < 1
        assert abs(draws.mean() - 0.5) < 0.03
        assert abs(draws.var() - 1 / 12) < 0.01
        assert len(draws.unique()) > 1990
        neighbours = torch.corrcoef(torch.stack([draws[:, 1:].flatten(), draws[:, :-1].flatten()]))
        assert abs(neighbours[0, 1]) < 0.1
