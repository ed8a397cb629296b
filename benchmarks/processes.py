"""Processes of their own for measurements: each has its devices, its flags, what it has compiled
and its peak of memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def new_process() -> ProcessPoolExecutor:
    """One new process, which shares nothing with this one."""
    return ProcessPoolExecutor(1, get_context("spawn"))


def alone(function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Call a function in a process of its own."""
    with new_process() as process:
        return process.submit(function, *arguments, **named).result()


@contextmanager
def environment(changed: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the processes that start here."""
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def xla_flags(*added: str) -> dict[str, str]:
    """The variable with which XLA starts with more flags than this process has."""
    given = os.environ.get("XLA_FLAGS")
    return {"XLA_FLAGS": " ".join([*([given] if given else []), *added])}
