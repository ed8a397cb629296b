"""Generate tokens with an exported Llama: its prefill and its decode, on jax or on LiteRT.

    python examples/generate.py
    python examples/generate.py --runtime litert      # needs litert-converter and ai-edge-litert
    python examples/generate.py --int8                # keys and values as integers

The weights are random. PyTorch generates with its static cache, and the tokens have to be the same;
otherwise the exit status is 1.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import composites
from composites import GenerationPrograms, Program

State = Mapping[str, Any]


def llama() -> LlamaForCausalLM:
    """A small Llama with random weights, which no token ends."""
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


def on_jax(programs: GenerationPrograms, model: torch.nn.Module, prompt: torch.Tensor) -> Any:
    """The tokens, by jax's CPU client, which has the state and updates it in place."""
    prefill, decode = programs.prefill.compile("cpu"), programs.decode.compile("cpu")
    return programs.generate(prefill, decode, prefill.init(model), prompt)


def on_litert(programs: GenerationPrograms, model: torch.nn.Module, prompt: torch.Tensor) -> Any:
    """The tokens, by LiteRT's CPU runtime. The state is a mapping from names of inputs to numpy
    arrays."""
    inputs = programs.prefill.inputs
    types = {"f32": np.float32, "i64": np.int64, "i8": np.int8}
    cache = {v.name: np.zeros(v.shape, types[v.dtype]) for v in inputs if v.name[:6] == "cache:"}
    weights = programs.prefill.module_weights(model)
    state = cache | {name: tensor.detach().numpy() for name, tensor in weights.items()}
    prefill, decode = LiteRt(programs.prefill), LiteRt(programs.decode)
    return programs.generate(prefill, decode, state, prompt)


class LiteRt:
    """A program that LiteRT runs. It is called as a compiled `Step` is."""

    def __init__(self, program: Program) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.program = program
        self.interpreter = Interpreter(model_content=_flatbuffer(program))
        self.interpreter.allocate_tensors()

    def __call__(self, state: State, *, input_ids: Any) -> tuple[State, State]:
        values = {**state, "kwarg:input_ids": np.ascontiguousarray(input_ids)}
        names = [value.name for value in self.program.inputs]
        run = self.interpreter.get_signature_runner("serving_default")
        returned = run(**{f"input{number}": values[name] for number, name in enumerate(names)})
        results = {v.name: returned[f"output{n}"] for n, v in enumerate(self.program.outputs)}
        updates = {v.updates: results[v.name] for v in self.program.outputs if v.updates}
        return results, {**state, **updates}


def _flatbuffer(program: Program) -> bytes:
    """The program as LiteRT reads it, with its inputs and outputs numbered."""
    from litert_converter import converter_api_ext as converter
    from litert_converter.mlir import ir, passmanager

    context = ir.Context()
    converter.prepare_mlir_context(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(program.mlir)
        inputs = [f"input{number}" for number in range(len(program.inputs))]
        outputs = [f"output{number}" for number in range(len(program.outputs))]
        converter.set_signature(module.operation, "serving_default", inputs, outputs)
        passes, config = passmanager.PassManager(), converter.ConvertToTFLConfig()
        converter.run_convert_to_tfl_passes(module, passes, config)
        return converter.export_flatbuffer_to_bytes(module.operation)


RUNTIMES = {"jax": on_jax, "litert": on_litert}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runtime", choices=RUNTIMES, default="jax")
    parser.add_argument("--folder", help="where to save the programs; by default nowhere")
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--int8", action="store_true", help="a cache of integers")
    options = parser.parse_args()

    torch.manual_seed(0)
    model = llama()
    prompt = torch.randint(model.config.vocab_size, (2, 8))
    length = {"max_length": options.max_length}
    call: dict[str, Any] = {**length, "cache_implementation": "static"}
    exported: dict[str, Any] = length
    if options.int8:
        model.set_attn_implementation("composites")
        cache = composites.KVCache(model.config, options.max_length, dtype=torch.int8)
        call = exported = {**length, cache.argument: cache}
    target = "litert" if options.runtime == "litert" else None
    programs = composites.export(model, (prompt,), exported, decode=True, target=target)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or temporary
        programs.save(folder)
        programs = GenerationPrograms.load(folder)
    written = RUNTIMES[options.runtime](programs, model, prompt)
    expected = model.generate(prompt, do_sample=False, pad_token_id=0, **call).numpy()
    for name, tokens in ((options.runtime, written), ("PyTorch", expected)):
        for row in tokens.tolist():
            print(f"{name:8}", *row)
    if not np.array_equal(written, expected):
        sys.exit(f"{options.runtime} writes other tokens than PyTorch")


if __name__ == "__main__":
    main()
