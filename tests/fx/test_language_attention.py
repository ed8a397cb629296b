"""`attn_implementation="composites"` beside transformers' own attention, and attention of pages."""

import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import transformers as hf
from composites_testing.selection import only_fast, variants
from composites_testing.transformer import TOKENS
from torch import Tensor
from torch._dynamo.utils import counters

import composites
from composites.errors import InvalidCallError, UnsupportedCallError
from composites.operators import language_attention, linear_attention

SIZES: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 11, "pad_token_id": 0,
}  # fmt: skip
WINDOW: dict[str, Any] = {**SIZES, "sliding_window": 4}
BOTH: dict[str, Any] = {**WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
CONFIGS: dict[str, Any] = {
    "gemma2": hf.Gemma2Config(**BOTH, attn_logit_softcapping=2.0, query_pre_attn_scalar=8),
    "gpt_oss": hf.GptOssConfig(**BOTH, num_local_experts=4, num_experts_per_tok=2),
    "llama": hf.LlamaConfig(**SIZES),
    "mistral": hf.MistralConfig(**WINDOW),
    "qwen3": hf.Qwen3Config(**SIZES),
}
MOE = hf.Glm4MoeConfig(**SIZES, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=12)
PADDED = torch.arange(12) >= torch.tensor([[0], [3]])
GENERATION: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}


