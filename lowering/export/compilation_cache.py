"""jax's cache of compiled programs on disk, in a folder that the caller names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from composites.errors import ProgramError

_lock = Lock()

_EVERYTHING = {
    "jax_enable_compilation_cache": True,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
}
"""The settings of jax's cache. By default jax keeps only programs that took a second to compile."""


@contextmanager
def cached_in(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """A context in which compiled programs are read from a folder, or written to it.

    jax's settings belong to the process: other threads that compile in the meantime use the folder
    too. The settings are restored in the end. Without a folder, jax's own settings apply, such as
    JAX_COMPILATION_CACHE_DIR.
    """
    if folder is None:
        yield
        return
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    try:
        path = Path(folder).absolute()
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, TypeError, ValueError) as error:
        raise ProgramError(f"compiled programs cannot be kept in {folder!r}: {error}") from error
    settings: dict[str, Any] = {"jax_compilation_cache_dir": str(path), **_EVERYTHING}
    with _lock:
        before = {name: getattr(jax.config, name) for name in settings}
        try:
            for name, value in settings.items():
                jax.config.update(name, value)
            compilation_cache.reset_cache()  # jax reads the folder's name once
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)
            compilation_cache.reset_cache()
