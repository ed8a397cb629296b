"""An object that replaces a method's `self` while its body is traced.

The composite of a method depends on the operands that its entry lists, such as `self.weight`, and
the attributes, such as `self.eps`. If the body read anything else from `self`, the composite would
be wrong for other objects. Such a read is therefore an error, which says what to list.
"""

import copy
import functools
from collections import UserDict
from collections.abc import Callable, Collection, Mapping
from types import MemberDescriptorType
from typing import Any

import torch

from lowering.copies.members import in_class

_MACHINERY = frozenset(
    name for name in (*vars(torch.nn.Module), *vars(torch.nn.Module())) if name[0] == "_"
)
"""Attributes of torch.nn.Module's own machinery, such as hooks, which all methods read."""

_REGISTRIES = ("_parameters", "_buffers", "_modules")
"""The mappings in which torch.nn.Module keeps attributes beside its `__dict__`."""


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
    if isinstance(original, type):
        return _class_guard(original, tuple(listed), tensors)
    made = copy.copy(original)
    own = object.__getattribute__(original, "__dict__") if hasattr(original, "__dict__") else {}
    guarded = _guarded_class(type(original), tuple(listed), tensors, dict(own))
    object.__setattr__(made, "__class__", guarded)
    if not hasattr(original, "__dict__"):  # a class with `__slots__`, or a named tuple
        return made
    namespace = dict(own)
    for registry in _REGISTRIES:  # torch.nn.Module checks these before __dict__
        if registry in namespace:
            held_there = namespace[registry]
            if isinstance(held_there, _Attributes):  # a guard of a guard
                held_there = held_there.data
            rest = {name: value for name, value in held_there.items() if name not in tensors}
            namespace[registry] = _Registry(rest, tuple(listed))
    namespace.update(tensors)
    object.__setattr__(made, "__dict__", namespace)
    return made


def _is_held(name: str, before: Mapping[str, Any], now: Mapping[str, Any], in_class: Any) -> bool:
    """Return whether an object held an attribute before the body ran, and still holds its value.

    Args:
        before, now: the object's `__dict__`.
        in_class: the attribute of its class with this name; None if the class has none.
    """
    if isinstance(in_class, MemberDescriptorType):
        return True
    if any(name in before.get(registry, ()) for registry in _REGISTRIES):
        return True
    return name in before and now.get(name) is before[name]


def _guarded_class(
    original: type[Any],
    listed: tuple[str, ...],
    tensors: Mapping[str, Any],
    before: Mapping[str, Any],
) -> type[Any]:
    def check(self: Any, name: str) -> None:
        in_class = getattr(original, name, None)
        is_held = name not in _MACHINERY and _is_held(name, before, own(self), in_class)
        if name[0] != "_" or is_held:
            _check_read("self", name, listed, in_class)

    def read(self: Any, name: str) -> Any:
        if name in tensors:
            return tensors[name]
        if name == "__dict__" and original.__dictoffset__ and not copying:
            return _Attributes(own(self), functools.partial(check, self))
        check(self, name)
        return original.__getattribute__(self, name)  # type: ignore[call-arg]

    def reduce(self: Any, protocol: Any) -> Any:
        """Reduce the object for `copy`, which reads all of `__dict__`. The copy is guarded too."""
        copying.append(True)
        try:
            return original.__reduce_ex__(self, protocol)  # type: ignore[call-arg]
        finally:
            copying.pop()

    copying: list[bool] = []

    def own(self: Any) -> dict[str, Any]:
        return object.__getattribute__(self, "__dict__") if original.__dictoffset__ else {}

    names: dict[str, Any] = {"__getattribute__": read, "__module__": original.__module__}
    names |= {"__reduce_ex__": reduce} | _refusals(original)
    if not original.__dictoffset__:
        names["__slots__"] = ()
    # Bypass the metaclass, which may do more when it makes a class, such as register the class.
    bases = (*_quiet_bases(original), original)
    made: type[Any] = type.__new__(type(original), original.__name__, bases, names)
    return made


