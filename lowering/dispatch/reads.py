"""Values that a Python function reads besides its arguments: variables of modules and of
enclosing functions, and settings of PyTorch.

A composite is traced once, and holds the values that its function read then. These values are
therefore a part of the key of a call: after a change, the function is traced again. The code of the
function says which variables it reads, and so does the code of the functions that it calls, if they
belong to the same package or to no installed package.
"""

import dis
import functools
import inspect
import logging
import os
import reprlib
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    EllipsisType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any

import numpy as np
import torch

from composites.attribute_types import key_of
from composites.errors import LoweringError
from lowering.copies.members import in_class
from lowering.copies.original import original_function

Key = tuple[tuple[str, Hashable], ...]
"""The names that a function reads, as written in its code, and a key of each value."""

_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_CELLS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_WITHOUT_EFFECT = ("CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL")

_MOST_VALUES = 256
"""Number of values that the key of one variable can have."""
_MOST_LEVELS = 8
_MOST_BYTES = 1 << 14
"""Size of a NumPy array whose values can be part of a key."""

_SIMPLE = (
    int, float, complex, str, bytes, NoneType, EllipsisType, range, Enum, np.dtype, np.generic,
    torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip
"""Types of values that are compared by value."""
_NUMBERS = frozenset({int, float, bool, str, NoneType, torch.dtype})
"""The most frequent types of such values."""
_UNCHANGING = (
    type, ModuleType, FunctionType, BuiltinFunctionType, staticmethod, classmethod, logging.Logger,
)  # fmt: skip
"""Types of values that are compared by identity."""
_CONTAINERS = (list, dict, set, deque)
_WRITES = frozenset(
    {"add", "append", "appendleft", "clear", "extend", "insert", "remove", "update", "discard"}
)
"""Methods of containers that a function can call without reading the container."""
_REGISTRIES = ("_parameters", "_buffers", "_modules")

_SETTINGS = (
    torch.get_default_dtype,
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.are_deterministic_algorithms_enabled,
    torch.get_float32_matmul_precision,
)
"""Functions whose results are a part of the key of their callers."""

_FRAMEWORKS = frozenset({"torch", "torch_xla", "jax", "jaxlib", "composites", "lowering"})
_LIBRARIES = _FRAMEWORKS | {"numpy"} | sys.stdlib_module_names - {"__main__"}
_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of packages that are not the user's own."""
_RUN_BY_CALLS = ("__init__", "__call__", "forward", "backward", "setup_context")
"""Methods that run where a class or an object of it is called."""

_MISSING = object()
_STOP = object()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The key of a value that is not compared."""

    reason: str


class _UnreadableError(Exception):
    """A value is not compared."""


@dataclass(frozen=True, slots=True, eq=False)
class _Identity:
    """A key of a value that is equal to nothing else. It keeps the value."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True)
class _Path:
    """A variable, and the attributes and constant keys by which code reads a part of its value."""

    root: str
    kind: str
    """`global`, `cell`, or `module` for an import inside of the function."""
    steps: tuple[tuple[bool, Any], ...] = ()
    """For each step: True if it is an attribute, and its name or key."""

    def then(self, is_attribute: bool, name: Any) -> "_Path":
        return _Path(self.root, self.kind, (*self.steps, (is_attribute, name)))

    def __str__(self) -> str:
        steps = (f".{name}" if is_attribute else f"[{name!r}]" for is_attribute, name in self.steps)
        return "".join((self.root, *steps))


class Reads:
    """The variables that one function reads, with their values now.

    Args:
        function: the function, with its callees.
        functions_only: count only the Python functions that it calls.
    """

    def __init__(self, function: Callable[..., Any], *, functions_only: bool = False) -> None:
        self._function = function
        self._functions_only = functions_only
        self._written: frozenset[str] = frozenset()
        self._cached: dict[type | None, _ReadValues] = {}
        self._guards: dict[tuple[_Path, int], FunctionType] = {}

    def now(self, owner: type | None = None) -> Key:
        """A key of the current values. With equal keys, the function computes the same.

        Args:
            owner: the class of the object, if the function is a method.
        """
        return self._current(owner).key

    def _current(self, owner: type | None) -> "_ReadValues":
        values = self._cached.get(owner)
        if values is None or not values.holds():
            values = self._cached[owner] = self._read(owner)
        return values

    def _read(self, owner: type | None) -> "_ReadValues":
        walk = _Walk(self._function, owner, functions_only=self._functions_only)
        sources = tuple(walk.sources.values())
        changing = Unreadable("which it changes")
        key = tuple((s.name, changing if s.name in self._written else s.key) for s in sources)
        return _ReadValues(key, [s for s in sources if s.name not in self._written])

    def guards(self) -> list[FunctionType] | None:
        """Functions that read the variables in their scopes, for Dynamo to trace: it then traces
        the graph again after a change. None if Dynamo cannot follow a value.

        A variable has the same function each time, because Dynamo drops graphs whose guards name a
        function that no longer exists.
        """
        guards: list[FunctionType] = []
        for source in self._current(None).sources:
            if source.scope is not None:
                if not source.is_constant or isinstance(source.value, torch.Tensor):
                    return None
                assert source.path is not None
                variable = source.path, id(source.scope)
                if variable not in self._guards:
                    self._guards[variable] = _guard(source)
                guards.append(self._guards[variable])
        return guards

    def refuse_written(self, before: Key, owner: type | None = None) -> str | None:
        """The reason why the function cannot be a composite: it changed a value that it reads.

        From then on, such a value has no key.
        """
        changed = first_change(before, self.now(owner))
        if changed is None:
            return None
        self._written |= {changed[0]}
        self._cached = {}
        return refusal(self.now(owner))

    def check(self, before: Key, entry: str, owner: type | None = None) -> None:
        """Check that the values have not changed since a forward, whose backward is traced now.

        Raises:
            LoweringError: a value has changed.
        """
        changed = first_change(before, self.now(owner))
        if changed is not None:
            name, then, now = changed
            raise LoweringError(
                f"{entry}: {name} has changed from {_text(then)} to {_text(now)} since the forward,"
                " and its backward would be computed with the new value; change it after the"
                " backward, or pass it as an argument"
            )


def refusal(key: Key) -> str | None:
    """The reason why a function of these values cannot be a composite; None if it can be."""
    for name, value in key:
        if isinstance(value, Unreadable):
            return f"it reads {name}, {value.reason}; pass what it needs of it as an argument"
    return None


def first_change(before: Key, after: Key) -> tuple[str, Any, Any] | None:
    """The first name whose value differs, with the old and the new value."""
    for then, now in zip_longest(before, after):
        if then != now:
            name = (then or now)[0]
            return name, then and then[1], now[1] if now and now[0] == name else None
    return None


def _text(key: Any) -> str:
    """The text for a value in messages, from its key."""
    value = key.value if isinstance(key, _Identity) else key
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], type):
        value = value[1]
    return str(getattr(value, "__qualname__", None) or reprlib.repr(value))


