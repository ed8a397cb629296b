"""Private interfaces stand in one module each, and names of XLA in its frontend alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("composites/**/*.py"), *ROOT.glob("lowering/**/*.py")])
TORCH_INTERNALS = ROOT / "composites" / "torch_internals.py"
# PyTorch's database of samples, which `composites verify` uses.
OPINFO = ROOT / "lowering" / "verification" / "opinfo.py"
JAX = ROOT / "lowering" / "frontends" / "jax" / "internals.py"
TORCH_XLA = ROOT / "lowering" / "frontends" / "torch_xla"
# Members of public objects of torch that are private, and cannot be told by `torch.` before them.
MEMBERS = {"_base", "_can_decompose", "_destroy", "_dispatch_cache", "py_kernels"}


def private_names_of_torch(source: str) -> Iterator[str]:
    """What a module reads of torch whose name starts with an underscore."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from (part for part in parts if part.startswith("_"))
        elif isinstance(node, ast.Attribute):
            path = ast.unparse(node).split(".")
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            if (path[0] == "torch" and private) or node.attr in MEMBERS:
                yield ast.unparse(node)


def private_modules_of_jax(source: str) -> Iterator[str]:
    """The modules of `jax._src` that a module imports."""
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (name for name in names if name.startswith("jax._src"))


def xla_names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if name in ("is_xla", "TorchXla", "_XLAC"):
            yield name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_stands_in_its_place(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    if path not in (TORCH_INTERNALS, OPINFO) and "generated" not in path.parts:
        assert not list(private_names_of_torch(source))
    if path != JAX:
        assert not list(private_modules_of_jax(source))
    if TORCH_XLA not in path.parents:
        assert not list(xla_names(source))


def test_the_scan_finds_what_it_looks_for() -> None:
    assert sorted(private_names_of_torch("import torch\ntorch._C._x\nt._base\n")) == [
        "t._base",
        "torch._C",
        "torch._C._x",
    ]
    assert list(private_names_of_torch("from torch.utils import _pytree\n")) == ["_pytree"]
    assert list(xla_names("t.is_xla\n")) == ["is_xla"]
    assert list(private_modules_of_jax(JAX.read_text(encoding="utf-8")))
    assert list(private_names_of_torch(TORCH_INTERNALS.read_text(encoding="utf-8")))
