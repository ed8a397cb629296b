"""Named values inside a decomposition, which a derived backward can reuse.

A derived backward computes the forward once more. XLA merges the two computations, but not if
devices had to communicate for the forward, and not if forward and backward are separate programs.
So an entry can list intermediate values that its forward returns for its backward, as
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
"""Takes a value and its name, and returns the value with which the decomposition continues."""


class _ActiveHandler(threading.local):
    handler: Handler | None = None


_active = _ActiveHandler()


def intermediate(value: Value, name: str) -> Value:
    """Name a value inside a decomposition, for the `intermediates` of an entry or a decorator.

    If an entry lists the name and a backward follows, the value is one more result of the forward,
    and the derived backward takes it instead of computing it again. Otherwise this function returns
    its argument. Do not call it inside a loop of JAX or a function under `jax.jit`.

    Args:
        value: a tensor or an array of any shape and dtype. The decomposition does not write to it
            later.
        name: a Python identifier, used once in each run of the decomposition.
    """
    handler = _active.handler
    return value if handler is None else handler(value, name)


def handled(handler: Handler | None) -> AbstractContextManager[None]:
    """A context in which named values of this thread go through `handler`, unless it is None."""
    return with_attributes(_active, handler=handler)


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """A named value of a decomposition."""

    name: str
    value: Any
    version: int
    """PyTorch's count of writes to the memory of the value, at the time when the value was
    named."""

    @property
    def is_written_to(self) -> bool:
        """True if the decomposition has written to the value after naming it."""
        return _version_of(self.value) != self.version


def _version_of(value: Any) -> int:
    try:
        return value._version  # type: ignore[no-any-return]
    except (AttributeError, RuntimeError):  # arrays of JAX, and tensors of inference mode
        return 0


@contextmanager
def recorded() -> Iterator[list[Named]]:
    """A context in which named values of this thread are collected."""
    named: list[Named] = []

    def record(value: Any, name: str) -> Any:
        named.append(Named(name, value, _version_of(value)))
        return value

    with handled(record):
        yield named
