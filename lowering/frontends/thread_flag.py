"""A flag with a separate value in each thread, which is set for the duration of a `with` block."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from composites.contexts import with_attributes
from lowering import interrupts


class ThreadFlag(threading.local):
    """A flag that a thread sets during an action, such as the trace of a decomposition."""

    active: bool = False

    @contextmanager
    def raised(self) -> Iterator[None]:
        """A context in which the flag is set. Interrupts wait until its end; see
        `lowering.interrupts`."""
        with interrupts.deferred(), with_attributes(self, active=True):
            yield
