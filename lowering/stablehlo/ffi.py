"""Registering the kernels of a shared library with XLA's typed FFI."""

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from .errors import RunError
from .run import import_jax

_registered: dict[str, tuple[str, str]] = {}
"""The library and platform of each target. XLA keeps targets registered until the process ends."""


def register_targets(
    targets: Iterable[str], libraries: Iterable[str | os.PathLike[str]], *, platform: str = "cpu"
) -> None:
    """Register, for each target, the symbol of that name in a shared library.

    The first library that has the symbol counts. The symbols are handlers that
    XLA_FFI_DEFINE_HANDLER_SYMBOL makes. Without libraries, nothing is registered: the targets must
    be registered in the process already.

    Raises:
        RunError: a library cannot be loaded, or no library has the symbol.
    """
    paths = [Path(path).resolve() for path in libraries]
    if not paths:
        return
    jax = import_jax()
    loaded = [(str(path), _load(path)) for path in paths]
    for target in dict.fromkeys(targets):
        having = [(path, library) for path, library in loaded if hasattr(library, target)]
        if not having:
            raise RunError(
                f"no library has the symbol {target} ({', '.join(map(str, paths))}); name the "
                "handler as in XLA_FFI_DEFINE_HANDLER_SYMBOL"
            )
        path, library = having[0]
        if _registered.get(target) == (path, platform):
            continue
        try:
            capsule = jax.ffi.pycapsule(getattr(library, target))
            jax.ffi.register_ffi_target(target, capsule, platform=platform)
        except Exception as error:  # XLA's own errors differ from release to release
            raise RunError(f"{target} of {path} cannot be registered: {error}") from error
        _registered[target] = (path, platform)


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise RunError(f"the library {path} cannot be loaded: {error}") from error