@dataclass(frozen=True, slots=True)
class _Source:
    """One variable, and the values that were read from it."""

    name: str
    read: Callable[[], Any]
    path: _Path | None
    scope: dict[str, Any] | CellType | None
    """The global variables, or the variable of an enclosing function; None for a setting."""
    value: Any
    key: Hashable
    is_constant: bool
    """True if the value itself cannot change."""


def _guard(source: _Source) -> FunctionType:
    """A function that reads one variable in its scope."""
    path, scope = source.path, source.scope
    assert path is not None
    read = f"lambda: {path} is {path}"
    if isinstance(scope, CellType):
        outer = compile(f"lambda {path.root}: {read}", "<guard>", "eval").co_consts[0]
        inner = next(c for c in outer.co_consts if isinstance(c, CodeType))
        return FunctionType(inner, globals(), "guard", (), (scope,))
    assert scope is not None
    return FunctionType(compile(read, "<guard>", "eval").co_consts[0], scope)


class _ReadValues:
    """The key of values that were read, and the variables that hold them."""

    def __init__(self, key: Key, sources: Sequence[_Source]) -> None:
        self.key = key
        self.sources = sources
        self._constants = [(s.read, s.value) for s in sources if s.is_constant]
        self._variable_values = [(s.read, s.key) for s in sources if not s.is_constant]

    def holds(self) -> bool:
        """Return whether reading again would give the same values."""
        for read, value in self._constants:
            if read() is not value:
                return False
        return all(_Keyed(read()).key == key for read, key in self._variable_values)


