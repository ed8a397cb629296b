"""Random numbers of programs: a functional generator whose state is an input of the program.

Every random operator advances the state as torch_xla does, and draws from the new state, so that a
program is used in the same way whichever frontend has recorded it.

The numbers are those of torch_xla 2.9, so that a kernel takes a call of `ptxla.dropout` whichever
frontend has recorded it. Uniform numbers, integers and dropout have torch_xla's bits; normal and
exponential numbers are equal except for roundings. XLA's DEFAULT generator differs between
platforms, and from the generators of PyTorch's own devices.
"""

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from composites import torch_internals
from composites.contexts import with_last
from composites.registry.operators import overload
from lowering.frontends.aten_in_jax.table import RULES, NoRuleError
from lowering.frontends.errors import ControlFlowError, NoKernelError
from lowering.frontends.fx import DEVICE_TYPE, capture
from lowering.frontends.fx.capture import TracedTensor
from lowering.frontends.protocols import Kernel, Seed
from lowering.frontends.random_states import following


@dataclass(slots=True, eq=False)
class _State:
    """The state of the generator while a graph is recorded."""

    tensor: TracedTensor
    draws: int = 0
    thread: int = field(default_factory=threading.get_ident)
    """The thread that records."""


_STATES: list[_State] = []
"""States, of which the last is current. All threads share them, as they share the graph."""


def drawing_from(tensor: TracedTensor) -> AbstractContextManager[_State]:
    """A context in which random operators draw from a state, a 0-d int64 tensor."""
    return with_last(_STATES, _State(tensor))


def states_offered() -> AbstractContextManager[None]:
    """A context in which checkpointed parts of a program draw the same numbers when they are
    computed again."""
    return torch_internals.random_states_offered(DEVICE_TYPE, _read_state, _write_state)


def _read_state() -> tuple[_State, _State] | None:
    """The current state, and a copy to which the program may return."""
    state = _own_state()
    return None if state is None else (state, replace(state))


def _write_state(read: tuple[_State, _State] | None) -> None:
    if read is not None and read[0] is _own_state():
        state, before = read
        state.tensor, state.draws = before.tensor, before.draws


def _own_state() -> _State | None:
    """The current state, if this thread, or autograd on its behalf, records."""
    if not _STATES:
        return None
    records = _STATES[-1].thread == threading.get_ident()
    return _STATES[-1] if records or torch_internals.running_node() is not None else None


class FxRandomNumbers:
    """See `lowering.frontends.protocols.RandomNumbers`."""

    def seed(self) -> Seed:
        state = _current_state()
        return Seed(torch_internals.functional(state.tensor), state.draws)

    def advance(self, draws: int) -> None:
        for _ in range(draws):
            _next()

    def random_state(self, seed: Seed | None) -> AbstractContextManager[object]:
        return nullcontext() if seed is None else drawing_from(capture.traced(seed.state))


def _current_state() -> _State:
    """The current state.

    Raises:
        ControlFlowError: the state belongs to an enclosing region, where it would not advance.
        NoRuleError: the function is recorded outside of programs.
    """
    if capture.current_apart() is not None:
        raise NoRuleError(
            "the function draws random numbers from PyTorch's generator, which JAX programs do not"
            " have"
        )
    state, region = _STATES[-1], capture.current_region()
    if state.tensor.node.graph is not region.graph:
        raise ControlFlowError(
            f"a function that {region.operator} takes draws random numbers; draw them before, and"
            f" pass them to {region.operator} as a tensor"
        )
    return state


def _next() -> TracedTensor:
    """The state after one more random operator."""
    state = _current_state()
    blank = torch.empty((), dtype=torch.int64, device="meta")
    state.tensor = capture.node(advanced, (state.tensor,), {}, blank)
    state.draws += 1
    return state.tensor


def advanced(dtype: Any, /, state: Any) -> Any:
    """The next state, an i64, as a rule of JAX."""
    return following(state)


_WIDTHS: dict[Any, Any] = {
    jnp.dtype("float64"): jnp.uint64,
    jnp.dtype("float32"): jnp.uint32,
    jnp.dtype("bfloat16"): jnp.uint8,
}
"""The type of the random bits of a number, by the number's type."""


