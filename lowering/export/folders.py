"""Folders of programs and checkpoints. Every failure is a ProgramError."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from composites.errors import ProgramError
from composites.files import replace_folder


def write_folder(
    folder: str | os.PathLike[str],
    files: Mapping[str, bytes],
    content: str,
    required: Collection[str] = (),
    allowed: Collection[str] = (),
) -> None:
    """Make a folder of these files: whole, or not at all. If it exists, it must be empty, or have
    only such content.

    Args:
        content: a noun for the messages.
        required: names that each such folder has; those of folders end in "/".
        allowed: names that it may have beside them.

    Raises:
        ProgramError: the folder has something else, or cannot be written.
    """

    def check(names: Sequence[str]) -> None:
        others = [name for name in names if name not in (*required, *allowed)]
        missing = [name for name in required if name not in names]
        if names and (others or missing):
            there = f"{', '.join(names[:5])}{', …' if names[5:] else ''}"
            raise ProgramError(
                f"{folder} contains something other than {content} ({there}); nothing is written."
                " Name another folder, or a new one inside it"
            )

    try:
        replace_folder(folder, files, check)
    except OSError as error:
        raise ProgramError(f"{folder} cannot be written: {error.strerror}") from error


def read_file(path: Path) -> bytes:
    """The content of a file of a folder."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProgramError(f"{path} cannot be read: {error.strerror}") from error


def folder_path(folder: str | os.PathLike[str]) -> Path:
    """The path, where it is one that a folder can have."""
    try:
        path = Path(folder)
        usable = b"\0" not in os.fsencode(path)
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise ProgramError(f"the folder must be a path, not {folder!r}")
    return path
