"""Random numbers of programs: a functional generator whose state is an input of the program.

Every random operator advances the state as torch_xla does, and draws from the new state, so that a
program is used in the same way whichever frontend has recorded it. The numbers differ from those of
torch_xla, and from those of PyTorch's own devices.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import torch

from composites import torch_internals
from lowering.frontends.aten_in_jax.table import RULES, overload
from lowering.frontends.fx import capture
from lowering.frontends.fx.capture import TracedTensor
from lowering.frontends.fx.device import DEVICE_TYPE
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
"""The last one is current. All threads share it, as they share the graph."""


@contextmanager
def drawing_from(tensor: TracedTensor) -> Iterator[_State]:
    """A context in which random operators draw from a state, a 0-d int64 tensor."""
    state = _State(tensor)
    _STATES.append(state)
    try:
        yield state
    finally:
        _STATES.pop()


@dataclass(frozen=True, slots=True)
class _Kept:
    """A state that the program comes back to."""

    of: _State
    tensor: TracedTensor
    draws: int


def offer_states() -> None:
    """Have checkpointed parts of a program draw the same numbers when they are computed again."""
    torch_internals.offer_random_states(DEVICE_TYPE, _read_state, _write_state)


def _read_state() -> _Kept | None:
    state = _own_state()
    return None if state is None else _Kept(state, state.tensor, state.draws)


def _write_state(kept: _Kept | None) -> None:
    if kept is not None and kept.of is _own_state():
        kept.of.tensor, kept.of.draws = kept.tensor, kept.draws


def _own_state() -> _State | None:
    """The current state, if this thread records, or autograd for it."""
    if not _STATES:
        return None
    records = _STATES[-1].thread == threading.get_ident()
    return _STATES[-1] if records or torch_internals.running_node() is not None else None


class FxRandomNumbers:
    """See `lowering.frontends.protocols.RandomNumbers`."""

    def seed(self) -> Seed:
        state = _STATES[-1]
        return Seed(capture.functional(state.tensor), state.draws)

    def advance(self, draws: int) -> None:
        for _ in range(draws):
            _next()

    @contextmanager
    def random_state(self, seed: Seed | None) -> Iterator[None]:
        if seed is None:
            yield
            return
        with drawing_from(capture.traced(seed.state)):
            yield


def _next() -> TracedTensor:
    """The state after one more random operator."""
    state = _STATES[-1]
    blank = torch.empty((), dtype=torch.int64, device="meta")
    state.tensor = capture.node(advanced, (state.tensor,), {}, blank)
    state.draws += 1
    return state.tensor


def advanced(dtype: Any, /, state: Any) -> Any:
    """The state that follows, an i64, as a rule of JAX."""
    return following(state)


def uniform(dtype: Any, /, state: Any, shape: Sequence[int], low: float, high: float) -> Any:
    """Numbers from `low` up to, but not including, `high`."""
    numbers = _unit(state, shape, dtype)
    if (low, high) == (0, 1):
        return numbers
    scaled = numbers * jnp.asarray(high - low, numbers.dtype) + jnp.asarray(low, numbers.dtype)
    return scaled.astype(dtype)


def normal(dtype: Any, /, state: Any, shape: Sequence[int]) -> Any:
    """Numbers of the standard normal distribution."""
    wide = jnp.promote_types(dtype, jnp.float32)
    numbers = _unit(state, shape, wide)
    smallest = jnp.finfo(wide).tiny
    spread = jnp.maximum(numbers * 2 - 1, jnp.asarray(smallest - 1, wide))
    return (jax.lax.erf_inv(spread) * jnp.asarray(2**0.5, wide)).astype(dtype)


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
        key, tuple(shape), dtype, algorithm=jax.lax.RandomAlgorithm.RNG_THREE_FRY
    )
    return bits


def _unit(state: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Numbers from 0 up to, but not including, 1: multiples of the distance between the numbers
    below 1."""
    info = jnp.finfo(dtype)
    wide = jnp.float64 if dtype == jnp.float64 else jnp.float32
    width = jnp.uint64 if dtype == jnp.float64 else jnp.uint32
    digits = info.nmant + 1
    bits = _bits(state, shape, width) >> width(jnp.iinfo(width).bits - digits)
    return (bits.astype(wide) * wide(2.0**-digits)).astype(dtype)


_RULES: tuple[Kernel, ...] = (advanced, uniform, normal, integers, permutation)
RULES.update({rule: rule for rule in _RULES})


def _drawn(
    rule: Callable[..., Any], shape: Sequence[int], dtype: torch.dtype, *arguments: Any
) -> Any:
    blank = torch.empty(tuple(shape), dtype=dtype, device="meta")
    given = (_next(), tuple(shape), *arguments)
    return capture.node(rule, given, {}, blank)


def _rand(size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return _drawn(uniform, size, dtype or torch.get_default_dtype(), 0, 1)


def _rand_like(self: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return _drawn(uniform, self.shape, dtype or self.dtype, 0, 1)


def _uniform(self: Any, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    return _drawn(uniform, self.shape, self.dtype, low, high)


def _randn(size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return _drawn(normal, size, dtype or torch.get_default_dtype())


def _randn_like(self: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return _drawn(normal, self.shape, dtype or self.dtype)


def _randint(
    low: int, high: int, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any
) -> Any:
    return _drawn(integers, size, dtype or torch.int64, low, high)


def _randint_below(
    high: int, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any
) -> Any:
    return _randint(0, high, size, dtype=dtype)


def _randint_like(self: Any, low: int, high: int, *, dtype: Any = None, **_: Any) -> Any:
    return _drawn(integers, self.shape, dtype or self.dtype, low, high)


def _randint_like_below(self: Any, high: int, *, dtype: Any = None, **_: Any) -> Any:
    return _drawn(integers, self.shape, dtype or self.dtype, 0, high)


def _randperm(n: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    blank = torch.empty(n, dtype=dtype or torch.int64, device="meta")
    return capture.node(permutation, (_next(), n), {}, blank)


def _from_bernoulli(self: Any, *, generator: Any = None) -> Any:
    drawn = _drawn(uniform, self.shape, torch.float32, 0, 1)
    return (drawn < self).to(self.dtype)


def _from_probability(self: Any, p: float = 0.5, *, generator: Any = None) -> Any:
    drawn = _drawn(uniform, self.shape, torch.float32, 0, 1)
    return (drawn < p).to(self.dtype)


def _dropped(self: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """See aten::native_dropout."""
    if train is False:
        return self, torch.ones_like(self, dtype=torch.bool)
    kept = _drawn(uniform, self.shape, torch.float32, 0, 1) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return self * kept * scale, kept


def _normal(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    return _drawn(normal, self.shape, self.dtype) * std + mean


def _exponential(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
    return -torch.log1p(-_drawn(uniform, self.shape, self.dtype, 0, 1)) / lambd


_OPERATORS: dict[str, Kernel] = {
    "rand": _rand,
    "rand_like": _rand_like,
    "uniform": _uniform,
    "randn": _randn,
    "randn_like": _randn_like,
    "randint.low": _randint,
    "randint": _randint_below,
    "randint_like.low_dtype": _randint_like,
    "randint_like": _randint_like_below,
    "randperm": _randperm,
    "bernoulli": _from_bernoulli,
    "bernoulli.p": _from_probability,
    "native_dropout": _dropped,
    "normal_functional": _normal,
    "exponential": _exponential,
}
capture.FUNCTIONS.update({overload(f"aten::{name}"): f for name, f in _OPERATORS.items()})