def unit(dtype: Any, /, state: Any, shape: Sequence[int]) -> Any:
    """Numbers from 0 up to, but not including, 1, with as many random digits as the type has.

    bf16 has 7 digits, so that the numbers are multiples of 1/128. f16 has the numbers of bf16.
    """
    drawn = jnp.dtype("bfloat16") if dtype == jnp.float16 else jnp.dtype(dtype)
    width, digits = _WIDTHS[drawn], jnp.finfo(drawn).nmant
    bits = _bits(state, shape, width) >> width(jnp.iinfo(width).bits - digits)
    return (bits.astype(drawn) * jnp.asarray(2.0**-digits, drawn)).astype(dtype)


def uniform(dtype: Any, /, state: Any, shape: Sequence[int], low: float, high: float) -> Any:
    """Numbers from `low` up to, but not including, `high`. For narrower types, numbers of f32 are
    rounded, so that `high` itself is possible, as with torch_xla."""
    wide = jnp.promote_types(dtype, jnp.float32)
    numbers = unit(wide, state, shape)
    if (low, high) == (0, 1):
        return numbers.astype(dtype)
    first, last = (jnp.asarray(bound, dtype).astype(wide) for bound in (low, high))
    return (numbers * (last - first) + first).astype(dtype)


def normal(dtype: Any, /, state: Any, shape: Sequence[int]) -> Any:
    """Numbers of the standard normal distribution, in pairs along one dimension: the first with an
    even size, otherwise the largest.

    Box and Muller, "A Note on the Generation of Random Normal Deviates" (1958).
    """
    wide = jnp.promote_types(dtype, jnp.float32)
    sizes = list(shape) or [1]
    even = [axis for axis, size in enumerate(sizes) if size % 2 == 0]
    axis = even[0] if even else sizes.index(max(sizes))
    pairs = -(-sizes[axis] // 2)
    drawn = unit(wide, state, (*sizes[:axis], pairs, 2, *sizes[axis + 1 :]))
    first, second = jnp.moveaxis(drawn, axis + 1, 0)
    least = jnp.float32(1e-7).astype(wide)
    radius = jnp.sqrt(-2 * jnp.log(jnp.maximum(first, least)))
    angle = jnp.asarray(2 * math.pi, wide) * second
    both = jnp.stack([jnp.sin(angle) * radius, jnp.cos(angle) * radius], axis + 1)
    numbers = both.reshape(*sizes[:axis], 2 * pairs, *sizes[axis + 1 :])
    return jax.lax.slice_in_dim(numbers, 0, sizes[axis], axis=axis).reshape(shape).astype(dtype)


def integers(dtype: Any, /, state: Any, shape: Sequence[int], low: int, high: int) -> Any:
    """Integers from `low` up to, but not including, `high`."""
    bits = _bits(state, shape, jnp.uint64)
    return (bits % jnp.uint64(high - low)).astype(jnp.int64).astype(dtype) + jnp.asarray(low, dtype)


def permutation(dtype: Any, /, state: Any, length: int) -> Any:
    """The numbers from 0 in a random order."""
    _, order = jax.lax.sort(
        (_bits(state, (length,), jnp.uint64), jnp.arange(length, dtype=dtype)), num_keys=1
    )
    return order


def _bits(state: Any, shape: Sequence[int], dtype: Any) -> Any:
    key = jnp.stack([state.astype(jnp.uint64), jnp.uint64(0)])
    _, bits = jax.lax.rng_bit_generator(
        key, tuple(shape), dtype, algorithm=jax.lax.RandomAlgorithm.RNG_DEFAULT
    )
    return bits


_RULES: tuple[Kernel, ...] = (advanced, unit, uniform, normal, integers, permutation)
RULES.update({rule: rule for rule in _RULES})


def _drawn(
    rule: Callable[..., Any], shape: Sequence[int], dtype: torch.dtype, *arguments: Any
) -> Any:
    if dtype.is_complex:
        raise NoKernelError("random numbers of complex types have no rule in JAX")
    blank = torch.empty(tuple(shape), dtype=dtype, device="meta")
    operands = (_next(), tuple(shape), *arguments)
    return capture.node(rule, operands, {}, blank)


def _sized(rule: Kernel, *arguments: float) -> Kernel:
    """An operator whose argument is the size of its result."""

    def draw(size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> Any:
        return _drawn(rule, size, dtype or torch.get_default_dtype(), *arguments)

    return draw


def _like(rule: Kernel, *arguments: float) -> Kernel:
    """An operator that draws as many numbers as a tensor has."""

    def draw(self: Any, *bounds: int, dtype: torch.dtype | None = None, **_: Any) -> Any:
        return _drawn(rule, self.shape, dtype or self.dtype, *arguments, *bounds)

    return draw


def _uniform(self: Any, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    return _drawn(uniform, self.shape, self.dtype, low, high)


def _randint(
    low: int, high: int, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any
) -> Any:
    return _drawn(integers, size, dtype or torch.int64, low, high)


def _randperm(n: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    blank = torch.empty(n, dtype=dtype or torch.int64, device="meta")
    return capture.node(permutation, (_next(), n), {}, blank)


def _from_probability(self: Any, p: float = 0.5, *, generator: Any = None) -> Any:
    dtype = self.dtype if self.dtype.is_floating_point else torch.float32
    return (_drawn(unit, self.shape, dtype) < p).to(self.dtype)


def _dropped(self: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """See aten::native_dropout."""
    if train is False:
        return self, torch.ones_like(self, dtype=torch.bool)
    kept = _drawn(unit, self.shape, self.dtype) < 1 - p
    wide = torch.promote_types(self.dtype, torch.float32)
    factors = (kept.to(wide) / (1 - p if p < 1 else 1)).to(self.dtype)
    return self * factors, kept


def _rrelu(
    self: Any, noise: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """See aten::rrelu_with_noise_functional."""
    if not training:
        return torch.where(self <= 0, self * ((lower + upper) / 2), self), noise
    slopes = torch.where(self <= 0, _uniform(self, lower, upper), 1)
    return self * slopes, slopes


def _normal(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    return _drawn(normal, self.shape, self.dtype) * std + mean


def _normal_around(mean: Any, std: Any = 1.0, *, generator: Any = None) -> Any:
    around = mean + torch.zeros_like(std) if isinstance(std, torch.Tensor) else mean
    like = mean if isinstance(mean, torch.Tensor) else std
    return (_drawn(normal, around.shape, like.dtype) * std + mean).to(like.dtype)


def _exponential(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
    drawn = _drawn(uniform, self.shape, self.dtype, *_INSIDE)
    return -(torch.log1p(-drawn) * (1 / lambd))


def _multinomial(
    self: Any, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """See aten::multinomial."""
    weights = self.to(torch.promote_types(self.dtype, torch.float32))
    if replacement and num_samples > 1:
        sums = weights.cumsum(-1)
        drawn = _drawn(uniform, (*self.shape[:-1], num_samples), weights.dtype, 0, 1)
        indices = torch.searchsorted(sums, drawn * sums[..., -1:], right=True)
        return indices.clamp(max=self.shape[-1] - 1)
    # Draw the time of an event for each rate, and take the earliest.
    times = -torch.log1p(-_drawn(unit, self.shape, weights.dtype).clamp(min=2.0**-24))
    return (weights / times).topk(num_samples).indices


_INSIDE = float(np.float32(1e-5)), float(np.float32(1 - 1e-5))
"""The interval in which torch_xla draws the numbers whose logarithms it takes."""

_OPERATORS: dict[str, Kernel] = {
    "rand": _sized(uniform, 0, 1), "rand_like": _like(uniform, 0, 1), "uniform": _uniform,
    "randn": _sized(normal), "randn_like": _like(normal), "randint.low": _randint,
    "randint": partial(_randint, 0), "randint_like.low_dtype": _like(integers),
    "randint_like": _like(integers, 0), "randperm": _randperm,
    "bernoulli": lambda self, **_: _from_probability(self, self),
    "bernoulli.p": _from_probability, "bernoulli.Tensor": _from_probability,
    "native_dropout": _dropped, "normal_functional": _normal,
    "normal.Tensor_float": _normal_around, "normal.float_Tensor": _normal_around,
    "normal.Tensor_Tensor": _normal_around, "exponential": _exponential,
    "rrelu_with_noise_functional": _rrelu, "multinomial": _multinomial,
}  # fmt: skip
capture.FUNCTIONS.update({overload(f"aten::{name}"): f for name, f in _OPERATORS.items()})
