"""Rules of backward operators that PyTorch does not decompose: JAX derives them from PyTorch's
decompositions of the forward operators."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from composites.registry.operators import overload
from lowering.frontends.aten_in_jax.table import RULES
from lowering.frontends.fx.apart import record

_RESIZING = (
    "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_bicubic2d",
    "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "upsample_trilinear3d",
)  # fmt: skip
_PADDING = (
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
    "replication_pad2d", "replication_pad3d",
)  # fmt: skip


def _pulled(
    forward: Callable[..., Any], operands: list[Any], grad: Any, constants: Sequence[Any] = ()
) -> Any:
    """The gradients of operands, in at least f32. Constants are the last arguments of `forward`."""
    wide = [x.astype(jnp.promote_types(x.dtype, jnp.float32)) for x in operands]
    run = record(forward, [*wide, *constants])
    present = [x for x in constants if x is not None]
    result, pull = jax.vjp(lambda *arrays: run(*arrays, *present)[0], *wide)
    return pull(grad.astype(result.dtype))


def _resized(
    forward: Any, dtype: Any, /, grad: Any, output_size: Any, input_size: Any, *rest: Any
) -> Any:
    blank = jnp.zeros(input_size, dtype)  # the forward is linear
    return _pulled(lambda x: forward(x, output_size, *rest), [blank], grad)[0]


def _padded(forward: Any, dtype: Any, /, grad: Any, x: Any, padding: Any) -> Any:
    return _pulled(lambda x: forward(x, padding), [jnp.zeros(x.shape, dtype)], grad)[0]


def _grid_sampled(
    dtypes: Any, /, grad: Any, x: Any, grid: Any, mode: int, padding: int, corners: bool, mask: Any
) -> Any:
    forward = overload("aten::grid_sampler_2d")
    gradients = _pulled(lambda x, g: forward(x, g, mode, padding, corners), [x, grid], grad)
    return [grad if asked else None for grad, asked in zip(gradients, mask, strict=True)]


def _multi_margin(
    dtype: Any, /, grad: Any, x: Any, target: Any, p: Any, margin: Any, weight: Any = None,
    reduction: int = 1,
) -> Any:  # fmt: skip
    def forward(x: Any, target: Any, weight: Any) -> Any:
        return overload("aten::multi_margin_loss")(x, target, p, margin, weight, reduction)

    return _pulled(forward, [x], grad, [target, weight])[0]


def _multilabel_margin(
    dtype: Any, /, grad: Any, x: Any, target: Any, reduction: int, is_target: Any
) -> Any:
    forward = overload("aten::multilabel_margin_loss_forward")
    return _pulled(lambda x, target: forward(x, target, reduction), [x], grad, [target])[0]


for _names, _rule in ((_RESIZING, _resized), (_PADDING, _padded)):
    for _name in _names:
        RULES.setdefault(
            overload(f"aten::{_name}_backward"), partial(_rule, overload(f"aten::{_name}"))
        )
RULES.setdefault(overload("aten::grid_sampler_2d_backward"), _grid_sampled)
RULES.setdefault(overload("aten::multi_margin_loss_backward"), _multi_margin)
RULES.setdefault(overload("aten::multilabel_margin_loss_backward"), _multilabel_margin)
