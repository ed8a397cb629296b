"""BERT, GPT-2, ViT and a conv net: names and types, composites, and PyTorch's numbers."""

import dataclasses
from typing import Any

import pytest
import torch
from composites_testing.example_models import compare, export_example, load_example

from lowering.stablehlo import decompose


def slow(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow)


DTYPES = {torch.float32: "f32", torch.int64: "i64"}

LOSS = {"ptxla.cross_entropy_loss": 1}
ATTENTION = {"ptxla.scaled_dot_product_attention": 2}
FORWARD = {
    "bert": LOSS | ATTENTION | {"ptxla.gelu": 3, "ptxla.layer_norm": 6, "ptxla.embedding": 3},
    "gpt2": LOSS | ATTENTION | {"ptxla.gelu": 2, "ptxla.layer_norm": 5, "ptxla.embedding": 2},
    "vit": LOSS | ATTENTION | {"ptxla.gelu": 2, "ptxla.layer_norm": 5},
    "conv_net": LOSS
    | {
        "ptxla.batch_norm_training": 2,
        "ptxla.hardswish": 1,
        "ptxla.max_pool2d": 1,
        "ptxla.silu": 1,
    },
}
# What stays in the decompositions of others.
INSIDE = {
    "ptxla.cross_entropy_loss": ("ptxla.log_softmax", "ptxla.nll_loss"),
    "ptxla.scaled_dot_product_attention": ("ptxla.softmax",),
}
# Derived backwards that compute the forward again. That of the loss needs only what is saved, which
# the forward computes in place of log_softmax.
AGAIN = ("ptxla.scaled_dot_product_attention",)
NOT_TRAINED = ("ptxla.log_softmax",)
BACKWARD = {"ptxla.embedding": "ptxla.embedding_dense_backward"}
TRAINED_ONLY = {
    "conv_net": {"ptxla.batch_norm_backward": 2},  # inside the derived one
    # The loss in training. Its decomposition and its backward have that of inference inside.
    "gpt2": {
        "ptxla.linear_cross_entropy": 1,
        "ptxla.linear_cross_entropy_backward": 1,
        "ptxla.cross_entropy_loss": 2,
        "ptxla.nll_loss": 2,
    },
}


@pytest.mark.parametrize("name", ["conv_net", *(slow(n) for n in ("bert", "gpt2", "vit"))])
def test_numbers_are_those_of_pytorch(name: str) -> None:
    """Of inference and of a step, which has loss and gradients too; and with no composites left."""
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


def test_composites_are_counted(model: Any) -> None:
    outer = FORWARD[model.name]
    inside = {by: dict.fromkeys(names, outer.get(by, 0)) for by, names in INSIDE.items()}
    forward = {**outer, **{n: c for inner in inside.values() for n, c in inner.items() if c}}
    again = {n: c for by in AGAIN for n, c in inside[by].items() if c}
    both = {name: count for name, count in forward.items() if name not in NOT_TRAINED}
    both |= {name: 2 * count for name, count in again.items()}
    both |= TRAINED_ONLY.get(model.name, {})
    both |= {BACKWARD.get(n, f"{n}_backward"): count for n, count in (outer | again).items()}
    assert export_example(model.name, "inference").composites == forward
    assert export_example(model.name, "gradients").composites == both
    optimizer = "ptxla.sgd" if model.name in ("vit", "conv_net") else "ptxla.adamw"
    update = {optimizer: len(list(model.module.parameters()))}
    assert export_example(model.name, "step").composites == both | update


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
    loss, *others = export_example(model.name, "gradients").outputs
    assert (loss.name, loss.shape, loss.dtype) == ("loss", (), "f32")
    assert [
        (value.name.removeprefix("grad:"), value.shape, value.dtype, value.updates)
        for value in others
        if value.name.startswith("grad:")
    ] == [(name, tuple(p.shape), "f32", None) for name, p in model.module.named_parameters()]


def test_a_batch_norm_updates_its_buffers() -> None:
    expected = [
        (name, shape, dtype, name)
        for layer, width in ((1, 8), (5, 16))
        for name, shape, dtype in (
            (f"buffer:features.{layer}.running_mean", (width,), "f32"),
            (f"buffer:features.{layer}.running_var", (width,), "f32"),
            (f"buffer:features.{layer}.num_batches_tracked", (), "i64"),
        )
    ]
    for kind in ("inference", "gradients", "step"):
        outputs = export_example("conv_net", kind).outputs
        buffers = [(v.name, v.shape, v.dtype, v.updates) for v in outputs if "buffer:" in v.name]
        assert buffers == expected


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
