"""Rules of Fourier transforms."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from lowering.frontends.aten_in_jax.table import rule

_SCALES = {0: 0.0, 1: -0.5, 2: -1.0}
"""PyTorch's kinds of norms: the result is multiplied by this power of the number of elements."""


def _scaled(result: Any, sizes: Sequence[int], norm: int) -> Any:
    power = _SCALES[norm]
    return result * math.prod(sizes) ** power if power else result


@rule("aten::_fft_c2c")
def _fft_c2c(dtype: Any, /, x: Any, dims: Sequence[int], norm: int, forward: bool) -> Any:
    if not dims:
        return x
    kind = "backward" if forward else "forward"  # does not scale
    function = jnp.fft.fft if forward else jnp.fft.ifft
    result = x
    for dim in dims:
        result = function(result, axis=dim, norm=kind)
    return _scaled(result, [x.shape[d] for d in dims], norm)


@rule("aten::_fft_r2c")
def _fft_r2c(dtype: Any, /, x: Any, dims: Sequence[int], norm: int, onesided: bool) -> Any:
    if not onesided:
        return _fft_c2c(dtype, x.astype(dtype), dims, norm, True)
    *first_dims, last = dims
    result = jnp.fft.rfft(x, axis=last)
    for dim in first_dims:
        result = jnp.fft.fft(result, axis=dim)
    return _scaled(result, [x.shape[d] for d in dims], norm)


@rule("aten::_fft_c2r")
def _fft_c2r(dtype: Any, /, x: Any, dims: Sequence[int], norm: int, last_size: int) -> Any:
    *first_dims, last = dims
    result = x
    for dim in first_dims:
        result = jnp.fft.ifft(result, axis=dim, norm="forward")
    result = jnp.fft.irfft(result, last_size, axis=last, norm="forward")
    return _scaled(result, [*(x.shape[d] for d in first_dims), last_size], norm)
