"""BERT, GPT-2, ViT and a conv net: names and types, composites, and PyTorch's numbers."""

import dataclasses
from pathlib import Path
from typing import Any

import torch
from composites_testing.example_models import compare, export_example, load_example
from composites_testing.golden import Parts, check_cases
from composites_testing.selection import variants

from lowering.stablehlo import decompose

MODELS = ("conv_net", "bert", "gpt2", "vit")
DTYPES = {torch.float32: "f32", torch.int64: "i64"}


@variants("name", MODELS)
def test_numbers_are_those_of_pytorch(name: str) -> None:
    """Inference and steps, with loss and gradients, have PyTorch's numbers, also decomposed."""
    model = load_example(name)
    for kind in ("inference", "step"):
        program = export_example(name, kind)
        values = model.values(program)
        state = {name: value for name, value in values.items() if name.startswith("state:")}
        expected = model.step(state) if kind == "step" else model.outputs()
        compare(program.run(values), expected)
        plain = dataclasses.replace(program, module=decompose(program.module))
        assert not plain.composites
        compare(plain.run(values), expected)


@variants("name", MODELS)
def test_composites_are_counted(name: str) -> None:
    """Composites count in others' decompositions, and in backwards that compute a forward again."""

    def counted(parts: Parts) -> str:
        counts = export_example(name, parts[""].strip()).composites
        return "".join(f"{composite}: {counts[composite]}\n" for composite in sorted(counts))

    check_cases(Path(__file__).parent / "golden" / f"{name}.txt", counted)


def test_inputs_and_gradients_are_named_in_order_and_typed(model: Any) -> None:
    named = model.tensors()
    for kind in ("inference", "gradients", "step"):
        inputs = [
            v for v in export_example(model.name, kind).inputs if not v.name.startswith("state:")
        ]
        names = [value.name for value in inputs]
        assert names == [name for name in named if name in names]
        assert {name for name in named if name.startswith("param:")} <= set(names)
        for value in inputs:
            tensor = named[value.name]
            assert (value.shape, value.dtype) == (tuple(tensor.shape), DTYPES[tensor.dtype])
            assert value.updates is None
    loss, *outputs = export_example(model.name, "gradients").outputs
    assert (loss.name, loss.shape, loss.dtype) == ("loss", (), "f32")
    assert [
        (value.name.removeprefix("grad:"), value.shape, value.dtype, value.updates)
        for value in outputs
        if value.name.startswith("grad:")
    ] == [(name, tuple(p.shape), "f32", None) for name, p in model.module.named_parameters()]


def test_the_outputs_of_a_step_say_what_they_update(model: Any) -> None:
    program = export_example(model.name, "step")
    keys = {
        "bert": ("step", "exp_avg", "exp_avg_sq"),
        "gpt2": ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
        "vit": ("momentum_buffer",),
        "conv_net": ("momentum_buffer",),
    }[model.name]
    names = [name for name, _ in model.module.named_parameters()]
    updates = [value for value in program.outputs if value.updates is not None]
    assert [v.name for v in updates if not v.name.startswith("buffer:")] == [
        *(f"param:{name}" for name in names),
        *(f"state:{name}.{key}" for name in names for key in keys),
    ]
    inputs = {value.name: value for value in program.inputs}
    for value in updates:
        taken = inputs[str(value.updates)]
        assert (value.name, value.shape, value.dtype) == (taken.name, taken.shape, taken.dtype)
