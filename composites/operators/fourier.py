"""Discrete Fourier transforms. HLO has an instruction for them, but torch_xla uses the CPU.

torch.fft calls one of three operators: real to complex, complex to complex, and complex to real.
Their gradients consist of the same operators. The decompositions are in JAX, because torch_xla
lowers no operator to this instruction. They import jax when they run, so that all other entries
work without jax.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jax import Array

# Divisors of a transform by PyTorch's `normalization`: none, the square root of the size, or the
# size.
_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")

_MOST_AXES = 3
"""The greatest number of dimensions of one instruction."""


def fft_r2c(self: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    """`aten::_fft_r2c`. With `onesided`, the last dimension of `dim` has only the non-redundant
    half."""
    import jax.numpy as jnp

    norm = _FORWARD[normalization]
    if not onesided:
        complex_type = jnp.complex128 if self.dtype == jnp.float64 else jnp.complex64
        return _c2c(self.astype(complex_type), dim, norm, forward=True)
    last = tuple(dim[-_MOST_AXES:])
    half = jnp.fft.rfftn(self, axes=last, norm=norm)
    return _c2c(half, dim[: -len(last)], norm, forward=True)


def fft_c2c(self: Array, dim: Sequence[int], normalization: int, forward: bool) -> Array:
    """`aten::_fft_c2c`."""
    norm = (_FORWARD if forward else _INVERSE)[normalization]
    return _c2c(self, dim, norm, forward=forward)


def fft_c2r(self: Array, dim: Sequence[int], normalization: int, last_dim_size: int) -> Array:
    """`aten::_fft_c2r`, the inverse of `fft_r2c`. `last_dim_size` is the size of the last dimension
    of `dim` in the result."""
    import jax.numpy as jnp

    norm = _INVERSE[normalization]
    last = tuple(dim[-_MOST_AXES:])
    whole = _c2c(self, dim[: -len(last)], norm, forward=False)
    sizes = [*(self.shape[axis] for axis in last[:-1]), last_dim_size]
    return jnp.fft.irfftn(whole, s=sizes, axes=last, norm=norm)


def _c2c(x: Array, dim: Sequence[int], norm: str, *, forward: bool) -> Array:
    import jax.numpy as jnp

    transform = jnp.fft.fftn if forward else jnp.fft.ifftn
    for start in range(0, len(dim), _MOST_AXES):
        x = transform(x, axes=tuple(dim[start : start + _MOST_AXES]), norm=norm)
    return x
