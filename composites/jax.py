"""The entries of registries in JAX programs.

`composites.jax.gelu(x, approximate="tanh")` is `ptxla.gelu` in the program, as in PyTorch programs,
and its gradient is `ptxla.gelu_backward`. Each entry is an attribute of this module. `entry` finds
an entry by a name with a namespace, and `available` lists the entries that JAX programs can use.

`composite` is a decorator that makes a composite of your own JAX function.

`enable`, `disable`, `enabled` and `active` are for calls that a JAX program makes itself, such as
`jax.nn.gelu`: while an entry is on, these calls become its composite. `stats` counts them.

Importing this module imports neither JAX nor PyTorch. Looking up the first function imports both,
without torch_xla.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowering.jax_entries.availability import Availability
    from lowering.jax_entries.decorator import composite
    from lowering.jax_entries.entries import Entries
    from lowering.jax_entries.functions import EntryFunction
    from lowering.jax_programs.activation import active, disable, enable, enabled, stats

__all__ = ["active", "available", "composite", "disable", "enable", "enabled", "entry", "stats"]
# and the name of each entry


_HOMES = {
    **dict.fromkeys(
        ("active", "disable", "enable", "enabled", "stats"), "lowering.jax_programs.activation"
    ),
    "composite": "lowering.jax_entries.decorator",
}


def entry(name: str) -> EntryFunction:
    """Return the entry with a name such as `gelu`, `acme.gelu` or `acme.gelu@2` as a function.

    Raises:
        AllowlistError: no registry has the entry, or several vendors have it.
        MissingPackageError: torch or jax is not installed.
    """
    return _entries().find(name)


def available(*names: str) -> tuple[Availability, ...]:
    """Return which entries JAX programs can use, and why the other entries are not available.

    Each entry and its gradient are traced with an example call, which takes a minute for all.

    Args:
        names: entries; all of them by default.
    """
    module = _imported("lowering.jax_entries.availability")
    return module.availability(_entries(), names)  # type: ignore[no-any-return]


def __dir__() -> list[str]:
    return [*__all__, *_entries().names]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from composites.errors import AllowlistError

    if name in _HOMES:
        return getattr(_imported(_HOMES[name]), name)
    try:
        return entry(name)
    except AllowlistError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {error}") from error


def _entries() -> Entries:
    return _imported("lowering.jax_entries.entries").entries()  # type: ignore[no-any-return]


def _imported(module: str) -> ModuleType:
    from composites.errors import MissingPackageError, installing

    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in ("jax", "jaxlib", "torch"):
            raise
        raise MissingPackageError(
            f"composites.jax needs {error.name}; {installing('jax')}"
        ) from error
