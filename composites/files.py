"""Atomic file writes."""

import os
import secrets
from pathlib import Path


def write_atomic(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write `data` to `path`. Readers see the old file or the new one, never a part of it.

    The data goes to a temporary file in the same folder, which is then renamed. A symbolic link
    keeps pointing at its file. If the path exists but is not a regular file (such as /dev/stdout),
    the data is written to it directly.
    """
    content = data.encode() if isinstance(data, str) else data
    if os.path.exists(path) and not os.path.isfile(path):
        # The path as it was given: where /dev/stdout is a pipe, its real path names no file.
        Path(path).write_bytes(content)
        return
    target = Path(os.path.realpath(path))
    # Nobody can know the name and put a link there. "x" would not follow the link either, and
    # unlike tempfile it gives the file the permissions that the umask leaves.
    temporary = target.with_name(f".composites-{secrets.token_hex(8)}.tmp")
    with open(temporary, "xb") as file:
        try:
            file.write(content)
            file.flush()
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
