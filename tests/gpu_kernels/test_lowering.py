"""Kernels lowered for `cuda` on a machine without a GPU, and what they refuse."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from composites_testing.command_line import invoke
from composites_testing.modules import Calling
from torch import Tensor
from torch.nn import functional

import composites
from composites import Program, ProgramError, UnsupportedCallError
from lowering.export.dimensions import Dimension
from lowering.stablehlo import decompose, jax_function
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.run import enable_x64

TRITON = "__gpu$xla.gpu.triton"
CUDNN = "__cudnn$fmhaSoftmax"
CUDNN_BACKWARD = "__cudnn$fmhaSoftmaxBackward"
BF16 = torch.bfloat16


class Model(torch.nn.Module):
    """A layer of a GPT, with its loss."""

    def __init__(self, dtype: torch.dtype = BF16) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(50, 32, dtype=dtype)
        self.norm = torch.nn.RMSNorm(32, dtype=dtype)
        self.outer = torch.nn.Linear(32, 50, dtype=dtype)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.table(tokens))
        heads = x.view(2, 16, 2, 16).transpose(1, 2)
        x = functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        x = self.outer(x.transpose(1, 2).reshape(2, 16, 32))
        return functional.cross_entropy(x.view(-1, 50), tokens.view(-1))


@pytest.fixture(scope="module")
def training() -> Program:
    optimizer = partial(torch.optim.AdamW, lr=1e-3)
    tokens = torch.zeros(2, 16, dtype=torch.int64)
    return composites.export(Model(), (tokens,), optimizer=optimizer)


def targets(program: Program) -> list[str]:
    """The targets of custom calls that run where the composites are unknown."""
    names = re.findall(r"stablehlo\.custom_call @([\w$.]+)", decompose(program.module).text)
    return sorted({name for name in names if name.startswith("__")})


@pytest.mark.usefixtures("h100")
def test_a_training_step_has_all_kernels(training: Program) -> None:
    placed = training.with_kernels("cuda")
    taken = {use.composite: use.kernel for use in placed.kernels if use.kernel is not None}
    assert taken == {
        "ptxla.scaled_dot_product_attention": "gpu_kernels.attention:attention",
        "ptxla.scaled_dot_product_attention_backward": "gpu_kernels.attention:attention_backward",
        "ptxla.cross_entropy_loss": "gpu_kernels.losses:cross_entropy_loss",
        "ptxla.cross_entropy_loss_backward": "gpu_kernels.losses:cross_entropy_loss_backward",
        "ptxla.rms_norm": "gpu_kernels.norms:rms_norm",
        "ptxla.rms_norm_backward": "gpu_kernels.norms:rms_norm_backward",
        "ptxla.adamw": "gpu_kernels.optimizers:adamw",
    }
    assert targets(placed.program) == [CUDNN, CUDNN_BACKWARD, TRITON]
    assert placed.platform == "cuda"
    assert targets(training) == []


@pytest.mark.usefixtures("h100")
def test_the_whole_step_is_lowered_for_cuda(training: Program, tmp_path: Path) -> None:
    """A saved program is lowered as jax passes it to XLA on a machine with a GPU."""
    placed = training.with_kernels("cuda").program
    placed.save(tmp_path / "step")
    program = Program.load(tmp_path / "step")
    assert targets(program) == [CUDNN, CUDNN_BACKWARD, TRITON]
    assert program.composites == placed.composites
    with enable_x64():
        function = jax_function(program.module, platform="cuda")
        shapes = [
            jax.ShapeDtypeStruct(value.shape, numpy_dtype(value.dtype)) for value in program.inputs
        ]
        text = jax.jit(function).trace(*shapes).lower(lowering_platforms=("cuda",)).as_text()
    for target in (CUDNN, CUDNN_BACKWARD, TRITON):
        assert f"@{target}(" in text


def test_sizes_that_vary_are_refused(training: Program) -> None:
    varying = replace(training, dimensions=(Dimension("batch", 1, None),))
    with pytest.raises(ProgramError, match=re.escape("program.at(batch=…).with_kernels()")):
        varying.with_kernels("cuda")


def test_a_platform_that_no_registry_knows(training: Program) -> None:
    names: tuple[Any, ...] = ("gpu", "CUDA", "", None, 3)
    for platform in names:
        with pytest.raises(ProgramError, match="the platform must be one of cpu, cuda, rocm, tpu"):
            training.with_kernels(platform)


def test_the_registry_is_right_and_listed(registry: Path) -> None:
    result = invoke("check", registry)
    assert (result.exit_code, result.stderr) == (0, "")
    listed = invoke("list", "--kernels", COLUMNS="300")
    assert "gpu_kernels.losses:cross_entropy_loss" in listed.stdout


# ---- each kernel alone ----

f32, bf16, i64 = jnp.float32, jnp.bfloat16, jnp.int64
ATTENTION = {"dropout_p": 0.0, "is_causal": True, "enable_gqa": False}
LOSS = {"reduction": 1, "ignore_index": -100, "label_smoothing": 0.0}
ADAMW = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "maximize": False}
HEADS, SUMS = ((2, 4, 32, 64), bf16), ((2, 4, 32), f32)
KERNELS: Mapping[str, tuple[str, list[tuple[tuple[int, ...], Any]], dict[str, Any], str]] = {
    "attention": ("attention:attention", [HEADS] * 3, ATTENTION, CUDNN),
    "attention_backward": (
        "attention:attention_backward",
        [*[HEADS] * 5, SUMS],
        {**ATTENTION, "output_mask": (True, True, True, False)},
        CUDNN_BACKWARD,
    ),
    "flash": ("flash:attention", [((2, 4, 70, 20), f32)] * 3, ATTENTION, TRITON),
    "flash_backward": (
        "flash:attention_backward",
        [*[((2, 4, 70, 20), bf16)] * 5, ((2, 4, 70), f32)],
        {**ATTENTION, "output_mask": (True, True, True, False)},
        TRITON,
    ),
    "loss": ("losses:cross_entropy_loss", [((5, 9001), bf16), ((5,), i64)], LOSS, TRITON),
    "loss_backward": (
        "losses:cross_entropy_loss_backward",
        [((), bf16), ((5, 9001), bf16), ((5,), i64), ((5,), f32), ((5,), f32)],
        {**LOSS, "output_mask": (True, False, False)},
        TRITON,
    ),
    "norm": (
        "norms:rms_norm",
        [((5, 700), bf16), ((700,), bf16)],
        {"normalized_shape": (700,)},
        TRITON,
    ),
    "norm_backward": (
        "norms:rms_norm_backward",
        [((5, 700), bf16), ((5, 700), bf16), ((700,), bf16), ((5, 1), f32)],
        {"normalized_shape": (700,), "output_mask": (True, True)},
        TRITON,
    ),
    "adamw": ("optimizers:adamw", [((5, 700), f32)] * 4 + [((), f32)] * 3, ADAMW, TRITON),
}


def function_of(path: str) -> Callable[..., Any]:
    from composites.functions import find_function

    return find_function(f"gpu_kernels.{path}")


def lowered(path: str, operands: list[tuple[tuple[int, ...], Any]], **attributes: Any) -> str:
    with enable_x64():
        shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in operands]
        traced = jax.jit(partial(function_of(path), **attributes)).trace(*shapes)
        text: str = traced.lower(lowering_platforms=("cuda",)).as_text()
        return text


@pytest.mark.usefixtures("h100")
def test_kernels_are_lowered_without_a_gpu() -> None:
    for name, (path, operands, attributes, target) in KERNELS.items():
        assert f"@{target}(" in lowered(path, operands, **attributes), name


REFUSALS: list[tuple[str, dict[str, Any], Any, str]] = [
    ("attention", {}, [*[HEADS] * 3, ((32, 32), jnp.bool_)], "takes no mask"),
    ("attention", {"dropout_p": 0.1}, None, "takes no dropout"),
    ("attention", {}, [((2, 4, 32, 64), f32)] * 3, "bfloat16 or of float16, not float32"),
    ("attention", {}, [((2, 4, 32, 20), bf16)] * 3, "a multiple of 8 numbers, at most 128"),
    ("attention", {}, [((2, 4, 32, 136), bf16)] * 3, "at most 128, not 136"),
    ("attention", {}, [HEADS, *[((2, 4, 48, 64), bf16)] * 2], "as many queries as keys"),
    ("attention", {}, [HEADS, *[((2, 2, 32, 64), bf16)] * 2], "those of key are a divisor"),
    ("attention", {}, [HEADS, HEADS, ((2, 4, 32, 8), bf16)], "key and value of one shape"),
    ("attention_backward", {"output_mask": (True,) * 4}, None, "of query, key and value"),
    ("attention_backward", {}, [*[HEADS] * 4, HEADS, HEADS, SUMS], "takes no mask"),
    ("flash", {}, [*[HEADS] * 3, ((32, 32), jnp.bool_)], "takes no mask"),
    ("flash", {"dropout_p": 0.1}, None, "takes no dropout"),
    ("flash", {}, [((2, 4, 32, 136), f32)] * 3, "heads of at most 128 numbers, not 136"),
    ("flash_backward", {"output_mask": (True,) * 4}, None, "of query, key and value"),
    ("flash_backward", {}, [*[HEADS] * 6, SUMS], "takes no mask"),
    ("loss", {"label_smoothing": 0.1}, None, "no weights of classes and no label smoothing"),
    ("loss", {}, [((5, 9), f32), ((5,), i64), ((9,), f32)], "no weights of classes"),
    ("loss", {}, [((5, 9), f32), ((5, 9), f32)], "takes logits of two dimensions"),
    ("loss_backward", {"output_mask": (True, False, True)}, None, "of the logits only"),
    ("norm", {}, [((5, 700), bf16), ((700,), f32)], "all of float32 or of bfloat16"),
    ("norm", {}, [((0, 700), bf16)], "takes at least one element"),
    ("norm", {"normalized_shape": (16385,)}, [((5, 16385), bf16)], "at most 16384 numbers"),
    ("norm_backward", {"output_mask": (True, False)}, None, "of x and of the weight"),
    ("adamw", {}, [((5,), f32)] * 4 + [((), f32)] * 3 + [((5,), f32)], "AMSGrad"),
    ("adamw", {}, [((5,), f32)] * 4 + [((), bf16)] * 3, "float32, not bfloat16"),
]


def test_kernels_refuse_what_they_do_not_compute() -> None:
    for name, changes, operands, message in REFUSALS:
        path, usual, attributes, _ = KERNELS[name]
        with pytest.raises(UnsupportedCallError, match=message):
            lowered(path, operands or usual, **{**attributes, **changes})


@pytest.mark.slow
@pytest.mark.usefixtures("h100")
def test_calls_go_to_the_first_kernel_that_takes_them() -> None:
    attention = functional.scaled_dot_product_attention
    module = Calling(lambda query: attention(query, query, query))
    chosen = {}
    for size, dtype in ((64, BF16), (20, BF16), (64, torch.float32), (136, BF16)):
        program = composites.export(module, (torch.empty(2, 4, 32, size, dtype=dtype),))
        uses = program.with_kernels("cuda").kernels
        (chosen[size, dtype],) = (use for use in uses if use.composite.endswith("attention"))
    assert {call: use.kernel for call, use in chosen.items()} == {
        (64, BF16): "gpu_kernels.attention:attention",
        (20, BF16): "gpu_kernels.flash:attention",
        (64, torch.float32): "gpu_kernels.flash:attention",
        (136, BF16): None,
    }
    reason = str(chosen[136, BF16].reason)
    for kernel in ("gpu_kernels.attention:attention", "gpu_kernels.flash:attention"):
        assert f"{kernel}: needs query.shape[-1] <= 128" in reason


# ---- cuDNN's custom calls, as jax writes them ----


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("heads", [4, 2])
def test_attention_asks_cudnn_for_what_jax_asks(
    causal: bool, heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """jax asks a GPU for the version of cuDNN; the test answers in its place."""
    from jax._src.cudnn import fused_attention_stablehlo as jax_attention

    monkeypatch.setattr(jax_attention, "check_cudnn_version", lambda: 91300)
    query, key = (jax.ShapeDtypeStruct((2, 32, n, 64), jnp.bfloat16) for n in (4, heads))

    def theirs(query: Any, key: Any, value: Any) -> Any:
        def summed(*operands: Any) -> Any:
            attended = jax.nn.dot_product_attention
            result = attended(*operands, is_causal=causal, implementation="cudnn")
            return result.astype(jnp.float32).sum()

        return jax.grad(summed, (0, 1, 2))(query, key, value)

    attributes = {**ATTENTION, "is_causal": causal, "enable_gqa": True}
    keywords = {**attributes, "output_mask": (True, True, True, False)}

    def ours(query: Any, key: Any, value: Any) -> Any:
        q, k, v = (jnp.swapaxes(operand, 1, 2) for operand in (query, key, value))
        result, sums = function_of("attention:attention")(q, k, v, **attributes)
        backward = function_of("attention:attention_backward")
        return backward(result, q, k, v, result, sums, **keywords)

    actual, expected = (custom_calls(call, query, key, key) for call in (ours, theirs))
    assert len(expected) == 2
    assert actual == expected


def custom_calls(function: Callable[..., Any], *operands: Any) -> dict[str, tuple[Any, str, str]]:
    """Settings, layouts and types of the custom calls, by target."""
    lowered = jax.jit(function).trace(*operands).lower(lowering_platforms=("cuda",))
    pattern = (
        r"@(__cudnn\S+?)\(.*?backend_config = \"(.*?)\", (operand_layouts.*?\])\}? ?: (\(.*)\n"
    )
    calls = {}
    for target, settings, layouts, types in re.findall(pattern, lowered.as_text()):
        read = json.loads(settings.replace("\\22", '"'))
        # jax 0.7.1 writes this empty list, which newer releases leave out.
        read.pop("wait_on_operation_queues", None)
        calls[target] = (read, layouts, types)
    return calls
