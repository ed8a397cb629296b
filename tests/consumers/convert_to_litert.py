"""Convert an example model with LiteRT and run it; prints what was found as one line of JSON.

XLA_COMPOSITE_REGISTRY=… python convert_to_litert.py bert
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ai_edge_litert.interpreter import Interpreter
from litert_converter import converter_api_ext as converter
from litert_converter.mlir import ir, passmanager

import composites
from composites import Program
from composites.factories import load_factory

SIGNATURE = "serving_default"


def example(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """A model for inference, in the operators that LiteRT has.

    PyTorch's attention masks rows by reductions of booleans, and GPT-2's own mask is computed in
    unsigned bytes; LiteRT runs neither. Written out attention and a mask given as numbers avoid
    them.
    """
    torch.manual_seed(0)
    module, args, kwargs = load_factory(
        f"{Path(__file__).parents[2] / 'examples/models.py'}:{name}"
    )
    inputs = {key: value for key, value in kwargs.items() if key != "labels"}
    if name != "conv_net":
        module.set_attn_implementation("eager")
    if name == "gpt2":
        batch, length = inputs["input_ids"].shape
        inputs["attention_mask"] = torch.full((batch, 1, length, length), -1e9).triu(1)
    return module.eval(), tuple(args), inputs


def convert(program: Program) -> bytes:
    """The program as a flatbuffer, with its inputs and outputs numbered as in the program."""
    context = ir.Context()
    converter.prepare_mlir_context(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(program.mlir)
        inputs = [f"input{number}" for number in range(len(program.inputs))]
        outputs = [f"output{number}" for number in range(len(program.outputs))]
        converter.set_signature(module.operation, SIGNATURE, inputs, outputs)
        converter.run_convert_to_tfl_passes(
            module, passmanager.PassManager(), converter.ConvertToTFLConfig()
        )
        return converter.export_flatbuffer_to_bytes(module.operation)


def main(name: str) -> None:
    module, args, kwargs = example(name)
    program = composites.export(module, args, kwargs, portable=True)
    interpreter = Interpreter(model_content=convert(program))
    interpreter.allocate_tensors()
    operators = Counter(op["op_name"] for op in interpreter._get_ops_details())

    named = program.module_weights(module)
    named |= {f"arg:{number}": tensor for number, tensor in enumerate(args)}
    named |= {f"kwarg:{key}": tensor for key, tensor in kwargs.items()}
    values = [named[value.name].detach().numpy() for value in program.inputs]
    run = interpreter.get_signature_runner(SIGNATURE)
    got = run(**{f"input{number}": value for number, value in enumerate(values)})["output0"]
    with torch.no_grad():
        result = module(*args, **kwargs)
    want = (result if isinstance(result, torch.Tensor) else result.logits).numpy()
    found = {
        "composites": program.composites,
        "operators": operators,
        "difference": float(np.abs(got - want).max()),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