class _Attributes(UserDict[str, Any]):
    """The `__dict__` of a guarded object: each attribute is checked as it is read."""

    def __init__(self, attributes: dict[str, Any], check: Callable[[str], None]) -> None:
        self.data = attributes  # not a copy: the body sets attributes of the object
        self._check = check

    def __contains__(self, name: object) -> bool:
        self._check(str(name))
        return name in self.data

    def __getitem__(self, name: str) -> Any:
        self._check(name)
        return self.data[name]

    def _refuse(self, *_: Any) -> Any:
        raise UnlistedReadError(
            "reads the contents of self, as a loop over self, len(self) and self[0] do, and"
            " contents differ between objects; pass the values as arguments of a function, or"
            " make composites of the parts"
        )

    __bool__ = __copy__ = __iter__ = __len__ = __or__ = __ror__ = __reversed__ = _refuse
    copy = items = keys = values = pop = popitem = setdefault = _refuse


class _Registry(_Attributes):
    """The submodules, parameters or buffers of a guarded module, each checked as it is read."""

    def __init__(self, content: dict[str, Any], listed: tuple[str, ...]) -> None:
        before = dict(content)

        def check(name: str) -> None:
            if name in before and content.get(name) is before[name]:
                _check_read("self", name, listed, None)

        super().__init__(content, check)


_BUILTINS = (list, tuple, dict, set, frozenset, str, bytes, bytearray, int, float, complex)


def _refusals(original: type[Any]) -> dict[str, Any]:
    """Methods that replace those of a built-in base class and raise an error, because its values
    can differ between objects."""
    base = next((base for base in original.__mro__ if base in _BUILTINS), None)
    if base is None:
        return {}

    def refuse(self: Any, *_: Any, **__: Any) -> Any:
        raise UnlistedReadError(
            f"reads values that self holds as a subclass of {base.__name__}, which differ between"
            " objects; pass them as arguments of a function"
        )

    inherited = (n for n in vars(base) if not hasattr(object, n))
    return {n: refuse for n in inherited if in_class(original, n) is vars(base)[n]}


def _quiet_bases(original: type[Any]) -> tuple[type[Any], ...]:
    """A base that keeps `__init_subclass__` from running and the layout of the object as it is."""
    if any(base in original.__mro__ for base in (_Quiet, _QuietObject)):  # a guard of a guard
        return ()
    offsets = (original.__dictoffset__, original.__weakrefoffset__)
    if all(offsets):
        return (_QuietObject,)
    return () if any(offsets) else (_Quiet,)


def _class_guard(
    original: type[Any], listed: tuple[str, ...], tensors: Mapping[str, Any]
) -> type[Any]:
    """A guard for the class of a class method: a subclass, so that `super()` works."""
    meta: Any = type(original)

    def read(cls: Any, name: str) -> Any:
        if name in tensors:
            return tensors[name]
        if name[0] != "_":  # private attributes are equal for all calls of a composite
            _check_read("cls", name, listed, meta.__getattribute__(original, name))
        return meta.__getattribute__(cls, name)

    guarding = type(meta.__name__, (meta,), {"__getattribute__": read})
    made: type[Any] = type.__new__(
        guarding,
        original.__name__,
        (*(() if _Quiet in original.__mro__ else (_Quiet,)), original),
        {"__module__": original.__module__},
    )
    return made


class _Quiet:
    """Keeps the `__init_subclass__` hook of other bases from running."""

    __slots__ = ()

    def __init_subclass__(cls, **keywords: Any) -> None:
        pass


class _QuietObject:
    """Same as `_Quiet`, for classes without `__slots__`."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        pass


def _check_read(owner: str, name: str, listed: Collection[str], in_class: Any) -> None:
    if name not in listed and not callable(in_class):
        raise UnlistedReadError(
            f"reads {owner}.{name}, which is neither an operand nor an attribute; list it in"
            " `operands` if it is a tensor, otherwise in `attributes` or `when`"
        )
