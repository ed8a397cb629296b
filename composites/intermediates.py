"""Named values inside a decomposition, which the derived backward can take.

A derived backward computes the forward once more. XLA merges that with the forward itself, but not
where devices had to communicate for it, and not where forward and backward are two programs. An
entry therefore lists intermediate values that its forward returns for its backward, as
`jax.ad_checkpoint.checkpoint_name` and a policy do in JAX.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from composites.contexts import with_attributes

Value = TypeVar("Value")
Handler = Callable[[Any, str], Any]
"""Takes a value and its name, and returns what the decomposition goes on with."""


class _ActiveHandler(threading.local):
    handler: Handler | None = None


_active = _ActiveHandler()


def intermediate(value: Value, name: str) -> Value:
    """Name a value inside a decomposition, for the `intermediates` of an entry or a decorator.

    An entry that lists the name has the value as one more result of its forward if a backward
    follows, and the derived backward takes it instead of computing it again. Elsewhere this returns
    its argument. Do not call it inside a loop of JAX or a function under `jax.jit`.

    Args:
        value: a tensor or an array of any shape and dtype. The decomposition does not write to it
            later.
        name: a Python identifier, used once in each run of the decomposition.
    """
    handler = _active.handler
    return value if handler is None else handler(value, name)


def handled(handler: Handler | None) -> AbstractContextManager[None]:
    """A context in which this thread's named values go through `handler`; None for none."""
    return with_attributes(_active, handler=handler)


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """A value that a decomposition has named."""

    name: str
    value: Any
    version: int
    """PyTorch's count of writes to the value, or to what it shares memory with, when it was
    named."""

    @property
    def is_written_to(self) -> bool:
        """True if the decomposition has written to the value since."""
        return _version_of(self.value) != self.version


def _version_of(value: Any) -> int:
    try:
        return value._version  # type: ignore[no-any-return]
    except (AttributeError, RuntimeError):  # arrays of JAX, and tensors of inference mode
        return 0


@contextmanager
def recorded() -> Iterator[list[Named]]:
    """A context in which this thread's named values are collected."""
    named: list[Named] = []

    def record(value: Any, name: str) -> Any:
        named.append(Named(name, value, _version_of(value)))
        return value

    with handled(record):
        yield named
