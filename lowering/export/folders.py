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
    """Write a folder of files, completely or not at all. An existing folder must be empty, or hold
    only the same kind of content.

    Args:
        content: a noun for the kind of content, for messages.
        required: names that each folder of this kind has; names of folders end in "/".
        allowed: further names that the folder may have.

    Raises:
        ProgramError: the folder holds something else, or cannot be written.
    """

    def check(names: Sequence[str]) -> None:
        foreign = [name for name in names if name not in (*required, *allowed)]
        missing = [name for name in required if name not in names]
        if names and (foreign or missing):
            listed = f"{', '.join(names[:5])}{', …' if names[5:] else ''}"
            raise ProgramError(
                f"{folder} contains something other than {content} ({listed}); nothing is written."
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
    """The path of a folder, after a check that it is a valid path."""
    try:
        path = Path(folder)
        usable = b"\0" not in os.fsencode(path)
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise ProgramError(f"the folder must be a path, not {folder!r}")
    return path
