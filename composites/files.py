"""Atomic writes of files and folders."""

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
    try:
        with open(temporary, "xb") as file:
            try:
                file.write(content)
                file.flush()
                os.replace(temporary, target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:  # of a file that the user has not named
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error


def replace_folder(
    folder: str | os.PathLike[str],
    files: Mapping[str, str | bytes],
    check: Callable[[Sequence[str]], None],
) -> None:
    """Make a folder of these files: whole, or not at all.

    The files are written to a temporary folder, which then replaces the folder. Several threads and
    processes may do so at once; the last one wins. A symbolic link keeps pointing at its folder. A
    failure leaves what was there before.

    Args:
        folder: created if missing, with its parents.
        files: their content by name; a name may be a path, such as src/a.py.
        check: called with the names of existing files and folders in it, folders with a "/" at the
            end; raises if they must not be replaced.
    """
    target = Path(os.path.realpath(folder))
    _check_entries(target, check)  # before anything is made
    if _is_working_directory(target):
        raise OSError(errno.EBUSY, "it is the working directory; name a folder in it")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Others can neither know its name nor look into it.
        beside = Path(tempfile.mkdtemp(prefix=".composites-", suffix=".tmp", dir=target.parent))
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} in {target.parent}") from error
    new, old = beside / "new", beside / "old"
    replaced = False
    try:
        new.mkdir()
        for name, content in files.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).write_bytes(content.encode() if isinstance(content, str) else content)
        _take_the_place(new, target, old, check)
        replaced = True
    finally:
        # If what was there could neither be replaced nor put back, it stays here.
        if replaced or target.exists() or not old.exists():
            shutil.rmtree(beside, ignore_errors=True)


def _take_the_place(
    new: Path, target: Path, old: Path, check: Callable[[Sequence[str]], None]
) -> None:
    """Rename `new` to `target`, and an existing `target` to `old`; undone if that fails.

    Each round that does not succeed is one in which another thread or process did.
    """
    try:
        while True:
            _check_entries(target, check)
            try:
                os.rename(new, target)  # succeeds where nothing is, or an empty folder
                return
            except OSError as error:
                if error.errno == errno.EBUSY:
                    raise OSError(
                        errno.EBUSY, "it is a mount point; name a folder in it"
                    ) from error
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            shutil.rmtree(old, ignore_errors=True)  # what the last round moved there
            with suppress(FileNotFoundError):
                os.rename(target, old)
                _check_entries(old, check)  # something may have come between
    except BaseException:
        with suppress(OSError):
            os.rename(old, target)
        raise


def _is_working_directory(folder: Path) -> bool:
    try:
        return folder.samefile(os.curdir)
    except FileNotFoundError:  # also where another thread is replacing it just now
        return False


def _check_entries(folder: Path, check: Callable[[Sequence[str]], None]) -> None:
    """`check` what is in a folder; nothing if there is no such folder.

    A folder that changes while it is read is read again, because a part of it may have been seen.
    """
    try:
        while True:
            before = folder.stat()
            if not stat.S_ISDIR(before.st_mode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
            names = sorted(
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in os.scandir(folder)
            )
            after = folder.stat()
            if (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns):
                break
    except FileNotFoundError:
        return
    check(names)
