"""Copies are replaced and restored while other threads import their modules."""

import importlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from composites.registry.validation import parse_registry
from lowering.copies.original import PATCH
from lowering.copies.search import Copy, Search
from lowering.dispatch.compiled_functions import Replacement
from lowering.installation.patches import CopyPatches, Patch, replace_imports

CODE = "def scale(x):\n    return x * 2\n"
COUNT = 40
REGISTRY = """\
schema: 1
namespace: acme
composites:
  scale: {function: "acme_scale:scale", copies: acme_parts, operands: [x]}
"""


@pytest.fixture(autouse=True)
def package(module_folder: Path) -> None:
    (module_folder / "acme_parts").mkdir()
    (module_folder / "acme_scale.py").write_text(CODE)
    for number in range(COUNT):
        (module_folder / "acme_parts" / f"part{number}.py").write_text(CODE)
    importlib.invalidate_caches()


def wrapper(copy: Copy) -> Callable[[Any], Replacement]:
    return lambda original: Replacement(lambda x: original(x) + 1, original)


def patched() -> CopyPatches:
    search = Search(parse_registry(REGISTRY, "acme.yaml").composites)
    patches = CopyPatches(search, (), wrapper)
    patches.install()
    return patches


def parts() -> dict[str, Callable[[int], int]]:
    names = [f"acme_parts.part{number}" for number in range(COUNT)]
    return {name: vars(importlib.import_module(name))["scale"] for name in names}


@pytest.mark.parametrize("run", range(3))
def test_imports_in_other_threads(run: int) -> None:
    threads = [threading.Thread(target=parts) for _ in range(3)]
    before = list(sys.meta_path)
    kept: list[CopyPatches] = []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        kept.append(patched())  # the new patches are made before the old ones are removed
        for old in kept[:-1]:
            old.remove()
        kept[:-1] = []
    for thread in threads:
        thread.join()
    last = patched()
    for old in kept:
        old.remove()
    replaced = parts()
    assert {name: function(3) for name, function in replaced.items()} == dict.fromkeys(replaced, 7)
    last.remove()
    restored = parts()
    assert {name: function(3) for name, function in restored.items()} == dict.fromkeys(restored, 6)
    assert not [name for name, function in restored.items() if PATCH in vars(function)]
    assert {name: function(3) for name, function in replaced.items()} == dict.fromkeys(restored, 6)
    assert sys.meta_path == before


def test_a_wrapper_that_fails_leaves_nothing() -> None:
    before, originals, made = list(sys.meta_path), parts(), []

    def failing(copy: Copy) -> Callable[[Any], Replacement]:
        made.append(copy)
        if len(made) == COUNT // 2:
            raise MemoryError
        return wrapper(copy)

    search = Search(parse_registry(REGISTRY, "acme.yaml").composites)
    patches = CopyPatches(search, (), failing)
    with pytest.raises(MemoryError):
        patches.install()
    patches.remove()
    assert parts() == originals
    assert sys.meta_path == before


def test_a_method_of_a_class_gets_the_class_that_it_is_called_with(tmp_path: Path) -> None:
    code = "class Scaled:\n    factor = 2\n    @classmethod\n    def scale(cls, x):\n"
    (tmp_path / "acme_class.py").write_text(f"{code}        return x * cls.factor\n")
    scaled: Any = importlib.import_module("acme_class").Scaled
    before = vars(scaled)["scale"]
    other: Any = type("Other", (scaled,), {"factor": 5})
    (entry,) = parse_registry(REGISTRY, "acme.yaml").composites

    def adding(number: int) -> Callable[[Any], Replacement]:
        return lambda original: Replacement(lambda cls, x: original(cls, x) + number, original)

    added = []
    for number in (1, 10):  # the second one is there before the first one is removed
        added.append(Patch("acme_class:Scaled.scale", adding(number), entry))
        added[-1].install()
        assert (scaled.scale(3), other.scale(3)) == (6 + number, 15 + number)
    added[0].remove()
    assert other().scale(3) == 25
    added[1].remove()
    assert other.scale(3) == 15
    assert vars(scaled)["scale"].__func__ is before.__func__


def test_a_name_that_another_module_imported_is_replaced_too() -> None:
    """The import can be before the replacement, while it lasts, or after another change."""
    scale = importlib.import_module("acme_scale").scale
    holders = [ModuleType("acme_holder"), ModuleType("unrelated_holder")]
    for holder in holders:
        holder.scale = scale  # type: ignore[attr-defined]
        sys.modules[holder.__name__] = holder
    entry = parse_registry(REGISTRY, "acme.yaml").composites[0]

    def patch(added: int) -> Patch:
        def adding(original: Any) -> Replacement:
            return Replacement(lambda x: original(x) + added, original)

        made = Patch("acme_scale:scale", adding, entry)
        made.install()
        replace_imports([made])
        return made

    try:
        for _ in range(2):
            first = patch(1)
            kept = sys.modules["acme_scale"].scale
            assert [holder.scale(3) for holder in holders] == [7, 7]
            second = patch(2)  # installed before the first one is removed
            first.remove()
            assert [holder.scale(3) for holder in holders] == [8, 8]
            assert kept(3) == 8
            second.remove()
            assert [holder.scale(3) for holder in holders] == [6, 6]
            assert kept(3) == 6
            assert sys.modules["acme_scale"].scale is scale
    finally:
        for holder in holders:
            del sys.modules[holder.__name__]
