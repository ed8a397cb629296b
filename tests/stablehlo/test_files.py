"""write_atomic: the old file or the new one, links and devices included."""

import os
import secrets
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from composites.files import write_atomic


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)  # as long as a name can be
    write_atomic(path, "first")
    write_atomic(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    write_atomic(tmp_path / "out", "old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(tmp_path / "out", "new")
    assert (tmp_path / "out").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_failure_names_the_path_that_was_given(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "out"
    with pytest.raises(FileNotFoundError) as raised:
        write_atomic(path, "text")
    facts = raised.value.filename, raised.value.strerror
    assert facts == (str(path), "No such file or directory")


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_atomic(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"


def test_a_device_and_a_pipe_are_written_to() -> None:
    write_atomic("/dev/null", "text")
    assert Path("/dev/null").is_char_device()
    program = "from composites.files import write_atomic; write_atomic('/dev/stdout', 'text')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"text"


def test_a_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".out.{os.getpid()}.tmp").symlink_to(victim)  # the name that was used once
    write_atomic(tmp_path / "out", "text")
    assert (victim.read_text(), (tmp_path / "out").read_text()) == ("mine", "text")
    # Even with the right name, the link is neither followed nor removed.
    monkeypatch.setattr(secrets, "token_hex", lambda size: "known")
    planted = tmp_path / ".composites-known.tmp"
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomic(tmp_path / "out", "more")
    assert (victim.read_text(), planted.is_symlink()) == ("mine", True)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_file_has_the_permissions_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_atomic(tmp_path / "out", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o666 & ~umask
