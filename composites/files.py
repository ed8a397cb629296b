"""Atomic file writes."""

import os
from pathlib import Path


def write_atomic(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write `data` to `path`. Readers see the old file or the new one, never a part of it.

    The data goes to a temporary file in the same folder, which is then renamed. A symbolic link
    keeps pointing at its file. If the path exists but is not a regular file (such as /dev/stdout),
    the data is written to it directly.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
