"""`export(model, decode=True)`: two programs that generate, and the example that runs them."""

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from composites_testing.processes import run
from composites_testing.selection import variants

import composites
from composites import ExportError, GenerationPrograms, ProgramError

CACHE = composites.KVCache.argument
EXAMPLE = Path(__file__).parents[2] / "examples" / "generate.py"
PROMPT = torch.arange(1, 13).reshape(2, 6) * 10  # without 0, which `generate` masks
SIZES: dict[str, Any] = {
    "vocab_size": 128, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "eos_token_id": None,
    "max_position_embeddings": 64,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {}, "MistralForCausalLM": {"sliding_window": 8},  # it sees 8 of 20 tokens
    "Gemma3ForCausalLM": {
        "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]
    },
    "GPT2LMHeadModel": {"n_embd": 32, "n_layer": 2, "n_head": 2},
    "OPTForCausalLM": {"ffn_dim": 64, "word_embed_proj_dim": 32},  # it reads the cache's length
}  # fmt: skip


def made(name: str, **settings: Any) -> Any:
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    return kind(kind.config_class(**{**SIZES, **settings})).eval().requires_grad_(False)


class Rounded(transformers.StaticLayer):
    """The numbers of integers with a scale for each token and head."""

    def update(self, *rows: torch.Tensor, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        scales = [row.abs().amax(-1, keepdim=True) / 127 for row in rows]
        return super().update(*((x / s).round() * s for x, s in zip(rows, scales, strict=True)))


CASES = [("Gemma3ForCausalLM", "i8"), *((name, "f32") for name in MODELS)]
CASES += [("LlamaForCausalLM", "i8"), ("MistralForCausalLM", "ring")]


@variants(("name", "cache"), CASES, fast=2)
def test_tokens_are_those_of_generate(name: str, cache: str, tmp_path: Path) -> None:
    """Prompts have the length of the export, or more tokens, the last of which `decode` reads."""
    model = made(name, **MODELS[name])
    floats = model(PROMPT).logits[:, -1]
    reference = transformers.StaticCache(config=model.config, max_cache_len=20)
    if cache == "i8":
        reference.layers = [Rounded(20) for _ in reference.layers]
    call: dict[str, Any] = {"max_length": 20, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(PROMPT, **{CACHE: reference}, **call).numpy()
    reference.reset()
    logits = model(PROMPT, **{CACHE: reference}).logits[:, -1]
    torch.testing.assert_close(logits, floats, atol=0.02 * floats.abs().max().item(), rtol=0)
    if cache != "f32":
        model.set_attn_implementation("composites")
    integers = composites.KVCache(model.config, 20, dtype=torch.int8) if cache == "i8" else None
    call = {"max_length": 20, CACHE: integers}
    target = "litert" if cache == "ring" else None
    exported = composites.export(model, (PROMPT,), call, decode=True, target=target)
    assert not [name for name, _ in model.named_modules() if name.startswith("cache")]
    for _ in range(2):  # the second one replaces the first
        exported.save(tmp_path / "saved", weights=exported.prefill.module_weights(model))
    programs = GenerationPrograms.load(tmp_path / "saved")
    scales = ("key_scales", "value_scales") if cache == "i8" else ()
    for program in (programs.prefill, programs.decode):
        assert program.module.name == name
        assert {v.updates for v in program.outputs} == {None} | {
            f"cache:layers.{layer}.{tensor}"
            for layer in range(2)
            for tensor in ("keys", "values", "cumulative_length", *scales)
        }
        size = 8 if cache != "f32" and "sliding_window" in MODELS[name] else 20
        (keys,) = (v.type for v in program.inputs if v.name == "cache:layers.0.keys")
        assert keys.split("x")[2::2] == [str(size), "i8>" if scales else "f32>"]
    steps = programs.prefill.compile("cpu"), programs.decode.compile("cpu")
    for prompt in (PROMPT, expected[:, :9]):
        written = programs.generate(*steps, steps[0].init(model), prompt)
        assert written.tolist() == expected.tolist()
    results, _ = steps[0](steps[0].init(model), input_ids=PROMPT)
    torch.testing.assert_close(torch.tensor(results["out:logits"])[:, 0], logits)
    with pytest.raises(ProgramError, match=r"from \(2, 1\) to \(2, 19\); it has \(2, 20\)"):
        programs.generate(*steps, None, expected)
    with pytest.raises(ProgramError, match=r"takes the steps that compile\(\) of both programs"):
        programs.generate(programs.prefill, steps[1], None, PROMPT)  # type: ignore[arg-type]
    (tmp_path / "saved" / "notes.txt").write_text("mine")
    with pytest.raises(ProgramError, match=r"something other than programs of generation \(.*no"):
        programs.save(tmp_path / "saved")
    with pytest.raises(ProgramError, match="are not programs of one model"):
        GenerationPrograms(
            exported.prefill, composites.export(model.lm_head, (torch.ones(1, 32),)), 20
        )


SSM = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_chunk_size": 4}


@variants(("name", "sizes"), [("MambaForCausalLM", {}), ("FalconH1ForCausalLM", SSM)], fast=1)
def test_linear_attention_has_states(name: str, sizes: dict[str, Any]) -> None:
    """Mamba's prefill does not read its states. A layer of FalconH1 has both kinds of attention."""
    model = made(name, **sizes)
    programs = composites.export(model, (PROMPT,), {"max_length": 20}, decode=True)
    states = {value.updates for value in programs.prefill.outputs}
    assert {f"cache:layers.1.{kind}_states.0" for kind in ("conv", "recurrent")} < states
    steps = programs.prefill.compile("cpu"), programs.decode.compile("cpu")
    for prompt in (PROMPT, torch.cat([PROMPT, PROMPT], 1)[:, :9], PROMPT[:, :2]):
        expected = model.generate(prompt, max_length=20, do_sample=False, pad_token_id=0)
        written = programs.generate(*steps, steps[0].init(model), prompt)
        assert written.tolist() == expected.tolist()


LENGTH = (
    "above the prompt's length, which is 6, and at most the model's max_position_embeddings, 64;"
)
UNUSED = composites.KVCache(transformers.LlamaConfig(**SIZES), 8)
REFUSED: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (torch.nn.Linear(2, 2), (PROMPT,), {}, "Linear is not one"),
    ("LlamaModel", (PROMPT,), {"max_length": 9}, "LlamaModel is not one"),
    *(("LlamaForCausalLM", (PROMPT,), {"max_length": n}, f"{LENGTH} it is {n}") for n in (6, 65)),
    ("LlamaForCausalLM", (PROMPT,), {}, f"{LENGTH} it is None"),
    ("LlamaForCausalLM", (), {"max_length": 9}, "tokens of shape (batch, length) and max_length"),
    ("LlamaForCausalLM", (PROMPT,), {"max_length": 9, "cache": UNUSED}, "is max_length, 9, and"),
    ("LlamaForCausalLM", (PROMPT,), {"max_length": 8, "past_key_values": UNUSED}, "KVCache needs"),
    ("RwkvForCausalLM", (PROMPT,), {"max_length": 9}, "RwkvForCausalLM does not use it"),
    ("OpenAIGPTLMHeadModel", (PROMPT,), {"max_length": 9}, "OpenAIGPTLMHeadModel does not use it"),
    (
        made("GPTNeoForCausalLM", attention_types=[[["global", "local"], 1]]),
        (PROMPT,),
        {"max_length": 9},
        "GPTNeoForCausalLM has layers of local attention",
    ),
]


def test_what_cannot_generate() -> None:
    for model, args, kwargs, message in REFUSED:
        module = made(model) if isinstance(model, str) else model
        with pytest.raises(ExportError) as raised:
            composites.export(module, args, kwargs, decode=True)
        assert message in str(raised.value)
    with pytest.raises(ExportError, match=r"the model that torch\.compile was called with"):
        composites.export(torch.compile(made("LlamaForCausalLM")), (PROMPT,), decode=True)  # type: ignore[call-overload]
    with pytest.raises(ExportError, match="leave out train, optimizer and dynamic_shapes"):
        composites.export(made("LlamaForCausalLM"), (PROMPT,), decode=True, train=True)


def test_a_model_that_reads_its_masks_has_no_rings() -> None:
    model = made("DogeForCausalLM", sliding_window=8, attn_implementation="composites")
    decode = composites.export(model, (PROMPT,), {"max_length": 20}, decode=True).decode
    assert all("x20x" in value.type for value in decode.inputs if value.name.endswith(".keys"))


@pytest.mark.exhaustive
def test_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    has_litert = find_spec("litert_converter") is not None
    for runtime, *options in [["jax"], *([["litert"], ["litert", "--int8"]] if has_litert else [])]:
        done = run(sys.executable, str(EXAMPLE), "--runtime", runtime, *options, PJRT_DEVICE="CPU")
        lines = [line.split(maxsplit=1) for line in done.succeeded().stdout.splitlines()]
        assert [name for name, _ in lines] == [runtime, runtime, "PyTorch", "PyTorch"]
        assert [row for _, row in lines[:2]] == [row for _, row in lines[2:]]
    example = runpy.run_path(str(EXAMPLE))
    example["RUNTIMES"]["jax"] = lambda programs, model, prompt: prompt
    monkeypatch.setattr(sys, "argv", ["generate.py", "--max-length", "12"])
    with pytest.raises(SystemExit, match="jax writes other tokens than PyTorch"):
        example["main"]()