class _Walk:
    """The variables that a function and its callees read."""

    def __init__(
        self, function: Callable[..., Any], owner: type | None, *, functions_only: bool
    ) -> None:
        self._owner = owner
        self.sources: dict[Hashable, _Source] = {}
        self._root = inspect.unwrap(function)
        self._package = _origin(self._root)[0]
        self._functions_only = functions_only
        self._followed: set[int] = set()
        if not functions_only:  # the dtype of numbers that become tensors
            setting = torch.get_default_dtype
            self._add(setting, "torch.get_default_dtype()", setting, None, None)
        self.follow(function)

    def follow(self, value: Any) -> None:
        """Add the variables that a function reads if its code counts; for a class or an object, add
        those of the methods that run when it is called."""
        value = original_function(value)
        if value is None or id(value) in self._followed:
            return
        self._followed.add(id(value))
        if isinstance(value, functools.partial):
            self.follow(value.func)
        elif isinstance(value, MethodType | staticmethod | classmethod):
            self.follow(value.__func__)
        elif isinstance(value, property):
            self.follow(value.fget)
        elif isinstance(value, FunctionType):
            self.follow(getattr(value, "__wrapped__", None))
            if self._counts(value):
                self._variables(value)
                self._members(value)
        else:
            owner = value if isinstance(value, type) else type(value)
            if self._counts(owner):
                for name in _RUN_BY_CALLS:
                    self.follow(vars(owner).get(name))

    def _counts(self, value: Any) -> bool:
        """Return whether an object belongs to the user's code, or to the package of the
        function."""
        package, file = _origin(value)
        if package in _LIBRARIES:
            return value is self._root
        return package == self._package or not _INSTALLED & set(PurePath(file).parts)

    def _variables(self, function: FunctionType) -> None:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        variables = function.__globals__
        module = variables.get("__name__", "")
        prefix = "" if module == _module(self._root) else f"{module}."
        for path in _paths(function.__code__):
            if path.kind == "cell" and path.root in cells:
                cell = cells[path.root]
                self._variable("", cell, path, functools.partial(_content, cell))
            elif path.kind == "module":
                root = functools.partial(sys.modules.get, path.root)
                self._variable("", sys.modules, path, root)
            elif path.kind == "global" and path.root in variables:
                root = functools.partial(variables.get, path.root, _MISSING)
                self._variable(prefix, variables, path, root)

    def _members(self, function: FunctionType) -> None:
        """Add the class attributes whose names a method reads from any object."""
        bases = () if self._owner is None else self._owner.__mro__
        for name in function.__code__.co_names:
            for base in bases:
                member = vars(base).get(name)
                if isinstance(member, (*_SIMPLE, *_CONTAINERS)) and member is not None:
                    read = functools.partial(vars(base).get, name)
                    self._add((base, name), f"{base.__name__}.{name}", read, None, None)
                else:
                    self.follow(member)

    def _variable(
        self, prefix: str, scope: dict[str, Any] | CellType, path: _Path, root: Callable[[], Any]
    ) -> None:
        value, rest, module = _resolved(root(), path.steps)
        if isinstance(value, ModuleType):
            return
        if module is not None and not self._counts(module):
            if not rest and any(value is setting for setting in _SETTINGS):
                self._add(value, f"{path}()", value, None, None)
            return
        if rest and rest[0][0] and rest[0][1] in _WRITES and isinstance(value, _CONTAINERS):
            return
        counted = (FunctionType, torch.Tensor, torch.nn.Module)
        if self._functions_only and not isinstance(value, counted):
            return
        taken = _Path(path.root, path.kind, path.steps[: len(path.steps) - len(rest)])
        read = functools.partial(_value, root, taken.steps) if taken.steps else root
        self._add((id(scope), taken), f"{prefix}{taken}", read, taken, scope)
        if rest and rest[0][0]:
            self.follow(in_class(type(value), rest[0][1]))

    def _add(
        self,
        owner: Hashable,
        name: str,
        read: Callable[[], Any],
        path: _Path | None,
        scope: dict[str, Any] | CellType | None,
    ) -> None:
        if owner in self.sources:
            return
        value = read()
        keyed = _Keyed(value)
        self.sources[owner] = _Source(name, read, path, scope, value, keyed.key, keyed.is_constant)
        for called in keyed.called:
            self.follow(called)


