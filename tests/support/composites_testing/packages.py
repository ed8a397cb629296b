"""Packages as if they were installed: their metadata stands in a folder on the import path."""

from pathlib import Path

import pytest


def install(folder: Path, package: str, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    """Install a package that announces a registry for each of its modules, given as source.

    Each module has a function `registry` that returns the path of the file.
    """
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {name}:registry\n" for name in modules)
    (info / "entry_points.txt").write_text(f"[composites.registries]\n{lines}")
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))


def returning(path: Path) -> str:
    """The source of a module whose registry is this file."""
    return f"def registry(): return {str(path)!r}\n"
