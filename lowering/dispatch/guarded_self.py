"""An object that replaces a method's `self` while its body is traced.

The composite of a method depends on what its entry lists: operands such as `self.weight` and
attributes such as `self.eps`. If the body read anything else from `self`, the composite would be
wrong for other objects. Such a read is therefore an error, which says what to list.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any


class UnlistedReadError(Exception):
    """A method's body reads an attribute of `self` that its entry does not list."""


def guarded_self(original: Any, listed: Collection[str], tensors: Mapping[str, Any]) -> Any:
    """A copy of `original` with other tensors. Reading an attribute that is not listed raises an
    error.

    Args:
        listed: attributes that may be read.
        tensors: attributes that are replaced.

    Raises:
        UnlistedReadError: on reading an attribute that is not listed.
    """
    made = copy.copy(original)
    namespace = dict(original.__dict__)
    for registry in ("_parameters", "_buffers"):  # torch.nn.Module checks these before __dict__
        if registry in namespace:
            namespace[registry] = {
                name: value for name, value in namespace[registry].items() if name not in tensors
            }
    namespace.update(tensors)
    object.__setattr__(made, "__dict__", namespace)
    object.__setattr__(made, "__class__", _guarded_class(type(original), tuple(listed)))
    return made


def _guarded_class(original: type[Any], listed: tuple[str, ...]) -> type[Any]:
    def read(self: Any, name: str) -> Any:
        if name[0] != "_" and name not in listed and not callable(getattr(original, name, None)):
            raise UnlistedReadError(
                f"reads self.{name}, which is neither an operand nor an attribute; list it in"
                " `operands` if it is a tensor, otherwise in `attributes` or `when`"
            )
        return original.__getattribute__(self, name)  # type: ignore[call-arg]

    names = {"__getattribute__": read, "__module__": original.__module__}
    return type(original.__name__, (original,), names)
