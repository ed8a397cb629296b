"""Pallas kernels of the Triton backend: called, interpreted, and lowered without a GPU.

All blocks that a kernel loads have a power of two of elements, as Triton needs it. Where an array
ends within a block, the kernel masks: Triton checks no bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

_interpreted: ContextVar[bool] = ContextVar("gpu_kernels_interpreted", default=False)


@contextmanager
def interpreted() -> Iterator[None]:
    """Within the block, Pallas kernels become code that runs on any device, to check numbers."""
    token = _interpreted.set(True)
    try:
        yield
    finally:
        _interpreted.reset(token)


def without_device(kind: str = "NVIDIA H100") -> AbstractContextManager[Any]:
    """Within the block, Pallas kernels are lowered for a GPU that this machine need not have.

    Releases of jax before 0.12 need no such block and ignore `kind`.

    Args:
        kind: the GPU's name, as jax has it.
    """
    try:
        from jax.sharding import AbstractDevice
    except ImportError:
        return nullcontext()
    # By name: the parameters have grown from release to release.
    facts = {"device_kind": kind, "num_cores": None, "platform": "gpu"}
    names = AbstractDevice.__init__.__annotations__
    device = AbstractDevice(**{name: value for name, value in facts.items() if name in names})
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    context: AbstractContextManager[Any] = jax.sharding.use_abstract_mesh(mesh)
    return context


def call(
    kernel: Callable[..., None],
    results: Sequence[jax.ShapeDtypeStruct],
    operands: Sequence[Array],
    *,
    grid: tuple[int, ...],
    read: Sequence[pl.BlockSpec],
    written: Sequence[pl.BlockSpec],
    warps: int = 4,
    aliases: Mapping[int, int] | None = None,
) -> list[Array]:
    """Run a kernel on a grid.

    Args:
        kernel: takes references to the blocks of operands, then to those of results.
        grid: the number of programs in each direction; the first one may be large.
        read, written: the blocks of each operand and result.
        warps: of 32 threads, for each program.
        aliases: by operand, the result that may take its memory.
    """
    function = pl.pallas_call(
        kernel,
        list(results),
        grid=grid,
        in_specs=list(read),
        out_specs=list(written),
        input_output_aliases=dict(aliases or {}),
        interpret=_interpreted.get(),
        compiler_params=triton.CompilerParams(num_warps=warps),
    )
    return list(function(*operands))


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << (size - 1).bit_length()


def warps_for(elements: int) -> int:
    """Warps of a program that holds so many elements at a time: one for 512, from 4 to 16."""
    return min(16, max(4, elements // 512))


def index(size: int, start: Any = 0) -> Array:
    """`[size]`, i32: start, start + 1, … Also where 64-bit types are enabled."""
    return jax.lax.iota(jnp.int32, size) + start


def first() -> Array:
    """The number of this program in the first direction of the grid."""
    return pl.program_id(0)


def second() -> Array:
    """The number of this program in the second direction of the grid."""
    return pl.program_id(1)
