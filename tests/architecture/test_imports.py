"""Private interfaces stand in one module each, imported packages are declared, words are plain."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("composites/**/*.py"), *ROOT.glob("lowering/**/*.py")])
EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
TORCH_INTERNALS = ROOT / "composites" / "torch_internals.py"
# PyTorch's database of samples, which `composites verify` uses.
OPINFO = ROOT / "lowering" / "verification" / "opinfo.py"
JAX = ROOT / "lowering" / "frontends" / "jax" / "internals.py"
TORCH_XLA = ROOT / "lowering" / "frontends" / "torch_xla"
# Members of public objects of torch that are private, and cannot be told by `torch.` before them.
MEMBERS = {"_base", "_can_decompose", "_destroy", "_dispatch_cache", "py_kernels"}
NAMES_OF_XLA = {"is_xla", "TorchXla", "_XLAC"}
# Packages whose import has another name; `_XLAC` and `pydantic_core` are extension modules.
DISTRIBUTIONS = {"google": "protobuf", "yaml": "pyyaml", "_XLAC": "torch_xla"}
DISTRIBUTIONS["pydantic_core"] = "pydantic"
DISTRIBUTIONS["iree"] = "iree_base_compiler"
BANNED_NAMES = {"found", "given", "of", "wanted"}
BANNED_BEGINNINGS = re.compile(r"\A(?:What|Whether|Which|That|Those|Whose)\b")
BANNED_PHRASES = re.compile(
    r"(?<!here )\b(?:is|are) no (?!longer|more|less)\w+|(?<=[.] )(?:That|Those) of|warned of"
    r"|without a sign|that are spread|with a wide result|sums of sorts"
)


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def private_names_of_torch(tree: ast.AST) -> Iterator[str]:
    """The names of torch that start with an underscore, where a module reads them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from (part for part in parts if part.startswith("_"))
        elif isinstance(node, ast.Attribute) and (_is_private(node.attr) or node.attr in MEMBERS):
            path = ast.unparse(node)
            if path.startswith("torch.") or node.attr in MEMBERS:
                yield path


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def names_of_xla(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        yield from {getattr(node, "attr", getattr(node, "id", ""))} & NAMES_OF_XLA


def banned_words(text: str, tree: ast.AST) -> Iterator[str]:
    yield from BANNED_PHRASES.findall(" ".join(text.replace("#", " ").split()))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from BANNED_BEGINNINGS.findall(ast.get_docstring(node) or "")
        name = getattr(node, "id", getattr(node, "arg", getattr(node, "name", "")))
        yield from {name} & BANNED_NAMES


def out_of_place(path: Path, tree: ast.AST) -> Iterator[str]:
    """The private interfaces that a module must not touch, and does."""
    if path not in (TORCH_INTERNALS, OPINFO) and "generated" not in path.parts:
        yield from private_names_of_torch(tree)
    if path != JAX:
        yield from (name for name in imported(tree) if name.startswith("jax._src"))
    if TORCH_XLA not in path.parents:
        yield from names_of_xla(tree)


def distribution(requirement: str) -> str:
    """`ml_dtypes` of `ml_dtypes>=0.5,<0.7`."""
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("-", "_")


def test_private_interfaces_and_imported_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    declared = {distribution(r) for r in sum(extras, project["dependencies"])}
    allowed = declared | {"composites", "lowering", ""} | sys.stdlib_module_names
    wrong: dict[str, list[str]] = {}
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        packages = {name.partition(".")[0] for name in imported(tree)}
        undeclared = {DISTRIBUTIONS.get(name, name) for name in packages} - allowed
        if problems := [*out_of_place(path, tree), *sorted(undeclared)]:
            wrong[str(path.relative_to(ROOT))] = problems
    assert wrong == {}


def test_banned_words() -> None:
    wrong: dict[str, list[str]] = {}
    for path in (*SOURCES, *EXAMPLES, *PAGES):
        text = path.read_text(encoding="utf-8")
        words = list(banned_words(text, ast.parse(text if path.suffix == ".py" else "")))
        wrong |= {str(path.relative_to(ROOT)): words} if words else {}
    assert wrong == {}


def test_no_two_public_classes_have_one_name() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    names = re.findall(r"^ *class ([A-Z]\w*)[(:\[]", text, re.MULTILINE)
    assert sorted(names) == sorted(set(names))


def test_the_scans_find_private_interfaces_and_banned_words() -> None:
    text = 'def of(found):\n    """What it is. There is no x. That of y is no z."""'
    assert [*banned_words(text, ast.parse(text))] == ["That of", "is no z", "What", "of", "found"]
    names = private_names_of_torch(ast.parse("import torch\ntorch._C._x\nt._base\n"))
    assert sorted(names) == ["t._base", "torch._C", "torch._C._x"]
    assert list(private_names_of_torch(ast.parse("from torch.utils import _pytree\n")))
    assert list(names_of_xla(ast.parse("t.is_xla\n"))) == ["is_xla"]
    internals = list(imported(ast.parse(JAX.read_text(encoding="utf-8"))))
    assert any(name.startswith("jax._src") for name in internals)
