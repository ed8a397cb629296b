"""Processes of their own for measurements: each has its devices, its flags, what it has compiled
and its peak of memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import ParamSpec, TypeVar
from unittest.mock import patch

from composites.child_processes import FOR_XLA_ON_CPU

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


environment = partial(patch.dict, os.environ)
"""A context in which processes start with more variables than this one has."""


def new_process(as_composites_run: bool = False) -> ProcessPoolExecutor:
    """One new process, which shares nothing with this one; or one with the variables that
    `composites run` sets."""
    process = ProcessPoolExecutor(1, get_context("spawn"))
    with environment(FOR_XLA_ON_CPU if as_composites_run else {}):
        process.submit(int).result()  # starts it
    return process


def alone(function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Call a function in a process of its own, as `composites run` would."""
    with new_process(as_composites_run=True) as process:
        return process.submit(function, *arguments, **named).result()


def each_in_processes(
    function: Callable[[T], R], items: Sequence[T], of_a_process: int
) -> Iterator[R | BrokenProcessPool]:
    """The results of calls, in processes that each make a few of them. Where a process ends, the
    call that was running has the error as its result, and another process makes the next ones."""
    # A pool for each: with max_tasks_per_child, those of Python 3.11 can wait forever
    # (python/cpython#115634).
    for start in range(0, len(items), of_a_process):
        left = list(items[start : start + of_a_process])
        while left:
            with new_process() as process:
                try:
                    for result in process.map(function, left):
                        del left[0]
                        yield result
                except BrokenProcessPool as error:
                    del left[0]
                    yield error


def xla_flags(*added: str) -> dict[str, str]:
    """The variable with which XLA starts with more flags than this process has."""
    flags = os.environ.get("XLA_FLAGS")
    return {"XLA_FLAGS": " ".join([*([flags] if flags else []), *added])}
