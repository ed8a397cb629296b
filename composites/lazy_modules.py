"""Modules of NumPy and JAX, which are imported when one of their names is first used.

This makes importing `lowering.stablehlo` cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["lax", "np"]


class _Module:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    import numpy as np
    from jax import lax
else:
    lax, np = _Module("jax.lax"), _Module("numpy")
