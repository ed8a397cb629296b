"""Checks of a name: whether it can be that of a vendor's package, of its registry's namespace, and
of its operators."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distribution

from composites.registry.model import BUILTIN_NAMESPACE
from composites.registry.packages import Announced, announced

# A Python module, a namespace of composites and of torch.library, and a distribution, which may not
# end in an underscore. Small letters, because distributions that differ in case only are one.
_NAME = re.compile(r"[a-z]([a-z0-9_]*[a-z0-9])?", re.ASCII)

_OF_PYTORCH = frozenset({"aten", "c10d", "inductor", "prim", "prims", "quantized", "xla"})
"""Namespaces of operators that come with PyTorch and are not names of modules."""


def problem_with(name: str) -> str | None:
    """The reason why a package cannot have this name, and what to do; None if it can."""
    if not _NAME.fullmatch(name):
        return (
            f"{name!r} cannot be the name of a package: write small letters, digits and _, with a"
            f" letter first and no _ last{_instead(name)}"
        )
    if keyword.iskeyword(name):
        return f"{name!r} is a keyword of Python; choose another name{_instead(f'{name}_chip')}"
    taken = _taken_by(name)
    return None if taken is None else f"the name {name!r} is taken by {taken}; choose another name"


def _instead(name: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_").lstrip("0123456789_")
    return f", such as {words}" if _NAME.fullmatch(words) else ", such as acme"


def _taken_by(name: str) -> str | None:
    """The owner of a name that means something here already; None if nothing has it."""
    if name == BUILTIN_NAMESPACE:
        return "the built-in registry"
    if name in _OF_PYTORCH:
        return "operators of PyTorch"
    if name in sys.stdlib_module_names:
        return "a module of Python"
    for package in announced():
        if isinstance(package, Announced) and package.namespace == name:
            return f"the registry of the installed package {package.package}"
    try:
        return f"the installed package {distribution(name).name}"
    except PackageNotFoundError:
        pass
    spec = PathFinder.find_spec(name)
    # A folder without __init__.py has no origin. It takes nothing: a clone has the package's name.
    return f"the module {spec.origin}" if spec is not None and spec.origin is not None else None
