"""Norms save their statistics: bits, what the backward takes, and what is left to stock."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from composites_testing.selection import variants
from composites_testing.tensors import hlo_text
from torch import Tensor
from transformers.models.cohere.modeling_cohere import CohereLayerNorm
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.llama4.modeling_llama4 import Llama4TextL2Norm
from transformers.models.mamba2.modeling_mamba2 import MambaRMSNormGated

import composites
from lowering.verification.bits import same_bits

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16


def step(types: Sequence[torch.dtype], eps: float | None) -> list[Tensor]:
    """Result and gradients, on the CPU. The second type is the weight's."""
    generator = torch.Generator().manual_seed(0)
    x, weight = (
        torch.randn(size, generator=generator).to("xla", dtype).requires_grad_()
        for size, dtype in zip(((5, 3, 40), (3, 40)), types, strict=True)
    )
    result = F.rms_norm(x, [3, 40], weight, eps)
    grad = torch.randn(x.shape, generator=generator).to("xla", result.dtype)
    return [t.detach().cpu() for t in (result, *torch.autograd.grad(result, [x, weight], grad))]


@variants("types", [(BF16, F32), (F64, F64), (F32, F64), (F64, F32)])
def test_bits_of_a_weight_of_another_type(types: tuple[torch.dtype, ...]) -> None:
    """See test_sample_fidelity.py for other calls, and for modules."""
    for eps in (None, 0.3):
        stock = step(types, eps)
        with composites.enabled("rms_norm"):
            before = composites.stats().entries["ptxla.rms_norm"].calls
            assert all(map(same_bits, step(types, eps), stock))
            assert composites.stats().entries["ptxla.rms_norm"].calls == before + 1


def signature(composite: str, hlo: str) -> str:
    """The types of operands and results of the computation."""
    match = re.search(rf"^%{re.escape(composite)}\.\d+ (\(.*) {{$", hlo, re.MULTILINE)
    assert match is not None, hlo
    return match[1]


# They have no type hints.
cohere: Any = CohereLayerNorm
gated: Any = MambaRMSNormGated


NORMS: dict[str, tuple[str, Callable[[], Callable[[Tensor], Tensor]]]] = {
    "operator": ("rms_norm", lambda: lambda x: F.rms_norm(x, [32])),
    "Llama's": ("llama_rms_norm", lambda: LlamaRMSNorm(32).to("xla")),
    "Gemma's": ("gemma_rms_norm", lambda: GemmaRMSNorm(32).to("xla")),
    "Llama 4's, without a weight": ("weightless_rms_norm", lambda: Llama4TextL2Norm()),
    "Cohere's": ("cohere_layer_norm", lambda: cohere(32).to("xla")),
    "Mamba 2's": ("rms_norm_gated", lambda: gated(32, 16).to("xla")),
}
OTHERS = ("gemma_rms_norm", "cohere_layer_norm", "rms_norm_gated")
"""Not called `rms_norm`."""


@variants("name", NORMS, fast=2)
def test_the_backward_takes_the_root(name: str) -> None:
    entry, made = NORMS[name]
    composite = f"ptxla.{entry if entry in OTHERS else 'rms_norm'}"
    norm = made()
    x = torch.randn(6, 32, device="xla").requires_grad_()
    with composites.enabled(entry):
        text = hlo_text(*torch.autograd.grad(norm(x).square().sum(), [x]))
        with torch.no_grad():
            alone = hlo_text(norm(x))
    assert f"{composite}_backward" in text
    assert text.count(" rsqrt(") == 1
    saved = "f32[6,2,1]" if entry == "rms_norm_gated" else "f32[6,1]"
    statistics = 2 if entry == "cohere_layer_norm" else 1
    assert signature(f"{composite}_backward", text).count(saved) == statistics
    assert signature(composite, alone).endswith("-> f32[6,32]")


@pytest.mark.parametrize("sizes", [((3, 12), (12,)), ((3, 12), (3, 1)), ((12,), (3, 12))])
def test_a_gate_of_another_shape_has_the_gradients_of_stock(
    sizes: tuple[Sequence[int], Sequence[int]],
) -> None:
    def computed() -> list[Tensor]:
        torch.manual_seed(0)
        norm = gated(12, 4).to("xla")
        operands = [torch.randn(size).to("xla").requires_grad_() for size in sizes]
        result = norm(*operands)
        leaves = [*operands, *norm.parameters()]
        return [t.cpu() for t in (result, *torch.autograd.grad(result.sin().sum(), leaves))]

    stock = computed()
    with composites.enabled("rms_norm_gated"):
        ours = computed()
    assert all(same_bits(a, b) for a, b in zip(ours, stock, strict=True))


def test_half_precision_saves_the_root_for_kernels_only() -> None:
    x = torch.randn(6, 32, device="xla").bfloat16().requires_grad_()
    with composites.enabled("rms_norm"):
        text = hlo_text(*torch.autograd.grad(F.rms_norm(x, [32]).square().sum(), [x]))
    # The result's, what is saved, and the backward's, for which stock rounds between operations. In
    # one program, XLA merges them.
    assert text.count(" rsqrt(") == 3
    assert "f32[6,1]" in signature("ptxla.rms_norm_backward", text)
