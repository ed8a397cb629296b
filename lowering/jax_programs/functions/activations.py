"""Activation functions and softmax of `jax.nn`."""

from collections.abc import Callable
from typing import Any

from composites.errors import UnsupportedCallError
from lowering.jax_programs.functions.arguments import floats, number

Composite = Callable[..., Any]

# Klambauer et al., "Self-Normalizing Neural Networks" (2017).
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def gelu(composite: Composite, x: Any, approximate: bool = True) -> Any:
    """`jax.nn.gelu`, which approximates by default."""
    return composite(floats(x), approximate="tanh" if approximate else "none")


def elementwise(composite: Composite, x: Any) -> Any:
    """A function of one array without further arguments: `silu`."""
    return composite(floats(x))


def elementwise_forward(composite: Composite, x: Any) -> Any:
    """An activation whose gradient is not the entry's backward.

    The derivative of `hard_sigmoid` and `hard_silu` differs from PyTorch's where they have a
    corner. The derivative of `mish` differs in last bits in a loop, in which a backward computes
    the forward again.
    """
    return composite(floats(x), has_backward=False)


def elu(composite: Composite, x: Any, alpha: Any = 1.0) -> Any:
    """`jax.nn.elu`."""
    return composite(floats(x), alpha=number(alpha, "alpha"))


def selu(composite: Composite, x: Any) -> Any:
    """`jax.nn.selu`, with the constants of JAX, which equal PyTorch's."""
    return composite(floats(x), alpha=_SELU_ALPHA, scale=_SELU_SCALE)


def celu(composite: Composite, x: Any, alpha: Any = 1.0) -> Any:
    """`jax.nn.celu`."""
    alpha = number(alpha, "alpha")
    if alpha == 0:
        raise UnsupportedCallError("alpha is 0")
    return composite(floats(x), alpha=alpha, input_scale=1 / alpha)


def leaky_relu(composite: Composite, x: Any, negative_slope: Any = 1e-2) -> Any:
    """`jax.nn.leaky_relu`. The derivative at 0 is 1; PyTorch's is the slope."""
    slope = number(negative_slope, "negative_slope")
    return composite(floats(x), negative_slope=slope, has_backward=False)


def relu6(composite: Composite, x: Any) -> Any:
    """`jax.nn.relu6`."""
    return composite(floats(x), min_val=0.0, max_val=6.0, has_backward=False)


def hard_tanh(composite: Composite, x: Any) -> Any:
    """`jax.nn.hard_tanh`. The derivative at -1 and 1 is 1; PyTorch's is 0."""
    return composite(floats(x), min_val=-1.0, max_val=1.0, has_backward=False)


def softplus(composite: Composite, x: Any) -> Any:
    """`jax.nn.softplus`. PyTorch's is linear above a threshold, which differs in f64."""
    if floats(x).dtype.itemsize > 4:
        raise UnsupportedCallError("PyTorch's softplus differs in f64")
    return composite(x)


def glu(composite: Composite, x: Any, axis: int = -1) -> Any:
    """`jax.nn.glu`."""
    return composite(floats(x), dim=_one_axis(x, axis))


def softmax(composite: Composite, x: Any, axis: Any = -1, where: Any = None) -> Any:
    """`jax.nn.softmax` and `jax.nn.log_softmax` over one axis."""
    if where is not None:
        raise UnsupportedCallError("`where` is given")
    return composite(floats(x), dim=_one_axis(x, axis), half_to_float=False)


def _one_axis(x: Any, axis: Any) -> int:
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise UnsupportedCallError("axis is not one integer")
    if not -x.ndim <= axis < x.ndim:
        raise UnsupportedCallError("axis is out of range")
    return axis
