"""Writing a file completely or not at all."""

import os
from pathlib import Path


def write_atomic(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write `data` to `path`: readers see the old file or the new one, never half of it.

    The data goes to a temporary file in the same folder, which is then renamed. A link keeps
    pointing at the file, and what is no regular file (such as /dev/stdout) is written to.
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
