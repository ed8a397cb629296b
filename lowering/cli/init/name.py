"""Checks that a name can be used for a vendor's package, its registry's namespace and its
operators."""

import keyword
import re
import sys
from importlib.machinery import PathFinder

from composites.registry.model import BUILTIN_NAMESPACE

# A name of a Python module, a namespace of composites and of torch.library, and a distribution,
# which may not end in an underscore. Names of distributions ignore case, hence small letters.
_NAME = re.compile(r"[a-z]([a-z0-9_]*[a-z0-9])?", re.ASCII)

_OF_PYTORCH = frozenset({"aten", "c10d", "inductor", "prim", "prims", "quantized", "xla"})
"""Namespaces of operators that come with PyTorch and are not names of modules."""


def problem_with(name: str) -> str | None:
    """The reason why a package cannot have a name, with advice; None if it can."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        return (
            f"{name!r} cannot be the name of a package: write small letters, digits and _, with a"
            " letter first and no _ last, that are not keywords of Python, such as acme"
        )
    spec = PathFinder.find_spec(name)
    # A folder without __init__.py has no origin. It is allowed: a clone has the package's name.
    is_module = name in sys.stdlib_module_names or (spec is not None and spec.origin is not None)
    if is_module or name in (BUILTIN_NAMESPACE, *_OF_PYTORCH):
        return f"the name {name!r} is taken; choose another name"
    return None
