"""Attributes of operations that say how their results are divided among devices.

A pass that replaces an operation by others has no place for its sharding, and leaves it.
"""

from .bindings import IrOperation, attributes

_NAMES = ("mhlo.sharding", "sdy.sharding")


def is_sharded(operation: IrOperation) -> bool:
    """Return whether the operation has a sharding, in GSPMD's form or in Shardy's."""
    return any(name in attributes(operation) for name in _NAMES)
