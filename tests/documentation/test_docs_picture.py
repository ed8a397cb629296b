"""The picture of how-it-works.md shows packages and imports that exist; architecture.md has all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
RULE = (
    "`composites/` says what is preserved and imports nothing of `lowering/`; `lowering/` says how;"
    " only the face (`composites/__init__.py`, resolved lazily, `composites/nn.py`,"
    " `composites/jax.py`, and the command line) reaches across."
)

(PICTURE,) = re.findall(r"^```mermaid\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
NODES = dict(re.findall(r'^ +(\w+)\["([^"<]+)', PICTURE, re.MULTILINE))
"""The first line of each node's text, by the node's name in the picture."""
IMPORTS = re.findall(r"^ +(\w+) -->(?:\|[^|]+\|)? (\w+)$", PICTURE, re.MULTILINE)
OTHERS = re.findall(r"^ +(\w+) -\.->(?:\|[^|]+\|)? (\w+)$", PICTURE, re.MULTILINE)


def _files(module: str) -> list[Path]:
    place = ROOT / module.replace(".", "/")
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


@cache
def _imported(module: str) -> frozenset[str]:
    """What a module, or any module in a package, imports, under TYPE_CHECKING too."""
    return frozenset(name for path in _files(module) for name in _imports(path))


def _imports(path: Path) -> Iterator[str]:
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            whole = ".".join((*base, *([node.module] if node.module else [])))
            yield from (f"{whole}.{alias.name}" for alias in node.names)


def _needs(importer: str, imported: str) -> bool:
    return any(f"{name}.".startswith(f"{imported}.") for name in _imported(importer))


def test_solid_arrows_are_imports() -> None:
    assert IMPORTS
    for one, other in IMPORTS:
        a, b = NODES[one], NODES[other]
        assert _needs(a, b) or _needs(b, a), f"{a} --> {b}: neither imports the other"


def test_every_arrow_is_read() -> None:
    arrows = [line for line in PICTURE.splitlines() if "->" in line]
    assert len(arrows) == len(IMPORTS) + len(OTHERS)
    assert {end for arrow in IMPORTS + OTHERS for end in arrow} == set(NODES)


def test_every_package_is_in_the_picture() -> None:
    packages = {
        f"{top}.{folder.name}"
        for top in ("composites", "lowering")
        for folder in (ROOT / top).iterdir()
        if folder.is_dir() and any(folder.glob("*.py"))
    }
    modules = {text for text in NODES.values() if re.match(r"(composites|lowering)\.", text)}
    assert packages <= modules
    for module in modules:
        assert all(path.exists() for path in _files(module)), module


def test_the_rule_is_the_first_line_of_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert text.splitlines()[0] == RULE


def test_architecture_has_every_package_and_module() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for top in ("composites", "lowering"):
        for path in sorted((ROOT / top).iterdir()):
            if path.is_dir() and any(path.glob("*.py")):
                assert f"`{top}/{path.name}/`" in text
            elif path.suffix == ".py" and path.stem not in ("__init__", "__main__"):
                assert f"`{top}/{path.name}`" in text