def _origin(value: Any) -> tuple[str, str]:
    """The package of a function, class or module, and its file."""
    module = sys.modules.get(_module(value))
    file = getattr(module, "__file__", None)
    if isinstance(value, FunctionType):
        file = value.__code__.co_filename
    return _module(value).partition(".")[0], file or ""


def _module(value: Any) -> str:
    """The name of the module in which a function or class is defined, or of a module."""
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, FunctionType):
        return str(value.__globals__.get("__name__", ""))
    return str(getattr(value, "__module__", None) or "")


# ---- variables that code reads ----


@functools.lru_cache(maxsize=1024)
def _paths(code: CodeType) -> tuple[_Path, ...]:
    """The variables that code reads from outside, with the attributes that it reads of them."""
    return tuple(dict.fromkeys(_read_by(code, frozenset(code.co_freevars))))


def _read_by(code: CodeType, free: frozenset[str]) -> Iterator[_Path]:
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _WITHOUT_EFFECT]
    imported: dict[str, _Path] = {}
    """Local variables that hold a module, or a value imported from a module."""
    module: _Path | None = None
    n = 0
    while n < len(instructions):
        name, argument = instructions[n].opname, instructions[n].argval
        n += 1
        path = None
        if name == "LOAD_CONST" and isinstance(argument, CodeType):
            yield from _read_by(argument, free - set(argument.co_cellvars))
        elif name in _GLOBALS:
            path = _Path(argument, "global")
        elif name in _CELLS and argument in free and argument != "__class__":
            path = _Path(argument, "cell")
        elif name == "IMPORT_NAME":
            path = module = _Path(argument, "module")
        elif name == "IMPORT_FROM" and module is not None:
            path = module.then(True, argument)
        elif name.startswith("LOAD_FAST") and argument in imported:
            path = imported[argument]
        if path is None:
            continue
        while n < len(instructions):
            steps, count = _steps(instructions[n : n + 2])
            if not count:
                break
            n += count
            for step in steps:
                path = path.then(*step)
        is_stored = n < len(instructions) and instructions[n].opname == "STORE_FAST"
        if is_stored and path.kind == "module":
            imported[instructions[n].argval] = path
        yield path


def _steps(following: Sequence[dis.Instruction]) -> tuple[list[tuple[bool, Any]], int]:
    """The part of a loaded value that code reads, and the number of instructions for it."""
    first, *rest = following
    second = rest[0] if rest else None
    constant = second is not None and second.opname in _CONSTANTS
    if first.opname in _ATTRIBUTES and first.argval == "get" and constant:
        return [(False, rest[0].argval)], 2
    if first.opname in _ATTRIBUTES and first.argval == "getenv" and constant:
        return [(True, "environ"), (False, rest[0].argval)], 2
    if first.opname in _ATTRIBUTES:
        return [(True, first.argval)], 1
    is_item = second is not None and (
        second.opname == "BINARY_SUBSCR" or (second.opname, second.argrepr) == ("BINARY_OP", "[]")
    )
    if first.opname in _CONSTANTS and is_item:
        return [(False, first.argval)], 2
    return [], 0


def _resolved(
    value: Any, steps: Sequence[tuple[bool, Any]]
) -> tuple[Any, Sequence[tuple[bool, Any]], ModuleType | None]:
    """The value after the leading steps that run no code, the remaining steps, and the module whose
    attribute the value is, if any."""
    module = None
    for n, (is_attribute, name) in enumerate(steps):
        after = _attribute(value, name) if is_attribute else _item(value, name)
        if after is _STOP:
            return value, steps[n:], module
        module = value if isinstance(value, ModuleType) else None
        value = after
    return value, (), module


def _value(root: Callable[[], Any], steps: Sequence[tuple[bool, Any]]) -> Any:
    return _resolved(root(), steps)[0]


