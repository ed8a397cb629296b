"""A flag that each thread has for itself, raised for the time of a `with` block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ThreadFlag(threading.local):
    """Whether this thread is inside something, such as a decomposition that is being traced."""

    active: bool = False

    @contextmanager
    def raised(self) -> Iterator[None]:
        """A context in which the flag is up."""
        before = self.active
        self.active = True
        try:
            yield
        finally:
            self.active = before
