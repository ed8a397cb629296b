"""Arguments of public functions for entries that catch a private operator of PyTorch.

A public function, such as `torch.nn.functional.softmax`, fills in all arguments of the private
operator that it calls, which therefore has no defaults. Each function of this module has the
arguments of a public function, of PyTorch or of `jax.nn`, and returns the operator's by name.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from composites.errors import InvalidCallError
from composites.operators.aten_enums import MEAN

_NORMS = ("backward", "ortho", "forward")
"""The norms by their numbers in the operators of forward transforms, which divide by 1, by the
square root of the size, or by the size. For inverse transforms, the order is reversed."""


def softmax(self: Any, dim: int = -1, *, axis: int | None = None) -> dict[str, Any]:
    """`aten::_softmax` and `aten::_log_softmax`; `axis` is the name that `jax.nn` has for `dim`."""
    if axis is not None and dim != -1:
        raise InvalidCallError(f"dim={dim} and axis={axis} name the same argument; write one")
    return {"self": self, "dim": dim if axis is None else axis, "half_to_float": False}


def softmax_backward(
    grad_output: Any, output: Any, dim: int = -1, input_dtype: Any = None
) -> dict[str, Any]:
    """`aten::_softmax_backward_data` and `aten::_log_softmax_backward_data`. The gradient has the
    type of the output by default."""
    dtype = jnp.asarray(output).dtype if input_dtype is None else input_dtype
    return {"grad_output": grad_output, "output": output, "dim": dim, "input_dtype": dtype}


def fft_r2c(
    self: Any,
    dim: int | Sequence[int] | None = None,
    normalization: int | str = "backward",
    *,
    onesided: bool = True,
) -> dict[str, Any]:
    """`aten::_fft_r2c`, as `torch.fft.rfftn`, or `fftn` if it is not `onesided`."""
    norm = _normalization(normalization, inverse=False)
    return {"self": self, "dim": _dims(self, dim), "normalization": norm, "onesided": onesided}


def fft_c2c(
    self: Any,
    dim: int | Sequence[int] | None = None,
    normalization: int | str = "backward",
    *,
    forward: bool = True,
) -> dict[str, Any]:
    """`aten::_fft_c2c`, as `torch.fft.fftn`, or `ifftn` if it is not `forward`."""
    norm = _normalization(normalization, inverse=not forward)
    return {"self": self, "dim": _dims(self, dim), "normalization": norm, "forward": forward}


def fft_c2r(
    self: Any,
    dim: int | Sequence[int] | None = None,
    normalization: int | str = "backward",
    last_dim_size: int | None = None,
) -> dict[str, Any]:
    """`aten::_fft_c2r`, as `torch.fft.irfftn`: the last size of the result is even by default."""
    dims = _dims(self, dim)
    if last_dim_size is None:
        last_dim_size = 2 * (jnp.shape(self)[dims[-1]] - 1) if dims else 0
    return {
        "self": self,
        "dim": dims,
        "normalization": _normalization(normalization, inverse=True),
        "last_dim_size": last_dim_size,
    }


def nll_loss(
    self: Any,
    target: Any,
    weight: Any = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> dict[str, Any]:
    """`aten::nll_loss_forward` and `aten::nll_loss2d_forward`, as `functional.nll_loss`."""
    return {
        "self": self,
        "target": target,
        "weight": weight,
        "reduction": reduction,
        "ignore_index": ignore_index,
    }


FUNCTIONS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "aten::_softmax": softmax,
    "aten::_softmax_backward_data": softmax_backward,
    "aten::_log_softmax": softmax,
    "aten::_log_softmax_backward_data": softmax_backward,
    "aten::_fft_r2c": fft_r2c,
    "aten::_fft_c2c": fft_c2c,
    "aten::_fft_c2r": fft_c2r,
    "aten::nll_loss_forward": nll_loss,
    "aten::nll_loss2d_forward": nll_loss,
}
"""Functions by operator. `aten::_weight_norm` has the arguments of `torch._weight_norm` already."""


def _dims(array: Any, dim: int | Sequence[int] | None) -> list[int]:
    """Dimensions as non-negative numbers; all dimensions for None."""
    rank = jnp.ndim(array)
    if dim is None:
        return list(range(rank))
    listed = [dim] if isinstance(dim, int) else list(dim)
    for number in listed:
        if not -rank <= number < rank:
            raise InvalidCallError(f"dim={dim}: an array of {rank} dimensions has no {number}")
    return [number % rank for number in listed]


def _normalization(norm: int | str, *, inverse: bool) -> int:
    if not isinstance(norm, str):
        return norm
    if norm not in _NORMS:
        raise InvalidCallError(f"normalization={norm!r} is not one of {', '.join(_NORMS)}")
    number = _NORMS.index(norm)
    return len(_NORMS) - 1 - number if inverse else number
