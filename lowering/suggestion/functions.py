"""Which Python functions ran in a step, with their first calls' arguments.

`sys.setprofile` tells of every call of the thread that runs the step. Functions of user code and of
libraries are kept, and of torch those of `torch.nn` and `torch.optim`. A backward is that of the
function in which autograd made its node.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch

from composites import torch_internals
from composites.errors import UnusableFunctionError
from composites.functions import find_function
from composites.python_syntax import parse_module
from lowering.suggestion.loss import loss_of
from lowering.suggestion.values import Described, describe

LOSS = "the sum of what the module returns"
"""The target of the function that makes a loss, which is no part of the model."""
_OF_TORCH = ("torch.nn.functional", "torch.optim.")
_MODULES = "torch.nn.modules."
_SKIPPED = ("torch", "torch_xla", "typing_extensions", "functorch", "composites", "lowering")


@dataclass(frozen=True, slots=True)
class Reads:
    """What a method reads of its object."""

    values: Mapping[str, Described]
    """By name of the attribute."""
    written: tuple[str, ...] = ()
    """Attributes that it assigns."""
    unknown: str = ""
    """Why it cannot be said what is read."""


@dataclass(frozen=True, slots=True)
class Returned:
    """What the calls of a function returned."""

    tensors: int
    """Those of the first call."""
    only_tensors: bool
    """Of all calls."""
    differentiable: bool
    """Of any call."""


@dataclass(slots=True, eq=False)
class Function:
    """A function that ran."""

    target: str
    """`package.module:Class.method`."""
    code: CodeType
    was_called: bool = False
    arguments: dict[str, Described] = field(default_factory=dict)
    """Those of its first call."""
    objects: dict[str, Reads] = field(default_factory=dict)
    """What it reads of the arguments that are objects."""
    returned: Returned | None = None
    problem: str = ""
    """Why an entry cannot name it."""


@dataclass(slots=True, eq=False)
class Invocation:
    """One call of a function."""

    function: Function
    caller: int | None
    """The number of the invocation that it is in."""
    first_node: int
    """The number of the first node of autograd that was made in it, if any was."""
    end_node: int = 0


@dataclass(slots=True, eq=False)
class Functions:
    """The calls of functions of one thread, in the order in which they began."""

    label: Callable[[str], AbstractContextManager[None]]
    """Labels what is called in an invocation with its number."""
    invocations: list[Invocation] = field(default_factory=list)
    _known: dict[CodeType, Function | None] = field(default_factory=dict)
    _stack: list[tuple[FrameType, int, AbstractContextManager[None]]] = field(default_factory=list)
    _of_node: dict[int, int] | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A context in which the calls of this thread are kept."""
        before = sys.getprofile()
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(before)
            while self._stack:  # an error has ended the step
                self._leave()

    @property
    def current(self) -> int | None:
        """The number of the innermost call that runs."""
        return self._stack[-1][1] if self._stack else None

    def of_node(self, number: int) -> int | None:
        """The number of the innermost call in which autograd made a node."""
        if self._of_node is None:
            # Callers come before what they call, which is written over them.
            self._of_node = {
                node: n
                for n, invocation in enumerate(self.invocations)
                for node in range(invocation.first_node, invocation.end_node)
            }
        return self._of_node.get(number)

    def within(self, number: int | None) -> Iterator[int]:
        """A call and those that it is in."""
        while number is not None:
            yield number
            number = self.invocations[number].caller

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            if code not in self._known:
                self._known[code] = _function_of(frame)
            function = self._known[code]
            if function is not None:
                self._enter(frame, function)
        elif event == "return" and self._stack and self._stack[-1][0] is frame:
            invocation = self._leave()
            function = invocation.function
            function.returned = _returned(argument, function.returned)

    def _enter(self, frame: FrameType, function: Function) -> None:
        first = torch_internals.sequence_number()
        if not function.was_called:
            function.was_called = True
            _describe_call(function, frame)
        number = len(self.invocations)
        self.invocations.append(Invocation(function, self.current, first))
        label = self.label(str(number))
        label.__enter__()
        self._stack.append((frame, number, label))
        self._of_node = None

    def _leave(self) -> Invocation:
        _, number, label = self._stack.pop()
        label.__exit__(None, None, None)
        invocation = self.invocations[number]
        invocation.end_node = torch_internals.sequence_number()
        return invocation


