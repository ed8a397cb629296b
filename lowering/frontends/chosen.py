"""The choice of the frontend of this process, without importing it.

All code outside the frontends gets the frontend from this module: that of torch_xla if torch_xla is
installed, otherwise that of PyTorch alone, unless the program names a frontend.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from composites.errors import ExportError, MissingPackageError, installing
from lowering.frontends import fx, torch_xla

if TYPE_CHECKING:  # `import torch` imports this module, and must not pay for imports of types
    from lowering.frontends.protocols import Frontend

_FRONTENDS: dict[str, ModuleType] = {"xla": torch_xla, "fx": fx}
NAMES = tuple(_FRONTENDS)
"""The names of all frontends."""

_MODULES = {"xla": "torch_xla", "fx": "lowering.frontends.fx.frontend"}
"""The module that is imported before a frontend is made, by the frontend's name."""

_MADE: list[str] = []
"""The name of the frontend that was made. A process has one frontend."""

_ASKED: list[str] = []
"""The names that exports request while no frontend is made."""


@contextmanager
def choosing(name: str | None) -> Iterator[None]:
    """A context that uses a frontend; with None, the current frontend. If no frontend is made in
    the context, because an error occurs before, nothing is chosen.

    Raises:
        ExportError: there is no such frontend, or this process uses a different frontend.
    """
    if name is None:
        yield
        return
    if name not in _FRONTENDS:
        names = " or ".join(map(repr, NAMES))
        raise ExportError(f"frontend must be {names}, not {name!r}")
    if (_MADE or _ASKED) and name != chosen():
        raise ExportError(
            f"this process uses frontend={chosen()!r} already, and a process has one frontend;"
            f" use frontend={name!r} in another process"
        )
    _ASKED.append(name)
    try:
        yield
    finally:
        _ASKED.remove(name)


def chosen() -> str:
    """The name of this process's frontend."""
    for names in (_MADE, _ASKED):
        if names:
            return names[0]
    return "xla" if is_installed() or find_spec("torch") is None else "fx"


def package() -> ModuleType:
    """The package of this process's frontend, which imports nothing. It defines the names of the
    dispatch keys, and the extra that installs the frontend."""
    return _FRONTENDS[chosen()]


@cache
def is_installed() -> bool:
    """Return whether torch_xla is installed."""
    return find_spec("torch_xla") is not None


def import_package() -> None:
    """Import the framework, which turns on the composites that XLA_COMPOSITE_OP names.

    Raises:
        MissingPackageError: the framework is not installed.
    """
    name = _MODULES[chosen()]
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in (name, "torch", "jax"):
            raise
        raise MissingPackageError(
            f"composites need {error.name}, which is not installed; {installing(package().EXTRA)}"
        ) from error


def make_frontend() -> Frontend:
    """Make the frontend. It remembers stock kernels, so a process must make it only once.

    Raises:
        MissingPackageError: the framework lacks a name that the frontend needs.
    """
    name = chosen()
    if name == "fx":
        from lowering.frontends.fx import frontend as fx_frontend

        made = fx_frontend.make_frontend()
    else:
        from lowering.frontends.torch_xla import capabilities

        capabilities.check()  # before the import of modules that read these names

        from lowering.frontends.torch_xla import frontend as xla_frontend

        made = xla_frontend.make_frontend()
    _MADE.append(name)
    return made
