"""Kernels refuse calls whose attributes or shapes would make them read past the end of memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from composites import UnsupportedCallError
from composites.functions import find_function
from lowering.stablehlo.run import enable_x64


def operand(*shape: int, dtype: str) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


f32, i64, i1, i8 = (partial(operand, dtype=dtype) for dtype in ("float32", "int64", "bool", "int8"))


@dataclass(frozen=True)
class Call:
    """A call that a kernel takes, and the change after which the kernel must not take it."""

    kernel: str
    operands: tuple[jax.ShapeDtypeStruct, ...]
    attributes: Mapping[str, Any]
    changed: Mapping[str | int, Any] = field(default_factory=dict)
    """Attributes by name, and operands by number."""
    reason: str = ""

    def but(self, reason: str, changed: Mapping[str | int, Any]) -> Call:
        return Call(self.kernel, self.operands, self.attributes, changed, reason)


ALL = {"output_mask": (True, True, True)}
OF_LOSS = {"reduction": 1, "ignore_index": -100, "label_smoothing": 0.0}
LOSS = Call("losses:cross_entropy_loss", (f32(4, 5), i64(4), f32(5)), OF_LOSS)
LOSS_BACKWARD = Call(
    "losses:cross_entropy_loss_backward",
    (f32(), f32(4, 5), i64(4), f32(4), f32(4)),
    {**OF_LOSS, "output_mask": (True, False, False)},
)
OF_GRID = {"interpolation_mode": 0, "padding_mode": 0, "align_corners": False}
GRID = Call("grid_sampling:grid_sampler_2d", (f32(2, 3, 4, 4), f32(2, 5, 6, 2)), OF_GRID)
GRID_BACKWARD = Call(
    "grid_sampling:grid_sampler_2d_backward",
    (f32(2, 3, 5, 6), f32(2, 3, 4, 4), f32(2, 5, 6, 2)),
    {**OF_GRID, "output_mask": (True, True)},
)
POOL = Call(
    "pooling:max_pool2d_backward",
    (f32(1, 2, 3, 3), f32(1, 2, 6, 6)),
    {
        "kernel_size": (2, 2),
        "stride": (2, 2),
        "padding": (0, 0),
        "dilation": (1, 1),
        "ceil_mode": False,
        "output_mask": (True,),
    },
)
GROUP_NORM = Call(
    "norms:group_norm_backward",
    (f32(2, 4, 3, 3), f32(2, 4, 3, 3), f32(4), f32(4), f32(2, 2), f32(2, 2)),
    {"N": 2, "C": 4, "HxW": 9, "group": 2, "eps": 1e-5, **ALL},
)
LAYER_NORM = Call(
    "norms:layer_norm_backward",
    (f32(3, 4), f32(3, 4), f32(4), f32(4), f32(3, 1), f32(3, 1)),
    {"normalized_shape": (4,), "eps": 1e-5, **ALL},
)
SOFTMAX = Call("softmax:softmax_backward", (f32(3, 4), f32(3, 4)), {"dim": 1})
EMBEDDING = Call(
    "indexing:embedding_dense_backward",
    (f32(3, 4), i64(3)),
    {"num_weights": 4, "padding_idx": -1, "scale_grad_by_freq": False},
)
BILINEAR = Call(
    "resampling:upsample_bilinear2d_backward",
    (f32(1, 2, 8, 8),),
    {"output_size": (8, 8), "input_size": (1, 2, 4, 4), "align_corners": False},
)
OF_ATTENTION = {"dropout_p": 0.0, "is_causal": False, "enable_gqa": False}
HEADS = f32(2, 3, 4, 8)
ATTENTION = Call("attention:attention", (HEADS, HEADS, HEADS, i1(4, 4)), OF_ATTENTION)
ATTENTION_BACKWARD = Call(
    "attention:attention_backward",
    (HEADS, HEADS, HEADS, HEADS, HEADS, f32(2, 3, 4)),
    {**OF_ATTENTION, "output_mask": (True, True, True, False)},
)
INT8 = Call("quantized:int8_weight_only_linear", (f32(3, 4), i8(5, 4), f32(5, 1)), {})
GROUPS = Call(
    "quantized:intx_weight_only_linear",
    (f32(3, 4), i8(5, 4), f32(5, 2), i8(5, 2)),
    {"bits": 4, "group_size": 2, "activation": "none"},
)
DROPOUT = Call("dropout:dropout", (f32(3, 4),), {"p": 1.0})

CALLS = {
    "a loss of another reduction": LOSS.but("reduction of 0, 1 or 2, not 7", {"reduction": 7}),
    "too much label smoothing": LOSS.but("from 0 to 1, not 2", {"label_smoothing": 2.0}),
    "no number as label smoothing": LOSS.but("not nan", {"label_smoothing": float("nan")}),
    "fewer classes than rows": LOSS.but(r"classes of shape \(4,\), not \(3,\)", {1: i64(3)}),
    "fewer weights than classes": LOSS.but(r"weights of shape \(5,\)", {2: f32(4)}),
    "one gradient for each row": LOSS_BACKWARD.but(r"gradient of shape \(\)", {0: f32(4)}),
    "a gradient of another type": LOSS_BACKWARD.but(
        "not bfloat16, float32", {0: operand(dtype="bfloat16")}
    ),
    "fewer sums than rows": LOSS_BACKWARD.but(r"sums of shape \(4,\), not \(3,\)", {4: f32(3)}),
    "sums of another type": LOSS_BACKWARD.but("sums of f32, not of int64", {4: i64(4)}),
    "an unknown interpolation": GRID.but("not 5 and 0", {"interpolation_mode": 5}),
    "an unknown padding": GRID.but("not 0 and 9", {"padding_mode": 9}),
    "fewer grids than images": GRID.but(r"grid of shape \(2, 5, 6, 2\)", {1: f32(1, 5, 6, 2)}),
    "points of three numbers": GRID.but(r"not \(2, 5, 6, 3\)", {1: f32(2, 5, 6, 3)}),
    "a gradient of fewer points": GRID_BACKWARD.but(
        r"gradient of shape \(2, 3, 5, 6\)", {0: f32(2, 3, 5, 5)}
    ),
    "no stride": POOL.but("takes a kernel and a stride", {"stride": (0, 0)}),
    "more padding than half a kernel": POOL.but("half the kernel", {"padding": (2, 2)}),
    "a gradient of more windows": POOL.but(
        r"gradient of shape \(1, 2, 3, 3\), not \(1, 2, 9, 9\)", {0: f32(1, 2, 9, 9)}
    ),
    "more pixels than x has": GROUP_NORM.but("not N = 2, C = 4, HxW = 900", {"HxW": 900}),
    "groups that do not divide the channels": GROUP_NORM.but("group = 3", {"group": 3}),
    "fewer means than groups": GROUP_NORM.but(r"mean of shape \(2, 2\)", {4: f32(2, 1)}),
    "another normalized shape": LAYER_NORM.but(r"x of shape \(3, 4\)", {1: f32(3, 5)}),
    "fewer means than rows": LAYER_NORM.but(r"mean of shape \(3, 1\)", {4: f32(1, 1)}),
    "softmax over the first dimension": SOFTMAX.but("takes the last dimension", {"dim": 0}),
    "a gradient of fewer rows": SOFTMAX.but(r"gradient of shape \(3, 4\)", {0: f32(2, 4)}),
    "more indices than gradients": EMBEDDING.but(r"gradient of shape \(300, 4\)", {1: i64(300)}),
    "a gradient of another size": BILINEAR.but(
        r"gradient of shape \(1, 2, 8, 8\)", {0: f32(1, 2, 4, 4)}
    ),
    "no pixels": BILINEAR.but("at least one pixel", {"output_size": (-1, 8)}),
    "a mask of fewer scores": ATTENTION.but(r"scores of \(3, 4, 4\)", {3: i1(3, 3)}),
    "a mask of what is causal": ATTENTION.but("not both", {"is_causal": True}),
    "heads of another size": ATTENTION.but("heads of one size", {0: f32(2, 3, 4, 16)}),
    "fewer logarithms than queries": ATTENTION_BACKWARD.but(
        r"sums of shape \(2, 3, 4\)", {5: f32(2, 3, 3)}
    ),
    "logarithms of another type": ATTENTION_BACKWARD.but("of f32, not of int64", {5: i64(2, 3, 4)}),
    "more values than keys": ATTENTION.but("as many values as keys", {2: f32(2, 3, 5, 8)}),
    "the gradient of a mask": ATTENTION_BACKWARD.but(
        "of query, key and value", {"output_mask": (True, True, True, True)}
    ),
    "attention that drops all": ATTENTION.but("less than 1, not 1", {"dropout_p": 1.0}),
    "a mask for the seed of dropout": ATTENTION.but("a seed of i64", {"dropout_p": 0.5}),
    "dropout without a seed": DROPOUT.but("a seed of i64", {"p": 0.5}),
    "a weight of floats": INT8.but("a matrix of i8", {1: f32(5, 4)}),
    "fewer columns than numbers": INT8.but(r"input of shape \(3, 5\)", {1: i8(5, 5)}),
    "fewer scales than rows": INT8.but("each row of the weight, or one", {2: f32(4, 1)}),
    "groups that do not divide the columns": GROUPS.but("whole groups", {"group_size": 3}),
    "fewer scales than groups": GROUPS.but(r"scales of shape \(5, 2\)", {2: f32(5, 1)}),
    "fewer zero points than groups": GROUPS.but(r"points of shape \(5, 2\)", {3: i8(5, 1)}),
    "an input that is quantized": GROUPS.but("not quantized", {"activation": "int8_asymmetric"}),
    "all dropped": DROPOUT.but("less than 1, not 1", {"p": 1.0}),
}


def test_what_does_not_belong_together_is_refused() -> None:
    wrong = []
    for name, call in CALLS.items():
        operands = [call.changed.get(number, value) for number, value in enumerate(call.operands)]
        attributes = {key: call.changed.get(key, value) for key, value in call.attributes.items()}
        function = partial(find_function(f"cpu_kernels.{call.kernel}"), **attributes)
        message = "nothing"
        try:
            with enable_x64():
                jax.eval_shape(function, *operands)
        except UnsupportedCallError as error:
            message = str(error)
        if not re.search(call.reason, message):
            wrong.append(f"{name}: {message}")
    assert not wrong