def _function_of(frame: FrameType) -> Function | None:
    code, module = frame.f_code, frame.f_globals.get("__name__", "")
    package = module.partition(".")[0]
    if code is loss_of.__code__:
        return Function(LOSS, code, problem="it is no part of the model")
    if (
        code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
        or "<" in code.co_qualname  # of lambdas, comprehensions, and functions in functions
        or code.co_name.startswith("__")
        or code.co_filename.startswith("<")
        or package in sys.stdlib_module_names
        or (package in _SKIPPED and not _is_kept_of_torch(module, code.co_name))
    ):
        return None
    made = Function(f"{module}:{code.co_qualname}", code)
    made.problem = _unnamable(made)
    return made


def _is_kept_of_torch(module: str, name: str) -> bool:
    return module.startswith(_OF_TORCH) or (module.startswith(_MODULES) and name == "forward")


def _unnamable(function: Function) -> str:
    """Why `function:` of an entry cannot name a function; empty if it can."""
    if function.target.partition(":")[0] == "__main__":
        return "it is in the program that runs; move it to a module"
    try:
        found = find_function(function.target)
    except UnusableFunctionError as error:
        return str(error)
    if getattr(inspect.unwrap(found), "__code__", None) is not function.code:
        return "its name means another function"
    try:
        signature = inspect.signature(found)
    except ValueError:
        return "its signature cannot be read"
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            return f"it takes {stars}{parameter.name}, and arguments of an entry need names"
    return ""


def _describe_call(function: Function, frame: FrameType) -> None:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values = {name: frame.f_locals[name] for name in names if name in frame.f_locals}
    for name, value in values.items():
        function.arguments[name] = describe(value)
        if not isinstance(value, torch.Tensor | bool | int | float | str | list | tuple | dict):
            function.objects[name] = _reads(function.code, name, value)


def _returned(value: Any, before: Returned | None) -> Returned:
    items = list(value) if isinstance(value, tuple | list) else [value]
    tensors = [item for item in items if isinstance(item, torch.Tensor)]
    only_tensors = bool(items) and len(tensors) == len(items)
    differentiable = any(tensor.requires_grad for tensor in tensors)
    if before is None:
        return Returned(len(tensors), only_tensors, differentiable)
    return Returned(
        before.tensors,
        before.only_tensors and only_tensors,
        before.differentiable or differentiable,
    )


def _reads(code: CodeType, name: str, value: Any) -> Reads:
    """What a function, and methods that it calls on the object, read of an argument."""
    with torch_internals.without_modes():  # a property may call operators
        return _read_in(code, name, value)


def _read_in(code: CodeType, name: str, value: Any) -> Reads:
    found: dict[str, Described] = {}
    written: list[str] = []
    pending, seen = [(code, name)], {code}
    while pending:
        current, called = pending.pop()
        try:
            tree = parse_module(textwrap.dedent(inspect.getsource(current)))
        except (OSError, SyntaxError, TypeError):
            return Reads(found, unknown=f"the source of {current.co_qualname} is not there")
        for node in ast.walk(tree):
            if not (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == called
            ):
                continue
            if not isinstance(node.ctx, ast.Load):
                written.append(node.attr)
                continue
            member = getattr(type(value), node.attr, None)
            if callable(member):
                inner = getattr(inspect.unwrap(member), "__code__", None)
                if inner is not None and inner not in seen and inner.co_varnames:
                    seen.add(inner)
                    pending.append((inner, inner.co_varnames[0]))
            elif node.attr not in found and hasattr(value, node.attr):  # else it is not reached
                found[node.attr] = describe(getattr(value, node.attr))
    return Reads(found, tuple(dict.fromkeys(written)))
