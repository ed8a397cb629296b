"""torch_xla's random numbers, so that a composite draws the same numbers as stock torch_xla.

torch_xla keeps one number for each device. Every random operator advances it, and uses the new
number as its seed. In a graph, the initial number is a parameter and the advances are instructions.
torch_xla's Python API does not return this value as a tensor. A composite therefore gets a tensor
that is made from the same number on the host: a new parameter for the first composite of a graph,
and that parameter advanced for later composites.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
import torch_xla
import torch_xla.core.xla_model as xm

from composites import torch_internals
from composites.contexts import with_setting
from lowering import interrupts
from lowering.frontends.protocols import Seed
from lowering.frontends.random_states import INCREMENT, MULTIPLIER, following
from lowering.frontends.torch_xla.modes import tracing_mode
from lowering.frontends.torch_xla.tensors import DEVICE_TYPE
from lowering.frontends.torch_xla.value_guard import values_readable

_XLAC = torch_xla._XLAC

_WRAP = 1 << 64
_MOST_KEPT = 10_000
"""Maximum number of random operators before a state that a program keeps."""
_REACH = 256
"""Maximum number of random operators between two composites that share one parameter."""


def advanced(state: int, times: int = 1) -> int:
    """The generator's state after a number of random operators."""
    for _ in range(times):
        state = following(state) % _WRAP
    return state


def preceding(state: int) -> int:
    """The state from which one random operator advances to `state`."""
    return (state - INCREMENT) * pow(MULTIPLIER, -1, _WRAP) % _WRAP


def advances_between(before: int, after: int, limit: int) -> int | None:
    """The number of advances from `before` to `after`; None if it is larger than `limit`."""
    for times in range(limit + 1):
        if before == after:
            return times
        before = advanced(before)
    return None


def signed(state: int) -> int:
    """The state as int64, the dtype of its tensor."""
    return state - _WRAP if state >= _WRAP // 2 else state


def advancing(times: int) -> tuple[int, int]:
    """A factor and an offset, as int64, that advance a state a number of times."""
    offset = advanced(0, times)
    return signed((advanced(1, times) - offset) % _WRAP), signed(offset)


class XlaRandomNumbers:
    """See `lowering.frontends.protocols.RandomNumbers`. A process has one generator."""

    def __init__(self) -> None:
        self._root: torch.Tensor | None = None
        """The parameter from which the seeds of the current graph are computed."""
        self._counts: dict[int, int] = {}
        """For each state that was reached from the root, the number of advances."""
        self._last = 0
        self._dummy: torch.Tensor | None = None

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors that drawing and advancing compute with."""
        return [tensor for tensor in (self._root, self._dummy) if tensor is not None]

    def seed(self) -> Seed:
        state = xm.get_rng_state() % _WRAP
        if _XLAC._get_use_eager_mode():
            # In eager mode, a random operator uses the number before advancing it. A composite
            # advances its operand once before using it.
            return Seed(_scalar_parameter(signed(preceding(state))), state)
        count = self._counts.get(state)
        if count is None and self._root is not None:
            further = advances_between(self._last, state, _REACH)
            if further is not None:
                count = self._counts[self._last] + further
                self._counts[state], self._last = count, state
        if count is None or self._root is None:
            self._root = _scalar_parameter(signed(state))
            self._counts, self._last, count = {state: 0}, state, 0
        if count == 0:
            return Seed(self._root, state)
        a, b = advancing(count)
        with interrupts.deferred(), tracing_mode():
            return Seed(self._root * a + b, state)

    def advance(self, draws: int) -> None:
        if self._dummy is None:
            self._dummy = _scalar_parameter(0).float()
        for _ in range(draws):
            torch.bernoulli(self._dummy)

    def random_state(self, seed: Seed | None) -> AbstractContextManager[None]:
        return nullcontext() if seed is None else self.at(seed.value)

    @contextmanager
    def at(self, state: int) -> Iterator[None]:
        """A context in which random operators draw from another state."""
        before = xm.get_rng_state()
        base = _reset_to_base_seed()
        xm.set_rng_state(state)
        try:
            yield
        finally:
            xm.set_rng_state(base)
            self.restore(before)

    def restore(self, state: int) -> None:
        """Return to an earlier state of the same graph."""
        base = _reset_to_base_seed()
        times = advances_between(base, state % _WRAP, 4 * _REACH)
        if times is None:
            xm.set_rng_state(state)
        else:
            self.advance(times)


MARK = 0x5EED_C0DE_0F_5EED
"""A state that is used for nothing else. It identifies the parameter that carries it."""


def states_offered() -> AbstractContextManager[None]:
    """A context in which parts that `torch.utils.checkpoint` computes again draw the same numbers
    as before. torch_xla's own checkpoint needs no such context."""
    return torch_internals.random_states_offered(DEVICE_TYPE, xm.get_rng_state, xm.set_rng_state)


def marked() -> AbstractContextManager[None]:
    """A context in which the generator starts from the mark."""
    return with_setting(xm.get_rng_state, xm.set_rng_state, MARK)


def advances_since_mark(tensor: torch.Tensor) -> int | None:
    """The number of advances from the generator's start to the state that a tensor with data holds;
    None if the tensor holds something else."""
    if tensor.dtype != torch.int64 or tensor.dim() != 0:
        return None
    return advances_between(MARK, int(tensor.item()) % _WRAP, limit=_MOST_KEPT)


def _scalar_parameter(value: int) -> torch.Tensor:
    """A 0-d tensor with data. `torch.tensor(value).to("xla")` would be a constant for 0 and 1, and
    during tracing."""
    tensor: torch.Tensor = xm.send_cpu_data_to_device([torch.tensor(value)], torch_xla.device())[0]
    return tensor


def _reset_to_base_seed() -> int:
    """Set the state to the base from which torch_xla makes the states of later graphs, and return
    the base. `set_rng_state` sets both."""
    with values_readable():
        tensor = _XLAC._get_base_seed_as_tensor(str(torch_xla.device()))
        return int(tensor.item()) % _WRAP
