"""Paths such as `self.weight`: attributes that an entry reads from an argument of a call."""

from collections.abc import Sequence

from composites.errors import UnusableFunctionError, did_you_mean
from composites.registry.model import Composite
from composites.registry.operators import Argument, Operator


def local(path: str) -> str:
    """The Python name of an argument, or of the value of a path."""
    return path.replace(".", "_")


def read_paths(entry: Composite, operator: Operator) -> list[str]:
    """The paths that an entry reads. The root of each must be an argument.

    Raises:
        UnusableFunctionError: the root of a path is not an argument.
    """
    named = [
        *entry.operands,
        *(a.argument for a in entry.attributes if a.argument is not None),
        *(name for name, _ in entry.when.values),
    ]
    arguments = [argument.name for argument in operator.arguments]
    for name in named:
        root = name.partition(".")[0]
        if root not in arguments:
            raise UnusableFunctionError(
                f"{operator.schema} has no argument {root!r}{did_you_mean(root, arguments)}"
            )
    return list(dict.fromkeys(name for name in named if "." in name))


def is_owner(argument: Argument, entry: Composite, paths: Sequence[str]) -> bool:
    """Return whether an argument is an object from which the entry reads attributes, such as a
    method's `self`, or a class method's `cls`."""
    owned = any(path.startswith(f"{argument.name}.") for path in paths)
    usual = argument.name in ("self", "cls") and argument.name not in entry.operands
    return owned or (usual and argument.kind == "other")
