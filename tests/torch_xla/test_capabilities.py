"""A torch_xla is refused for what it lacks, and not for its version."""

import ast
from pathlib import Path

import pytest
from composites_testing.processes import run_python
from composites_testing.selection import exhaustive

import lowering.frontends.torch_xla as package
from lowering.frontends.torch_xla import capabilities

FOLDER = Path(package.__file__).parent
ALIASES = {
    "_XLAC": "torch_xla._XLAC",
    "xm": "torch_xla.core.xla_model",
    "runtime": "torch_xla.runtime",
    "scan": "torch_xla.experimental.scan",
}
LISTED = {f"{module}.{name}" for module, names in capabilities.NEEDED.items() for name in names}


def names_read(source: str) -> set[str]:
    """Names of torch_xla and torch.library that a module reads, with their module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            if (
                first in ALIASES
                or first == "torch_xla"
                or f"{first}.{rest}".startswith("torch.lib")
            ):
                names.add(f"{ALIASES.get(first, first)}.{rest}")
        elif (
            isinstance(node, ast.ImportFrom) and (node.module or "") == "torch_xla.core.xla_builder"
        ):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "with_attributes":
            owner = ALIASES.get(ast.unparse(node.args[0]))
            names |= {f"{owner}.{keyword.arg}" for keyword in node.keywords if owner}
        elif isinstance(node, ast.Constant) and "_xla_" in repr(node.value)[:6]:
            names.add(f"torch_xla._XLAC.{node.value!s}")  # a name that is read with getattr
    return names


def test_the_list_is_what_the_frontend_reads() -> None:
    read: set[str] = set()
    for path in FOLDER.glob("*.py"):
        if path.stem not in ("capabilities", "__init__"):
            read |= names_read(path.read_text(encoding="utf-8"))
    # A part of a listed name is read with the whole; what is called on a result has brackets.
    unlisted = {name for name in read if not any(listed.startswith(name) for listed in LISTED)}
    assert not {name for name in unlisted if "(" not in name}
    # Methods of a LoweringContext are read of objects.
    assert not {name for name in LISTED - read if ".LoweringContext." not in name}


def test_nothing_is_missing_here() -> None:
    assert capabilities.missing() == ()
    capabilities.check()


@pytest.mark.process
@pytest.mark.parametrize("name", ["_xla_user_computation", *exhaustive("_xla_step_marker")])
def test_a_torch_xla_without_a_name(name: str) -> None:
    """A name is missing where a module is imported, or where the frontend is made."""
    done = run_python(
        f"import torch_xla\ndel torch_xla._XLAC.{name}\ntorch_xla.__version__ = '2.11.0'\n"
        "import composites\n"
        "try:\n    composites.enable('gelu')\n"
        "except composites.MissingPackageError as error:\n    print(error)\n"
        "print(composites.active())"
    )
    message, active = done.stdout.splitlines()
    assert message.startswith(
        f"torch_xla 2.11.0 lacks torch_xla._XLAC.{name}, which composites need; "
    )
    assert active == "()"
