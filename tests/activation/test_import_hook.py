"""Actions that run after an import, and imports that notice nothing of it."""

import importlib
import importlib.machinery
import importlib.resources
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lowering.import_hook import after_import, after_imports


@pytest.fixture(autouse=True)
def package(module_folder: Path) -> Iterator[Path]:
    folder = module_folder / "acme_parts"
    (folder / "inner").mkdir(parents=True)
    for file in ("__init__.py", "first.py", "second.py", "inner/__init__.py", "inner/third.py"):
        (folder / file).write_text("def function():\n    pass\n")
    (folder / "inner" / "data.txt").write_text("data")
    (module_folder / "acme_parts_too.py").write_text("")
    importlib.invalidate_caches()
    before = list(sys.meta_path)
    yield folder
    assert sys.meta_path == before


def test_an_action_runs_after_each_import_of_a_package() -> None:
    seen: list[str] = []
    stop = after_imports(["acme_parts"], seen.append)
    import_all = ("acme_parts.first", "acme_parts.inner.third", "acme_parts_too")
    for name in import_all:
        importlib.import_module(name)
        importlib.import_module(name)
    assert seen == ["acme_parts", "acme_parts.first", "acme_parts.inner", "acme_parts.inner.third"]
    stop()
    stop()
    importlib.import_module("acme_parts.second")
    assert "acme_parts.second" not in seen


def test_modules_keep_their_loaders() -> None:
    stops = [after_imports(["acme_parts"], lambda _: None) for _ in range(2)]
    stops.append(after_import("acme_parts.inner", lambda: None))
    module = importlib.import_module("acme_parts.inner")
    for stop in stops:
        stop()
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert module.__spec__ is not None
    assert module.__spec__.loader is module.__loader__
    assert importlib.resources.files(module).joinpath("data.txt").read_text() == "data"
    assert inspect.getsource(module.function).startswith("def")


@pytest.mark.parametrize("asking", ["acme_parts.first", "acme_parts.second"])
def test_an_import_that_is_under_way_is_waited_for(package: Path, asking: str) -> None:
    """`asking` asks for an action after the import of `acme_parts.first`, which imports it."""
    wait = (
        "import sys\nfrom lowering.import_hook import after_import\nseen = []\nstop = after_import("
        "'acme_parts.first', lambda: seen.append(sys.modules['acme_parts.first'].last))\n"
        "assert seen == []\n"
    )
    second = asking.endswith("second")
    (package / "second.py").write_text(wait if second else "seen = []\n")
    (package / "first.py").write_text(
        "from acme_parts.second import seen\n" + ("" if second else wait) + "last = 'last'\n"
    )
    first = importlib.import_module("acme_parts.first")
    assert first.seen == ["last"]
    assert type(first.__spec__) is importlib.machinery.ModuleSpec
    assert not [name for name in vars(first.__spec__) if name.startswith("_composites")]


@pytest.mark.parametrize("end", ["raise KeyError", "stop()"])
def test_an_import_under_way_that_fails_or_is_not_waited_for(package: Path, end: str) -> None:
    (package / "second.py").write_text("seen = []\n")
    (package / "first.py").write_text(
        "from lowering.import_hook import after_import\nfrom acme_parts.second import seen\n"
        f"stop = after_import('acme_parts.first', lambda: seen.append(1))\n{end}\n"
    )
    try:
        importlib.import_module("acme_parts.first")
    except KeyError:
        assert end.startswith("raise")
    assert sys.modules["acme_parts.second"].seen == []
