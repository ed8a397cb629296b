"""Threads that trace programs with composites at the same time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event
from typing import Any

import jax
import jax.numpy as jnp
import torch

import composites.jax
from lowering.frontends.fx.apart import record
from lowering.jax_entries.computed_once import computed_once

X = jnp.ones(3)
TIMEOUT = 20.0
"""Seconds after which a thread that waits for another one gives up."""


def at_once(*functions: Callable[[], Any]) -> list[Any]:
    """The results of functions that run in a thread each."""
    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(f) for f in functions]]


def signalling(began: Event, other: Event, function: Any, timeout: float = TIMEOUT) -> Any:
    """A function that sets an event when it begins, and then waits for another one."""

    def call(x: Any) -> Any:
        began.set()
        other.wait(timeout)
        return function(x)

    return call


def test_two_kinds_of_calls_are_traced_at_once() -> None:
    """If one call waited for the other's trace, both could wait, with JAX's own locks."""
    both = Barrier(2, timeout=TIMEOUT)

    def made(name: str) -> Callable[[Any], Any]:
        @composites.jax.composite(f"acme.{name}")
        def function(x: jax.Array) -> jax.Array:
            both.wait()
            return 2 * x

        return function

    first, second = made("first"), made("second")
    results = at_once(lambda: jax.jit(first)(X), lambda: jax.jit(second)(X))
    assert all((result == 2).all() for result in results)


def test_threads_that_compute_a_property_at_once_get_one_object() -> None:
    both = Barrier(2, timeout=TIMEOUT)

    class Owner:
        @property
        @computed_once
        def made(self) -> object:
            """The result of each thread."""
            both.wait()
            return object()

    owner = Owner()
    first, second = at_once(lambda: owner.made, lambda: owner.made)
    assert first is second is owner.made
    assert Owner.made.__doc__ == "The result of each thread."


def test_functions_of_tensors_are_recorded_one_after_the_other() -> None:
    """PyTorch changes state of the whole process while it records. `torch.compile` in another
    thread traces meanwhile."""
    traced, first_began, second_began, first_ended = (Event() for _ in range(4))
    first = signalling(first_began, second_began, torch.sin, 0.5)  # the second does not begin
    second = signalling(second_began, first_ended, torch.cos)

    def record_first() -> Any:
        traced.wait(TIMEOUT)
        run = record(first, [X])
        first_ended.set()
        return run(X)[0]

    def record_second() -> Any:
        first_began.wait(TIMEOUT)
        return record(second, [X])(X)[0]

    trace = partial(torch.fx.symbolic_trace, signalling(traced, first_began, torch.neg))
    _, sine, cosine = at_once(trace, record_first, record_second)
    assert (sine == jnp.sin(X)).all()
    assert (cosine == jnp.cos(X)).all()
