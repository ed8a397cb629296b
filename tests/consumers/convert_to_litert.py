"""Convert example models with LiteRT and run them; prints what was found as one line of JSON.

XLA_COMPOSITE_REGISTRY=… python convert_to_litert.py bert conv_net:train calls

`:train` converts loss and gradients. `calls` are those of convert_calls_to_litert.py.
"""

import copy
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from ai_edge_litert.interpreter import Interpreter

import composites
from composites import Program
from lowering.cli.export import load_factory
from lowering.stablehlo.diagnosis.devices import SIGNATURE, litert_flatbuffer, without_unknown


class Operators(torch.nn.Module):
    """A call for each form of the registries; the results end to end."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(7, 8)
        self.layer = torch.nn.LayerNorm(8)
        self.root = torch.nn.RMSNorm(8, eps=1e-6)
        self.group = torch.nn.GroupNorm(2, 4)

    def forward(self, tokens: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        x = self.root(self.layer(self.table(tokens)))
        heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        results = [
            F.normalize(attended, dim=-1),
            torch.softmax(x, -1),
            torch.stack([x, x + 1, x + 2, x + 3], -1),
            x.mean((0, 2), keepdim=True),
            self.group(image),
            F.avg_pool2d(image, 2),
            F.avg_pool2d(image, 3, 1, 1, count_include_pad=False),
            F.avg_pool2d(image, 3, 2, 1),
            F.adaptive_avg_pool2d(image, (3, 2)),
            F.interpolate(image, scale_factor=2.0, mode="bilinear"),
            F.interpolate(image, scale_factor=2.0),
            F.pad(image, (1, 2, 2, 1), mode="reflect"),
            F.gelu(image, approximate="tanh"),
            F.hardswish(image),
        ]
        return torch.cat([result.flatten() for result in results])


Example = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


def example(name: str, train: bool) -> Example:
    """A model, in the operators that LiteRT has; with labels to train it.

    PyTorch's attention masks rows by reductions of booleans, and GPT-2's own mask is computed in
    unsigned bytes; LiteRT runs neither. Written out attention and a mask given as numbers avoid
    them.
    """
    torch.manual_seed(0)
    if name == "operators":
        inputs_of_operators = (torch.tensor([[1, 4, 2], [0, 6, 6]]), torch.randn(1, 4, 6, 8))
        return Operators().eval(), inputs_of_operators, {}
    module, args, kwargs = load_factory(
        f"{Path(__file__).parents[2] / 'examples/models.py'}:{name}"
    )
    inputs = {key: value for key, value in kwargs.items() if train or key != "labels"}
    if name != "conv_net":
        module.set_attn_implementation("eager")
    if name == "gpt2":
        batch, length = inputs["input_ids"].shape
        inputs["attention_mask"] = torch.full((batch, 1, length, length), -1e9).triu(1)
    return module.train(train and name == "conv_net"), tuple(args), inputs


def convert(program: Program) -> bytes:
    """The program as a flatbuffer, with its inputs and outputs numbered as in the program."""
    return litert_flatbuffer(program.module)


def computed(module: torch.nn.Module, args: Any, kwargs: Any, train: bool) -> dict[str, Any]:
    """PyTorch's results on the CPU, by the names of the program's outputs."""
    if not train:
        with torch.no_grad():
            result = module(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            return {"out:0": result}
        return {"out:logits": result.logits}
    module = copy.deepcopy(module)
    result = module(*args, **kwargs)
    loss = result[0] if isinstance(result, tuple) else result.loss
    loss.backward()
    gradients = {f"grad:{name}": p.grad for name, p in module.named_parameters()}
    return {"loss": loss.detach(), **gradients}


def convert_model(name: str, train: bool) -> dict[str, Any]:
    module, args, kwargs = example(name, train)
    passes = [without_unknown] if train else []
    program = composites.export(module, args, kwargs, train=train, target="portable", passes=passes)
    interpreter = Interpreter(model_content=convert(program))
    interpreter.allocate_tensors()
    operators = Counter(op["op_name"] for op in interpreter._get_ops_details())

    named = program.module_weights(module)
    named |= {f"arg:{number}": tensor for number, tensor in enumerate(args)}
    named |= {f"kwarg:{key}": tensor for key, tensor in kwargs.items()}
    # Copies: batch norm writes to its buffers, which numpy would see.
    values = [named[value.name].detach().numpy().copy() for value in program.inputs]
    run = interpreter.get_signature_runner(SIGNATURE)
    results = run(**{f"input{number}": value for number, value in enumerate(values)})
    eager = {key: value.numpy() for key, value in computed(module, args, kwargs, train).items()}
    by_name = {output.name: results[f"output{n}"] for n, output in enumerate(program.outputs)}
    return {
        "composites": program.composites,
        "operators": operators,
        "compared": len(eager),
        "trained": len(list(module.parameters())),
        "difference": max(float(np.abs(by_name[key] - eager[key]).max()) for key in eager),
    }


def main(*subjects: str) -> None:
    results = {}
    for subject in subjects:
        if subject == "calls":
            import convert_calls_to_litert as calls

            results[subject] = {name: calls.convert_call(name) for name in calls.CALLS}
        else:
            name, _, train = subject.partition(":")
            results[subject] = convert_model(name, bool(train))
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
