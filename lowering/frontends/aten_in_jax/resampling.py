"""Rules of upsampling with antialiasing: a product with a matrix along each dimension."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from lowering.frontends.aten_in_jax.dtypes import opmath_dtype
from lowering.frontends.aten_in_jax.table import NoRuleError, rule


def _cubic(x: Any) -> Any:
    """The cubic kernel of PIL, with a = -0.5."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _weights(
    kernel: Callable[[Any], Any], size: int, result: int, corners: bool, scale: Any
) -> Any:
    """The weight of each element of a dimension, for each element of the result. PyTorch ignores
    the scale of a dimension that keeps its size."""
    if size == result:
        return np.eye(size)
    if corners:
        step = (size - 1) / (result - 1) if result > 1 else 0.0
    else:
        step = 1 / scale if scale else size / result
    distances = np.arange(size) + 0.5 - step * (np.arange(result)[:, None] + 0.5)
    weights = kernel(np.abs(distances) / max(step, 1.0))
    return weights / weights.sum(1, keepdims=True)


def _rule(kernel: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(
        dtype: Any, /, x: Any, size: Any, corners: bool, height: Any = None, width: Any = None
    ) -> Any:
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise NoRuleError("upsampling of integers with antialiasing has no rule in JAX")
        wide = opmath_dtype(x.dtype)
        rows = _weights(kernel, x.shape[-2], size[0], corners, height)
        columns = _weights(kernel, x.shape[-1], size[1], corners, width)
        along_rows = jnp.asarray(rows, wide) @ x.astype(wide)
        return along_rows @ jnp.asarray(columns.T, wide)

    return run


rule("aten::_upsample_bilinear2d_aa")(_rule(lambda x: np.maximum(1 - x, 0)))
rule("aten::_upsample_bicubic2d_aa")(_rule(_cubic))