def _attribute(value: Any, name: str) -> Any:
    """An attribute, if reading it runs no code."""
    if isinstance(value, ModuleType):
        return vars(value).get(name, _STOP)
    if isinstance(value, type):
        member = in_class(value, name, _STOP)
        if issubclass(value, Enum):
            member = value.__members__.get(name, member)
        return member.__func__ if isinstance(member, staticmethod | classmethod) else member
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict) and name in held:
        return held[name]
    member = in_class(type(value), name, _STOP)
    return member if isinstance(member, _SIMPLE) else _STOP


def _item(value: Any, key: Any) -> Any:
    """An item, if reading it runs no code."""
    if type(value) is dict or value is os.environ:
        return value.get(key, _MISSING)
    if type(value) in (list, tuple) and type(key) is int and -len(value) <= key < len(value):
        return value[key]
    return _STOP


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable of an enclosing function that has no value yet
        return _MISSING


# ---- keys of values ----


class _Keyed:
    """A value as a part of a key, with all values that it holds."""

    def __init__(self, value: Any) -> None:
        self.is_constant = True
        self.called: list[Any] = []
        """The functions, classes and objects in it that may be called."""
        self._left = _MOST_VALUES
        try:
            self.key = self._key(value)
        except _UnreadableError as error:
            self.key, self.is_constant, self.called = Unreadable(str(error)), False, []

    def _key(self, value: Any, depth: int = 0) -> Hashable:
        self._left -= 1
        if self._left < 0 or depth > _MOST_LEVELS:
            raise _UnreadableError(f"which holds more than {_MOST_VALUES} values")
        if type(value) in _NUMBERS or isinstance(value, _SIMPLE):
            return key_of(value)
        if isinstance(value, torch.Tensor):
            return ("tensor", value.shape, value.dtype)
        if value is _MISSING or isinstance(value, _UNCHANGING):
            self.called.append(value)
            return _Identity(original_function(value))
        if isinstance(value, functools.partial | MethodType):
            self.called.append(value)
            parts = (
                (value.func, value.args, value.keywords)
                if isinstance(value, functools.partial)
                else (value.__func__, value.__self__)
            )
            return (type(value), *(self._key(part, depth + 1) for part in parts))
        if isinstance(value, tuple):
            return (type(value), *(self._key(item, depth + 1) for item in value))
        self.is_constant = False
        if isinstance(value, list | deque):
            return (type(value), *(self._key(item, depth + 1) for item in value))
        if type(value) is dict:
            items = ((self._key(k, depth + 1), self._key(v, depth + 1)) for k, v in value.items())
            return (dict, *items)
        if isinstance(value, set | frozenset):
            return (type(value), frozenset(self._key(item, depth + 1) for item in value))
        if isinstance(value, np.ndarray) and value.nbytes <= _MOST_BYTES:
            return (np.ndarray, value.shape, value.dtype, value.tobytes())
        if isinstance(value, ContextVar):
            return (ContextVar, self._key(value.get(None), depth + 1))
        package = _module(type(value)).partition(".")[0]
        if package in _FRAMEWORKS and not isinstance(value, torch.nn.Module):
            return _Identity(value)
        return self._object_key(value, depth)

    def _object_key(self, value: Any, depth: int) -> Hashable:
        """A key of all values that an object holds."""
        held = dict(getattr(value, "__dict__", {}))
        if isinstance(value, torch.nn.Module):  # without its hooks
            held = {n: v for n, v in held.items() if n[0] != "_" or n in _REGISTRIES}
        held |= {
            name: getattr(value, name)
            for owner in type(value).__mro__
            if "__slots__" in vars(owner)
            for name, member in vars(owner).items()
            if isinstance(member, MemberDescriptorType) and hasattr(value, name)
        }
        items = dict(value) if isinstance(value, dict) else {}
        if not (held or items or isinstance(value, dict) or hasattr(value, "__dict__")):
            raise _UnreadableError(f"a {type(value).__qualname__}, which is not compared")
        self.called.append(value)
        return (
            type(value),
            *((name, self._key(item, depth + 1)) for name, item in held.items()),
            *((self._key(k, depth + 1), self._key(v, depth + 1)) for k, v in items.items()),
        )