def made(name: str) -> Any:
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_config(CONFIGS.get(name, MOE)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def chosen(cache: str, model: Any) -> dict[str, Any]:
    """The argument of `generate` for a cache."""
    if cache in ("dynamic", "static"):
        return {"cache_implementation": cache}
    dtype = torch.int8 if cache == "i8" else None
    return {composites.KVCache.argument: composites.KVCache(model.config, 18, dtype)}


def step(model: Any, call: Any, implementation: str, mask: Tensor | None) -> list[Tensor]:
    """The loss, the logits, and all gradients."""
    model.set_attn_implementation(implementation)
    torch.manual_seed(1)
    result = call(input_ids=TOKENS, labels=TOKENS, attention_mask=mask)
    return [result.loss, result.logits, *torch.autograd.grad(result.loss, [*model.parameters()])]


@variants("name", only_fast(CONFIGS, "gemma2", "gpt_oss", "llama"), fast=2)
def test_steps_of_transformers(name: str, tmp_path: Path) -> None:
    """Layers are one composite in each direction, without a mask of all pairs of tokens."""
    model = made(name)
    for mask in (None, PADDED):
        expected = step(model, model, "eager", mask)
        torch.testing.assert_close(step(model, model, "composites", mask), expected)
        with composites.enabled("all"):
            torch._dynamo.reset()
            folder = tmp_path / str(mask is None)
            options: Any = {"save": folder}
            run = torch.compile(model, backend="composites", options=options)
            actual = step(model, run, "composites", mask)
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
        kind = "sink_attention" if name == "gpt_oss" else "attention"
        for graph, called in (("000_forward", kind), ("001_backward", f"{kind}_backward")):
            text = (folder / graph / "program.mlir").read_text()
            calls = re.findall(rf'stablehlo.composite "ptxla.{called}" (.*)', text)
            assert len(calls) == 2
            windows = ["window = 4" in call for call in calls]
            assert sum(windows) == {"llama": 0, "qwen3": 0, "mistral": 2}.get(name, 1)
            assert all(("softcap = 2.0" in call) == (name == "gemma2") for call in calls)
            assert all("is_causal = true" in call and "x12x12x" not in call for call in calls)


@pytest.mark.parametrize("name", ["glm4_moe", "gpt_oss"])
def test_experts_of_transformers(name: str) -> None:
    """Experts of a class that no entry names are composites too."""
    model = made(name)
    expected = step(model, model, "eager", None)
    model.set_experts_implementation("composites")
    torch.testing.assert_close(step(model, model, "eager", None), expected)
    program = composites.export(model, (TOKENS,), {"use_cache": False})
    experts = "ptxla.gpt_oss_experts" if name == "gpt_oss" else "ptxla.experts"
    assert program.composites[experts] == (2 if name == "gpt_oss" else 1)
    results = program.run({**program.module_weights(model), "arg:0": TOKENS})
    (logits,) = (result for result in results.values() if result.shape == expected[1].shape)
    torch.testing.assert_close(torch.from_numpy(logits), expected[1].detach())


@variants("name", only_fast(CONFIGS, "gemma2", "mistral"), fast=1)
def test_generation_and_dropout_of_transformers(name: str) -> None:
    model = made(name)
    for mask in (torch.ones_like(PADDED), PADDED):
        for cache in ("dynamic", "static", "ring"):
            options = {**GENERATION, "attention_mask": mask, "disable_compile": True}
            model.set_attn_implementation("eager")
            expected = model.generate(TOKENS, **options)
            model.set_attn_implementation("composites")
            assert torch.equal(model.generate(TOKENS, **options, **chosen(cache, model)), expected)
    model.train()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    expected = step(model, model, "eager", None)
    torch.testing.assert_close(step(model, model, "composites", None), expected)


@pytest.mark.parametrize(
    ("name", "implementation", "cache", "called"),
    [
        pytest.param("llama", "sdpa", "static", {"update_kv_cache"}, marks=pytest.mark.exhaustive),
        ("llama", "composites", "static", {"update_kv_cache", "cached_attention"}),
        ("llama", "composites", "i8", {"update_quantized_kv_cache", "quantized_cached_attention"}),
        pytest.param(  # rolled, and has the prompt's last keys
            "mistral", "composites", "static", set(), marks=pytest.mark.exhaustive
        ),
        ("mistral", "composites", "ring", {"update_ring_kv_cache", "cached_attention"}),
    ],
)
def test_generation_compiles_a_prefill_and_a_decode(
    name: str, implementation: str, cache: str, called: set[str]
) -> None:
    """The second graph keeps the guards of the first one, for what caught functions read."""
    model = made(name)
    options = {**GENERATION, "attention_mask": torch.ones_like(TOKENS)}
    expected = model.generate(TOKENS, **options)
    model.set_attn_implementation(implementation)
    if cache == "i8":
        expected = model.generate(TOKENS, disable_compile=True, **chosen(cache, model), **options)
    with composites.enabled("all"):
        torch._dynamo.reset()
        model.forward = torch.compile(model.forward, backend="composites")
        counters.clear()
        before = composites.stats().entries
        for _ in range(2):
            tokens = model.generate(TOKENS, **chosen(cache, model), **options)
            assert torch.equal(tokens, expected)
        after = composites.stats().entries
    assert counters["stats"]["unique_graphs"] == 2
    used = {
        name.removeprefix("ptxla.")
        for name, entry in after.items()
        if "cache" in name and entry.calls > (before[name].calls if name in before else 0)
    }
    # The decompositions of the others have it too.
    assert used - (set() if cache == "static" else {"update_kv_cache"}) == called


def test_types_and_sizes_of_attention() -> None:
    """f64 and empty sizes work; heads that do not divide, and states, are refused."""
    function = language_attention.attention
    for size in ((2, 4, 3, 8), (2, 4, 0, 8), (0, 4, 3, 8)):
        query, key = torch.ones(size, dtype=torch.float64), torch.ones(size[0], 2, 5, 8).double()
        result = function(query, key, key * 2, scale=0.5, is_causal=True)
        torch.testing.assert_close(result, torch.full_like(query, 2.0))
    with pytest.raises(InvalidCallError, match="2 heads, which do not divide the query's 3"):
        function(torch.ones(2, 3, 1, 8), torch.ones(2, 2, 5, 8), torch.ones(2, 2, 5, 8), scale=0.5)
    with pytest.raises(InvalidCallError, match='passes sinks to its attention; use "eager"'):
        hf.AttentionInterface()["composites"](Mock(), query, query, query, None, sinks=query)
    assert not composites.KVCache(CONFIGS["mistral"], 18).is_croppable  # a ring
    for name in ("cache", "past_key_values"):  # since transformers 5.24, and before
        with pytest.raises(UnsupportedCallError, match="the call passes a recurrent state"):
            linear_attention.lightning_attention_of_module(Mock(), Mock(), query, **{name: Mock()})


@pytest.mark.parametrize("window", [None, 3])
def test_pages(window: int | None) -> None:
    """Keys and values in pages give the results of those in one tensor, also with a sink."""
    torch.manual_seed(0)
    key, value = torch.randn(2, 2, 8, 4), torch.randn(2, 2, 8, 3)
    query, sinks, pages = torch.randn(2, 4, 4), torch.randn(4), torch.tensor([[3, 0], [2, 4]])
    lengths = torch.tensor([7, 2], dtype=torch.int32)
    key_pages, value_pages = (torch.full((2, 5, 4, width), torch.nan) for width in (4, 3))
    for n, m in torch.cartesian_prod(torch.arange(2), torch.arange(2)):
        part = slice(4 * m, 4 * m + 4)
        key_pages[:, pages[n, m]], value_pages[:, pages[n, m]] = key[n, :, part], value[n, :, part]
    operands = (query, key_pages, value_pages, lengths, pages.int(), sinks)
    result = composites.paged_attention(*operands, scale=0.5, window=window)
    for n, length in enumerate(lengths.tolist()):
        start = 0 if window is None else max(length - window, 0)
        keys, values = (t[n, :, start:length].repeat_interleave(2, 0) for t in (key, value))
        scores = torch.einsum("he,hse->hs", query[n], keys) * 0.5
        weights = torch.cat([scores, sinks[:, None]], 1).softmax(1)[:, :-1]
        torch.testing.assert_close(result[n], torch.einsum("hs,hse->he", weights, values))
