"""Interrupts (Ctrl-C) that wait until a change of the process's state is complete.

Python raises KeyboardInterrupt in the main thread between any two instructions, also inside a
`finally` that puts something back. A change that must be made whole, or not at all, is therefore
written as

    with interrupts.deferred(), change_and_restore(), interrupts.allowed():
        ...  # code that may take long

Only the innermost block can be interrupted. After its first interrupt, further ones wait until
`deferred` has ended.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

PATIENCE = 10.0
"""Seconds that an interrupt waits at most for a change, which may hang."""


@dataclass(slots=True)
class _Deferral:
    """The outermost `deferred` block of the main thread."""

    previous: Callable[[int, FrameType | None], Any]
    """The handler that the program has for interrupts."""
    open: bool = False
    unwinding: bool = False
    waiting_since: float | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        waits = self.waiting_since is not None and time.monotonic() - self.waiting_since < PATIENCE
        if not self.open and (waits or self.waiting_since is None):
            self.waiting_since = self.waiting_since or time.monotonic()
            return
        was_open = self.open
        self.open, self.unwinding = False, True
        self.previous(number, frame)
        self.open, self.unwinding = was_open, False  # the program's handler raised nothing

    def reopen(self, value: bool) -> None:
        self.open = value and not self.unwinding
        if self.open and self.waiting_since is not None:
            self.waiting_since = None
            signal.raise_signal(signal.SIGINT)


_outermost: _Deferral | None = None  # of the main thread, the only thread that Python interrupts


def deferred() -> AbstractContextManager[None]:
    """A context that interrupts do not end. An interrupt inside it is raised when it ends."""
    if _outermost is not None or threading.current_thread() is not threading.main_thread():
        return _opened(False)
    return _begun()


def allowed() -> AbstractContextManager[None]:
    """A context inside `deferred` that an interrupt ends. Use it as the innermost context."""
    return _opened(True)


@contextmanager
def _opened(value: bool) -> Iterator[None]:
    deferral = _outermost
    if deferral is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = deferral.open
    deferral.reopen(value)
    try:
        yield
    finally:
        deferral.reopen(before)


@contextmanager
def _begun() -> Iterator[None]:
    global _outermost
    previous = signal.getsignal(signal.SIGINT)
    if not callable(previous):  # interrupts are ignored, or end the process
        yield
        return
    deferral = _Deferral(previous)
    handler = deferral.handle
    # Set the handler first: an interrupt between the two statements would leave a deferral that
    # never ends, and later blocks would not be deferred.
    signal.signal(signal.SIGINT, handler)
    _outermost = deferral
    try:
        yield
    finally:
        _outermost = None
        if signal.getsignal(signal.SIGINT) == handler:  # the block may have set its own handler
            signal.signal(signal.SIGINT, previous)
        if deferral.waiting_since is not None and not deferral.unwinding:
            signal.raise_signal(signal.SIGINT)
