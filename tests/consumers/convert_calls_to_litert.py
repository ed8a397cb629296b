"""Calls of functions that only LiteRT has, converted and run; convert_to_litert.py prints them."""

from collections.abc import Callable
from typing import Any

import litert_ops as ops
import numpy as np
import torch
from ai_edge_litert.interpreter import Interpreter
from convert_to_litert import SIGNATURE, convert

import composites


class Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def first(samples: Any) -> list[torch.Tensor]:
    (arguments, _), *_ = samples(torch.float32)
    return [argument for argument in arguments if isinstance(argument, torch.Tensor)]


CALLS: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "slice": (lambda x, begin: ops.slice(x, begin, [2, 1]), first(ops.slice_samples)),
    # Results of a call cannot be outputs themselves in LiteRT's converter.
    "unpack": (lambda x: tuple(2 * t for t in ops.unpack(x, 2)), first(ops.unpack_samples)),
    "random_uniform": (lambda x: ops.random_uniform(x) + x, [torch.zeros(40, 50)]),
    "rope": (lambda x, places: ops.rope(x, places, 5e5), first(ops.rope_samples)),
    "update_kv_cache": (lambda *t: ops.update_kv_cache(*t, 4), first(ops.update_kv_cache_samples)),
    "quantize_and_dequantize": (
        lambda w: ops.quantize_and_dequantize(w, 0, 4), first(ops.quantize_and_dequantize_samples),
    ),
}  # fmt: skip
CUSTOM = ("update_kv_cache", "quantize_and_dequantize")
"""Operators that an application registers."""


def found(name: str) -> dict[str, Any]:
    function, tensors = CALLS[name]
    program = composites.export(Call(function), tuple(tensors), portable=True)
    interpreter = Interpreter(model_content=convert(program))
    answer: dict[str, Any] = {
        "composites": program.composites,
        "operators": [op["op_name"] for op in interpreter._get_ops_details()],
    }
    if name in CUSTOM:
        return answer
    interpreter.allocate_tensors()
    run = interpreter.get_signature_runner(SIGNATURE)
    given = {f"input{number}": tensor.numpy() for number, tensor in enumerate(tensors)}
    got, again = run(**given), run(**given)
    expected = function(*tensors)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    outputs = [got[f"output{number}"] for number in range(len(wanted))]
    return answer | {
        "range": [float(min(map(np.min, outputs))), float(max(map(np.max, outputs)))],
        "mean": float(np.mean(outputs[0])),
        "repeats": all(np.array_equal(got[key], again[key]) for key in got),
        "difference": max(
            float(np.abs(mine - want.numpy()).max())
            for mine, want in zip(outputs, wanted, strict=True)
        ),
    }
