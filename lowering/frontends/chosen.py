"""The frontend of this process: which one it is, without importing it.

Everything outside the frontends asks here. A second frontend is chosen here too.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from composites.errors import MissingPackageError
from lowering.frontends.torch_xla import (
    AUTOGRAD_KEY,
    DISPATCH_KEY,
    FUNCTIONALIZATION_KEY,
    LAST_IMPORTED_MODULE,
)
from lowering.frontends.torch_xla.dumps import DumpedGraph, dumping_to, read_dump

if TYPE_CHECKING:  # torch passes through here, and must not pay for what the types need
    from lowering.frontends.protocols import Frontend

__all__ = [
    "AUTOGRAD_KEY",
    "DISPATCH_KEY",
    "FUNCTIONALIZATION_KEY",
    "LAST_IMPORTED_MODULE",
    "DumpedGraph",
    "dumping_to",
    "import_package",
    "is_installed",
    "make_frontend",
    "read_dump",
]

_PACKAGE = "torch_xla"


@cache
def is_installed() -> bool:
    """Whether the framework of the frontend is installed."""
    return find_spec(_PACKAGE) is not None


def import_package() -> None:
    """Import the framework, which turns on the composites that XLA_COMPOSITE_OP names.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        import_module(_PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        raise MissingPackageError(
            f"composites need {_PACKAGE}, which is not installed;"
            " pip install 'torch-xla-composites[torch]'"
        ) from error


def make_frontend() -> Frontend:
    """Make the frontend. It remembers stock kernels, so a process must make it once only."""
    from lowering.frontends.torch_xla import frontend

    return frontend.make_frontend()
