"""write_atomic: the old file or the new one, links and devices included."""

import os
from pathlib import Path

import pytest

from composites.files import write_atomic


def test_replaces_a_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "out", "first")
    write_atomic(tmp_path / "out", b"second")
    assert (tmp_path / "out").read_bytes() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    write_atomic(tmp_path / "out", "old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(tmp_path / "out", "new")
    assert (tmp_path / "out").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_atomic(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"


def test_a_device_is_written_to() -> None:
    write_atomic("/dev/null", "text")
    assert Path("/dev/null").is_char_device()
