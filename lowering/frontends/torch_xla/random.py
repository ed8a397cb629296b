"""torch_xla's random numbers, so that a composite draws what stock torch_xla draws.

torch_xla keeps one number for each device, advances it for every random operator, and gives the
operator the advanced number as its seed; in a graph, the number that the graph started with is a
parameter and the advances are instructions. Nothing in its Python API gives that value as a
tensor, so a composite gets one that is made from the same number on the host: a parameter for the
first composite of a graph, and that parameter advanced for those that follow.

Source: `LazyGraphExecutor::DeviceContextArena::GetRngSeed` of torch 2.9
(torch/csrc/lazy/core/lazy_graph_executor.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
import torch_xla
import torch_xla.core.xla_model as xm

from lowering.frontends.protocols import Seed
from lowering.frontends.torch_xla.modes import tracing_mode
from lowering.frontends.torch_xla.value_guard import values_readable

_XLAC = torch_xla._XLAC

_MULTIPLIER = 214013
_INCREMENT = 2531011
_WRAP = 1 << 64
_REACH = 256
"""How many random operators between two composites are followed before a new parameter is made."""


def advanced(state: int, times: int = 1) -> int:
    """The generator's state after so many random operators."""
    for _ in range(times):
        state = (state * _MULTIPLIER + _INCREMENT) % _WRAP
    return state


def advances_between(before: int, after: int, limit: int) -> int | None:
    """How often `before` was advanced to become `after`; None where it is more than `limit`."""
    for times in range(limit + 1):
        if before == after:
            return times
        before = advanced(before)
    return None


def signed(state: int) -> int:
    """The state as the int64 that a tensor holds."""
    return state - _WRAP if state >= _WRAP // 2 else state


@dataclass(slots=True)
class Generator:
    """torch_xla's generator of one process."""

    read: Callable[[], int]
    """The state now."""
    write: Callable[[int], None]
    """Set the state, and what the states of later graphs are made from."""
    reset_to_base: Callable[[], int]
    """Go back to what the states of later graphs are made from, and give it."""
    constants: Callable[[], AbstractContextManager[None]]
    """A context in which Python numbers become constants of the graph."""
    parameter: Callable[[int], torch.Tensor]
    """A 0-d int64 tensor that is a parameter of the graphs that read it."""
    _root: torch.Tensor | None = None
    """The parameter that the seeds of the current graph are computed from."""
    _counts: dict[int, int] = field(default_factory=dict)
    """For each state that was reached from the root, by how many advances."""
    _last: int = 0
    _dummy: torch.Tensor | None = None

    def seed(self) -> Seed:
        """The state now, as an operand."""
        state = self.read() % _WRAP
        count = self._counts.get(state)
        if count is None and self._root is not None:
            further = advances_between(self._last, state, _REACH)
            if further is not None:
                count = self._counts[self._last] + further
                self._counts[state], self._last = count, state
        if count is None or self._root is None:
            self._root = self.parameter(signed(state))
            self._counts, self._last, count = {state: 0}, state, 0
        if count == 0:
            return Seed(self._root, state)
        # After `count` advances the state is a * root + b.
        b = advanced(0, count)
        a = (advanced(1, count) - b) % _WRAP
        with self.constants():
            return Seed(self._root * signed(a) + signed(b), state)

    def advance(self, times: int) -> None:
        """Let the state move on as if so many random operators had run."""
        if self._dummy is None:
            self._dummy = self.parameter(0).float()
        for _ in range(times):
            torch.bernoulli(self._dummy)

    @contextmanager
    def at(self, state: int) -> Iterator[None]:
        """Draw from another state for a while."""
        before = self.read()
        base = self.reset_to_base()
        self.write(state)
        try:
            yield
        finally:
            self.write(base)
            self.restore(before)

    def restore(self, state: int) -> None:
        """Go back to an earlier state of the same graph."""
        base = self.reset_to_base()
        times = advances_between(base, state % _WRAP, 4 * _REACH)
        if times is None:
            self.write(state)
        else:
            self.advance(times)


class XlaRandomNumbers:
    """See `lowering.frontends.protocols.RandomNumbers`."""

    def __init__(self) -> None:
        self.generator = Generator(
            read=xm.get_rng_state,
            write=xm.set_rng_state,
            reset_to_base=_reset_to_base_seed,
            constants=tracing_mode,
            parameter=_scalar_parameter,
        )

    def seed(self) -> Seed:
        return self.generator.seed()

    def advance(self, draws: int) -> None:
        self.generator.advance(draws)

    @contextmanager
    def random_state(self, seed: Seed | None) -> Iterator[None]:
        with nullcontext() if seed is None else self.generator.at(seed.value):
            yield


def state_now() -> int:
    """The state of torch_xla's generator."""
    return xm.get_rng_state()  # type: ignore[no-any-return]


MARK = 0x5EED_C0DE_0F_5EED
"""A state that nothing else equals, to know the parameter that carries it."""


@contextmanager
def marked() -> Iterator[None]:
    """A context in which the generator starts from the mark."""
    before = xm.get_rng_state()
    xm.set_rng_state(MARK)
    try:
        yield
    finally:
        xm.set_rng_state(before)


def carries_mark(tensor: torch.Tensor) -> bool:
    """Whether a tensor that has data is the state that the generator started from."""
    return tensor.dtype == torch.int64 and tensor.dim() == 0 and tensor.item() == MARK


def _scalar_parameter(value: int) -> torch.Tensor:
    """A 0-d tensor that is data: `torch.tensor(value).to("xla")` is a constant where the value is 0
    or 1, or where something is traced."""
    tensor: torch.Tensor = xm.send_cpu_data_to_device([torch.tensor(value)], torch_xla.device())[0]
    return tensor


def _reset_to_base_seed() -> int:
    """The seed that torch_xla makes those of later graphs from; asking resets the running one."""
    with values_readable():
        tensor = _XLAC._get_base_seed_as_tensor(str(torch_xla.device()))
        return int(tensor.item()) % (1 << 64)
