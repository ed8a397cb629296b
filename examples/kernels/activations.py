"""Compile the kernels of activations.cc and register them with XLA.

kernels = load()
module = to_custom_call(module, kernels.targets)   # custom calls in place of the composites
module = bind(module, kernels.functions)           # or: the kernels as their decompositions
"""

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax

SOURCE = Path(__file__).with_suffix(".cc")
NAMES = ("gelu", "gelu_backward", "softmax", "softmax_backward")


@dataclass(frozen=True)
class Kernels:
    """The compiled kernels, by the names of the composites that they compute."""

    library: ctypes.CDLL
    targets: dict[str, str]
    """For `to_custom_call`: by composite, the name under which the kernel is registered with
    XLA."""
    functions: dict[str, Callable[..., Any]]
    """For `bind`: by composite, a JAX function that calls the kernel."""

    def calls(self) -> dict[str, int]:
        """The number of runs of each kernel since it was loaded, by composite."""
        count = self.library.composites_calls
        count.restype = ctypes.c_int64
        return {f"ptxla.{name}": count(name.encode()) for name in NAMES}


@cache
def load() -> Kernels:
    """Compile activations.cc with g++ and register its kernels for the CPU."""
    folder = tempfile.TemporaryDirectory(prefix="kernels-")
    path = Path(folder.name) / "activations.so"
    # With -ffast-math, glibc offers vector forms of exp, erf and tanh.
    options = ("-O3", "-march=native", "-ffast-math", "-std=c++17", "-shared", "-fPIC")
    headers = ("-isystem", jax.ffi.include_dir())
    subprocess.run(["g++", *options, *headers, "-o", str(path), str(SOURCE), "-lm"], check=True)
    library = ctypes.CDLL(str(path))
    folder.cleanup()  # the library stays in memory
    for name in NAMES:
        handler = jax.ffi.pycapsule(getattr(library, name))
        jax.ffi.register_ffi_target(f"example_{name}", handler, platform="cpu")
    return Kernels(
        library,
        {f"ptxla.{name}": f"example_{name}" for name in NAMES},
        {f"ptxla.{name}": partial(_call, f"example_{name}") for name in NAMES},
    )


def _call(target: str, *operands: jax.Array, **attributes: Any) -> jax.Array:
    """Call a kernel. The result has the shape and dtype of the first operand."""
    result = jax.ShapeDtypeStruct(operands[0].shape, operands[0].dtype)
    return jax.ffi.ffi_call(target, result)(*operands, **attributes)
