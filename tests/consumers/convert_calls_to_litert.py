"""Calls of functions that only LiteRT has, and of quantization, converted and run;
convert_to_litert.py prints them.

XLA_COMPOSITE_REGISTRY=… python convert_calls_to_litert.py FOLDER

writes flatbuffers of norms and attention to a folder, with inputs and results.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import litert_lm_ops
import litert_lm_samples
import litert_ops as ops
import litert_quant_ops as quant
import numpy as np
import torch
import torch.nn.functional as F
from ai_edge_litert.interpreter import Interpreter
from convert_to_litert import SIGNATURE, convert

import composites


class Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


LANGUAGE_MODELS = (
    "swiglu", "qkv_norm_rope", "short_conv_step", "cache_update", "runtime_bmm", "sdpa_transposed",
    "fused_sdpa_cache_update", "moe_experts",
)  # fmt: skip
"""The functions of litert_lm.yaml."""


def first(samples: Any) -> list[torch.Tensor]:
    (arguments, _), *_ = samples(torch.float32)
    return [argument for argument in arguments if isinstance(argument, torch.Tensor)]


def language_model_calls() -> Iterator[tuple[str, tuple[Callable[..., Any], list[torch.Tensor]]]]:
    """Yield the name and number of each sample of each function, and its call."""
    for name in LANGUAGE_MODELS:
        torch.manual_seed(0)
        for number, (args, options) in enumerate(getattr(litert_lm_samples, name)(torch.float32)):
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            constants = [value for value in args if not isinstance(value, torch.Tensor)]

            def call(*tensors: Any, name: str = name, rest: Any = (constants, options)) -> Any:
                return getattr(litert_lm_ops, name)(*tensors, *rest[0], **rest[1])

            yield f"{name} {number}", (call, tensors)


def fake_quant(x: torch.Tensor, scale: float = 0.05, zero_point: int = 3) -> torch.Tensor:
    return torch.fake_quantize_per_tensor_affine(x, scale, zero_point, -128, 127)


def quantized(x: torch.Tensor) -> torch.Tensor:
    operators = torch.ops.quantized_decomposed
    integers = operators.quantize_per_tensor(x, 0.25, 3, -128, 127, torch.int8)
    return operators.dequantize_per_tensor(integers, 0.25, 3, -128, 127, torch.int8) + 1


SCALES = [0.02, 0.03, 0.025, 0.04]
X, WEIGHT = (torch.linspace(-1, 1, 8 * n).sin().reshape(n, 8) for n in (2, 4))
CALLS: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "slice": (lambda x, begin: ops.slice(x, begin, [2, 1]), first(ops.slice_samples)),
    # Results of a call cannot be outputs themselves in LiteRT's converter.
    "unpack": (lambda x: tuple(2 * t for t in ops.unpack(x, 2)), first(ops.unpack_samples)),
    "random_uniform": (lambda x: ops.random_uniform(x) + x, [torch.zeros(40, 50)]),
    "rope": (lambda x, positions: ops.rope(x, positions, 5e5), first(ops.rope_samples)),
    "update_kv_cache": (lambda *t: ops.update_kv_cache(*t, 4), first(ops.update_kv_cache_samples)),
    "quantize_and_dequantize": (
        lambda w: ops.quantize_and_dequantize(w, 0, 4), first(ops.quantize_and_dequantize_samples),
    ),
    "fake_quant": (lambda x: fake_quant(x) * 2, [X]),
    "quantize and dequantize": (quantized, [X]),
    "linear": (
        lambda x, w: fake_quant(
            F.linear(fake_quant(x), quant.fake_quant_channels(w, SCALES, 0)), 0.1, 0
        ),
        [X, WEIGHT],
    ),
    "linear of integers": (
        lambda x, w: fake_quant(
            F.linear(fake_quant(x), quant.dequantize_channels(w, SCALES, 0)), 0.1, 0
        ),
        [X, (WEIGHT / 0.03).round().to(torch.int8)],
    ),
    **dict(language_model_calls()),
}  # fmt: skip
CUSTOM = ("update_kv_cache", "quantize_and_dequantize")
"""Operators that an application registers."""


def convert_call(name: str) -> dict[str, Any]:
    function, tensors = CALLS[name]
    program = composites.export(Call(function), tuple(tensors), target="portable")
    interpreter = Interpreter(model_content=convert(program))
    answer: dict[str, Any] = {
        "composites": program.composites,
        "operators": [op["op_name"] for op in interpreter._get_ops_details()],
    }
    if name in CUSTOM:
        return answer
    interpreter.allocate_tensors()
    run = interpreter.get_signature_runner(SIGNATURE)
    inputs = {f"input{number}": tensor.numpy() for number, tensor in enumerate(tensors)}
    results, again = run(**inputs), run(**inputs)
    expected = function(*tensors)
    references = expected if isinstance(expected, tuple) else (expected,)
    outputs = [results[f"output{number}"] for number in range(len(references))]
    return answer | {
        "range": [float(min(map(np.min, outputs))), float(max(map(np.max, outputs)))],
        "mean": float(np.mean(outputs[0])),
        "repeats": all(np.array_equal(results[key], again[key]) for key in results),
        "difference": max(
            float(np.abs(output - reference.numpy()).max())
            for output, reference in zip(outputs, references, strict=True)
        ),
    }


ROWS, SCALE = torch.linspace(-2, 2, 48).sin().reshape(2, 3, 8), torch.linspace(0.5, 2, 8)
NORMS: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "rms_norm": (lambda x, w: F.rms_norm(x, [8], w, 1e-3) + 1, [ROWS, SCALE]),
    "rms_norm_without_weight": (lambda x: F.rms_norm(x, [8], None, 1e-3) + 1, [ROWS]),
    "layer_norm": (lambda x, w: F.layer_norm(x, [8], w, w) + 1, [ROWS, SCALE]),
    "attention": (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), [ROWS]),
}


def save(folder: Path) -> None:
    for name, (function, tensors) in NORMS.items():
        program = composites.export(
            Call(function), tuple(tensors), ops=["odml.*"], target="portable"
        )
        (folder / f"{name}.tflite").write_bytes(convert(program))
        arguments = {f"arg:{number}": tensor for number, tensor in enumerate(tensors)}
        inputs: Any = {f"input{n}": arguments[v.name].numpy() for n, v in enumerate(program.inputs)}
        np.savez(folder / f"{name}.npz", output=function(*tensors).numpy(), **inputs)


if __name__ == "__main__":
    save(Path(sys.argv[1]))
