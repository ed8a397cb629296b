"""Threads that trace programs with composites at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import jax
import jax.numpy as jnp

import composites.jax
from lowering.jax_entries.lock_free_property import lock_free_property

X = jnp.ones(3)
TIMEOUT = 20.0
"""Seconds after which a thread that waits for another one gives up."""


def at_once(*functions: Callable[[], Any]) -> list[Any]:
    """The results of functions that run in a thread each."""
    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(f) for f in functions]]


def test_two_kinds_of_calls_are_traced_at_once() -> None:
    """Were one of them to wait for the other's trace, with JAX's own locks both could wait."""
    both = Barrier(2, timeout=TIMEOUT)

    def made(name: str) -> Callable[[Any], Any]:
        @composites.jax.composite(f"acme.{name}")
        def function(x: jax.Array) -> jax.Array:
            both.wait()
            return 2 * x

        return function

    first, second = made("first"), made("second")
    found = at_once(lambda: jax.jit(first)(X), lambda: jax.jit(second)(X))
    assert all((result == 2).all() for result in found)


def test_threads_that_compute_a_property_at_once_get_one_object() -> None:
    both = Barrier(2, timeout=TIMEOUT)

    class Owner:
        @lock_free_property
        def made(self) -> object:
            """What is made."""
            both.wait()
            return object()

    owner = Owner()
    first, second = at_once(lambda: owner.made, lambda: owner.made)
    assert first is second is owner.made
    assert Owner.made.__doc__ == "What is made."
