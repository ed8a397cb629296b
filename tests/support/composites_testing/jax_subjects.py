"""Entries, and a decorated function, each in a form of one argument."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import composites.jax

WEIGHT = jnp.asarray(np.linspace(0.5, 1.5, 6), jnp.float32)
BIAS = jnp.asarray(np.linspace(-1, 1, 6), jnp.float32)


@dataclass(frozen=True, slots=True)
class Subject:
    """A call of one composite, and the same in JAX's own functions."""

    name: str
    run: Callable[[Any], Any]
    plain: Callable[[Any], Any]

    @property
    def backward(self) -> str:
        return f"{self.name}_backward"


def _layer_norm(x: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * WEIGHT + BIAS


def _swish(x: Any) -> Any:
    return x * jax.nn.sigmoid(2 * x)


SUBJECTS = (
    Subject(
        "ptxla.gelu",
        lambda x: composites.jax.gelu(x, approximate="tanh"),
        lambda x: jax.nn.gelu(x, approximate=True),
    ),
    Subject(
        "ptxla.softmax", lambda x: composites.jax.softmax(x, -1), lambda x: jax.nn.softmax(x, -1)
    ),
    Subject(
        "ptxla.layer_norm",
        lambda x: composites.jax.layer_norm(x, [6], WEIGHT, BIAS, 1e-5)[0],
        _layer_norm,
    ),
    Subject("acme.swish", composites.jax.composite("acme.swish")(_swish), _swish),
)
