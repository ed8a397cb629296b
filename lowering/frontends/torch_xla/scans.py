"""torch_xla's `scan`, which also runs `scan_layers` and torch.nn.GRU, while a program is recorded.

It keeps the graphs of pure functions. Which operators these hold depends on the composites that
were on, and they may hold tensors. So a recorded program takes no graph from outside, and leaves
none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from torch_xla.experimental import scan


@contextmanager
def own_graphs() -> Iterator[None]:
    """A context in which `scan` traces every function anew."""
    kept = scan._SCAN_COMPUTATION_CACHE
    scan._SCAN_COMPUTATION_CACHE = WeakKeyDictionary()
    try:
        yield
    finally:
        scan._SCAN_COMPUTATION_CACHE = kept
