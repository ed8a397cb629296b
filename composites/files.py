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
        # Not the real path: if /dev/stdout is a pipe, its real path is not a file.
        Path(path).write_bytes(content)
        return
    target = Path(os.path.realpath(path))
    # Nobody can guess the name and create a link of that name. "x" would not follow a link either,
    # and unlike tempfile it gives the file the permissions that the umask leaves.
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
    except OSError as error:  # names the temporary file, which the user does not know
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error


def replace_folder(
    folder: str | os.PathLike[str],
    files: Mapping[str, str | bytes],
    check: Callable[[Sequence[str]], None],
) -> None:
    """Write a folder of files: all of them, or none.

    The files are written to a temporary folder, which then replaces `folder`. Several threads and
    processes may do so at once; the last one wins. A symbolic link keeps pointing at its folder.
    After a failure, `folder` is as it was before.

    Args:
        folder: the path. A missing folder is created, with its parents.
        files: the content of each file by name; a name may be a path, such as src/a.py.
        check: called with the names of existing files and folders in `folder`, folders with a "/"
            at the end; raises if they must not be replaced.
    """
    target = Path(os.path.realpath(folder))
    _check_entries(target, check)  # before anything is made
    if _is_working_directory(target):
        raise OSError(errno.EBUSY, "it is the working directory; name a folder in it")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Other users can neither guess its name nor read it.
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
        _swap(new, target, old, check)
        replaced = True
    finally:
        # If the old folder could neither be replaced nor put back, it stays in `beside`.
        if replaced or target.exists() or not old.exists():
            shutil.rmtree(beside, ignore_errors=True)


def _swap(new: Path, target: Path, old: Path, check: Callable[[Sequence[str]], None]) -> None:
    """Rename `new` to `target`, and an existing `target` to `old`. A failure is undone.

    A round fails only if another thread or process succeeds.
    """
    try:
        while True:
            _check_entries(target, check)
            try:
                os.rename(new, target)  # succeeds if `target` is missing or an empty folder
                return
            except OSError as error:
                if error.errno == errno.EBUSY:
                    raise OSError(
                        errno.EBUSY, "it is a mount point; name a folder in it"
                    ) from error
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            shutil.rmtree(old, ignore_errors=True)  # from the last round
            with suppress(FileNotFoundError):
                os.rename(target, old)
                _check_entries(old, check)  # `target` may have changed since the check above
    except BaseException:
        with suppress(OSError):
            os.rename(old, target)
        raise


def _is_working_directory(folder: Path) -> bool:
    try:
        return folder.samefile(os.curdir)
    except FileNotFoundError:  # also if another thread is replacing the folder
        return False


def _check_entries(folder: Path, check: Callable[[Sequence[str]], None]) -> None:
    """Call `check` with the names in a folder. Do nothing if the folder does not exist.

    A folder that changes while it is read is read again, because the names may be incomplete.
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
