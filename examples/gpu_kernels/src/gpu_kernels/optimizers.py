"""One step of AdamW: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019)."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from composites import UnsupportedCallError
from gpu_kernels.pallas import call, first, index
from gpu_kernels.types import check_floats, same

_BLOCK = 1024
_TYPES = (jnp.dtype(jnp.float32), jnp.dtype(jnp.bfloat16))


def adamw(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    *scalars: Array,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> list[Array]:
    """`ptxla.adamw`, in f32. The results may take the memory of the operands.

    Args:
        param, grad, exp_avg, exp_avg_sq: of one shape and type, f32 or bf16.
        scalars: `[]`: the step size, the root of the second bias correction, and the decay.
        weight_decay: what is added to the gradient; 0 where the decay is decoupled.

    Returns:
        New param, exp_avg and exp_avg_sq.

    Raises:
        UnsupportedCallError: for AMSGrad, and operands of several types.
    """
    if len(scalars) != 3:
        raise UnsupportedCallError("takes no maximum of exp_avg_sq (AMSGrad)")
    tensors = (param, grad, exp_avg, exp_avg_sq)
    check_floats(*tensors, types=_TYPES)
    check_floats(*scalars, types=(jnp.dtype(jnp.float32),))
    kernel = partial(
        _update,
        count=param.size,
        beta1=_written(beta1),
        beta2=_written(beta2),
        eps=_written(eps),
        weight_decay=_written(weight_decay),
        maximize=maximize,
    )
    block = pl.BlockSpec((_BLOCK,), lambda i: (i,))
    one = pl.BlockSpec((1,), lambda i: (0,))
    flat = [tensor.reshape(-1) for tensor in tensors]
    results = call(
        kernel,
        [same(flat[0])] * 3,
        [*flat, *(scalar.reshape(1) for scalar in scalars)],
        grid=(pl.cdiv(param.size, _BLOCK),),
        read=[block] * 4 + [one] * 3,
        written=[block] * 3,
        aliases={0: 0, 2: 1, 3: 2},
    )
    return [each.reshape(param.shape) for each in results]


def _update(
    *refs: Any,
    count: int,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    tensors, scalars, results = refs[:4], refs[4:7], refs[7:]
    kept = index(_BLOCK, first() * _BLOCK) < count
    param, grad, exp_avg, exp_avg_sq = (
        triton.load(ref.at[:], mask=kept, other=0.0).astype(jnp.float32) for ref in tensors
    )
    step_size, correction, decay = (ref[0] for ref in scalars)
    if maximize:
        grad = -grad
    param = param * decay
    if weight_decay != 0:
        grad = grad + weight_decay * param
    exp_avg = exp_avg + (1 - beta1) * (grad - exp_avg)
    exp_avg_sq = exp_avg_sq * beta2 + (1 - beta2) * grad * grad
    param = param - step_size * (exp_avg / (jnp.sqrt(exp_avg_sq) / correction + eps))
    for ref, value in zip(results, (param, exp_avg, exp_avg_sq), strict=True):
        triton.store(ref.at[:], value.astype(ref.dtype), mask=kept)


def _written(value: float) -> float:
    """A number as the program has it. The attribute is f32, which is it in its shortest form:
    of 0.999 in f32, `1 - beta2` would be wrong in the fifth digit."""
    return float(str(np.float32(value)))
