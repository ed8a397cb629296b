"""Calls of a caught method on objects whose class overrides a member that the method calls.

`class Centered(Norm)` may inherit `forward`, which an entry catches, and override `_norm`, which
`forward` calls. A decomposition that the entry names does not follow the override, so the entry
declines such a call. The native decomposition runs the method itself, and needs no check.
"""

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from composites.errors import UnsupportedCallError
from composites.registry.model import Composite
from lowering.copies.members import called_members, overridden
from lowering.frontends.protocols import Kernel

Guard = Callable[[Kernel], Kernel]


def find_owner(target: str) -> Any:
    """The class of a method `package.module:Class.method`, or the module of a function. The module
    must be imported."""
    module, _, path = target.partition(":")
    owner: Any = sys.modules[module]
    for part in path.split(".")[:-1]:
        owner = vars(owner)[part]
    return owner


def make_guard(entry: Composite, original: Any, target: str) -> Guard | None:
    """A function that makes a kernel decline calls on objects that override a member of the method;
    None if the method calls no member that can be overridden, or the decomposition is native."""
    if entry.decomposition.kind == "native":
        return None
    owner = find_owner(target)
    if not isinstance(owner, type) or not isinstance(original, FunctionType):
        return None
    listed = _listed(entry, next(iter(original.__code__.co_varnames), ""))
    called = called_members(original, owner)
    members = {name: value for name, value in called.items() if name not in listed}
    if not members:
        return None
    text = f"has another {{}} than {owner.__name__}, and {original.__name__} uses it"
    expected = tuple((name, getattr(owner, name)) for name in members)  # quickly compared
    # An object may hold another function under the name of a method.
    names = tuple(name for name, value in members.items() if not isinstance(value, property))

    def find_override(cls: type) -> str | None:
        for name, value in expected:
            if getattr(cls, name, None) is not value:
                return overridden(members, cls)
        return None

    # Dynamo does not trace this function, and compiles again for another class.
    torch.compiler.assume_constant_result(find_override)

    def guard(kernel: Kernel) -> Kernel:
        def guarded(value: Any, *arguments: Any, **keywords: Any) -> Any:
            override = find_override(type(value))
            if override is not None:
                raise UnsupportedCallError(f"{type(value).__name__} {text.format(override)}")
            held = value.__dict__ if hasattr(value, "__dict__") else ()
            for name in names:
                getattr(value, name)  # so that Dynamo compiles again for an object that has its own
                if name in held:
                    raise UnsupportedCallError(f"the object {text.format(name)}")
            return kernel(value, *arguments, **keywords)

        return guarded

    return guard


def _listed(entry: Composite, self_name: str) -> set[str]:
    """The attributes that an entry reads from the object. The composite has their values."""
    paths = (*entry.operands, *(a.argument or "" for a in entry.attributes))
    split = (path.partition(".") for path in paths)
    return {name for owner, dot, name in split if dot and owner == self_name}
