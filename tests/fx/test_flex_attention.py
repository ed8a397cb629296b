"""`torch.nn.attention.flex_attention` beside eager PyTorch, in live programs and exports."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from composites_testing.selection import only_fast
from torch import Tensor, nn
from torch.nn.attention import flex_attention as flex

import composites

N, HQ, H, L, E = 2, 4, 2, 12, 8
DOCUMENTS = torch.tensor([0] * 5 + [1] * 7)
IS_TOKEN = torch.arange(L) >= torch.tensor([[0], [3]])
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
BIAS = torch.where(IS_TOKEN, 0.5, -torch.inf)

flex_attention: Any = flex.flex_attention
Function = Callable[..., Any]
causal: Function = lambda b, h, q, kv: kv <= q  # noqa: E731
window: Function = lambda b, h, q, kv: q - kv < 4  # noqa: E731
prefix: Function = lambda b, h, q, kv: kv < 3  # noqa: E731
documents: Function = lambda b, h, q, kv: DOCUMENTS[q] == DOCUMENTS[kv]  # noqa: E731
padded: Function = flex.and_masks(causal, lambda b, h, q, kv: IS_TOKEN[b, kv])
bounded: Function = lambda s, b, h, q, kv: 2.0 * torch.tanh(s / 2.0)  # noqa: E731
alibi: Function = lambda s, b, h, q, kv: s + (kv - q) * SLOPES[h]  # noqa: E731
both: Function = lambda *at: BIAS[at[1], at[4]] + bounded(*at)  # noqa: E731

CASES: dict[str, tuple[Function | None, Function | None, str]] = {
    "no functions": (None, None, "is_causal = false"),
    "causal": (None, causal, "is_causal = true"),
    "offset": (None, lambda b, h, q, kv: q > kv, "is_causal = false 1x1x12x12xi1"),
    "window": (None, flex.and_masks(causal, window), "is_causal = true window = 4"),
    "window alone": (None, window, "is_causal = false 1x1x12x12xi1"),
    "bounded": (bounded, causal, "is_causal = true softcap = 2.000000e+00"),
    "documents": (None, flex.and_masks(causal, documents), "is_causal = true 1x1x12x12xi1"),
    "prefix": (None, flex.or_masks(causal, prefix), "is_causal = false 1x1x12x12xi1"),
    "padding": (None, padded, "is_causal = true 2x1x1x12xi1"),
    "alibi": (alibi, causal, "is_causal = true 1x4x12x12xf32"),
    "all": (both, padded, "is_causal = true softcap = 2.000000e+00 2x1x1x12xf32"),
    "rows that a bias empties": (both, causal, "is_causal = true 2x1x1x12xf32"),
    "scaled": (lambda s, b, h, q, kv: s * (1 + h), causal, ""),
    "other bound": (lambda s, b, h, q, kv: 2.0 * torch.tanh(s / 3.0), causal, ""),
    "twice": (lambda s, b, h, q, kv: s + s * SLOPES[h], causal, ""),
}


def reference(score: Function | None, mask: Function | None, *operands: Tensor) -> Tensor:
    """Attention with gradients, which PyTorch's function does not have on the CPU."""
    query, (key, value) = operands[0], (x.repeat_interleave(HQ // H, 1) for x in operands[1:])
    at = torch.meshgrid(*(torch.arange(size) for size in (N, HQ, L, L)), indexing="ij")
    scores = query @ key.mT / E**0.5
    scores = scores if score is None else score(scores, *at)
    scores = scores if mask is None else torch.where(mask(*at), scores, -torch.inf)
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return torch.where(empty, 0.0, torch.where(empty, 0.0, scores).softmax(-1)) @ value


def made(mask: Function | None) -> Any:
    return None if mask is None else flex.create_block_mask(mask, N, None, L, L, device="cpu")


@pytest.mark.parametrize("name", only_fast(CASES, *[*CASES][:4]))
def test_functions_of_positions_are_attributes_and_operands(name: str, tmp_path: Path) -> None:
    """A composite has the text of the third column; without one, its decomposition is computed."""
    score, mask, text = CASES[name]
    block_mask = made(mask)
    torch.manual_seed(0)
    operands = [torch.randn(N, heads, L, E) for heads in (HQ, H, H)]

    def call(*operands: Tensor) -> Tensor:
        return flex_attention(*operands, score_mod=score, block_mask=block_mask, enable_gqa=True)

    expected = call(*operands)
    for operand in operands:
        operand.requires_grad_()
    torch._dynamo.reset()
    options: Any = {"save": tmp_path}
    with composites.enabled("attention"):
        result = torch.compile(call, backend="composites", fullgraph=True, options=options)(
            *operands
        )
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    weights = torch.linspace(0, 1, result.numel()).reshape(result.shape)
    gradients, references = (
        torch.autograd.grad((x * weights).sum(), operands)
        for x in (result, reference(score, mask, *operands))
    )
    torch.testing.assert_close(gradients, references, rtol=1e-5, atol=1e-5)
    for graph in tmp_path.rglob("program.mlir"):
        calls = re.findall(r'composite "ptxla.attention\w*" (.*)', graph.read_text())
        assert len(calls) == bool(text)
        assert all(part in call for call in calls for part in text.split(" ") if part != "=")


class Learned(nn.Module):
    """Attention with a bias for each distance, which the function of scores reads."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.linspace(-1, 1, HQ * 2 * L).reshape(HQ, 2 * L))
        self.block_mask = made(causal)

    def forward(self, *operands: Tensor) -> Tensor:
        attended, sums = flex_attention(
            *operands,
            score_mod=lambda s, b, h, q, kv: s + self.bias[h, q - kv],
            block_mask=self.block_mask,
            enable_gqa=True,
            return_lse=True,
        )
        return attended.square().mean() + sums.mean()


@pytest.mark.parametrize("names", [(), ("attention",)])
def test_what_a_function_reads_has_a_gradient(names: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    model, operands = Learned(), [torch.randn(N, heads, L, E) for heads in (HQ, H, H)]
    expected = model(*operands)
    torch._dynamo.reset()
    with composites.enabled(*names):
        loss = torch.compile(model, backend="composites", fullgraph=True)(*operands)
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, [model.bias])
    program = composites.export(model, operands, train=True, ops=[*names] or ["gelu"])
    assert ("ptxla.attention_backward" in program.module.text) == bool(names)
    step = program.compile()
    results, _ = step(step.init(model), *operands)
    arrays_by_name = {name: torch.from_numpy(array.__array__()) for name, array in results.items()}
    torch.testing.assert_close(arrays_by_name["loss"], loss.detach())
    (exported,) = (arrays_by_name[name] for name in arrays_by_name if name.endswith("bias"))
    torch.testing.assert_close(exported, gradient)


def test_another_compiler_gets_what_is_no_composite() -> None:
    """Another compiler has kernels of its own for the operator."""
    graphs: list[str] = []

    def compiler(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(str(graph.graph))
        return graph.forward

    operands = [torch.randn(N, H, L, E) for _ in range(3)]
    for names in ((), ("attention",)):
        torch._dynamo.reset()
        with composites.enabled(*names), torch.no_grad():
            torch.compile(flex_attention, backend=composites.wrap(compiler))(*operands)
    assert [("ptxla.attention" in text, "flex_attention" in text) for text in graphs] == [
        (False, True),
        (True, False),
    ]
