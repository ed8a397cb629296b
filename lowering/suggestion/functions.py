"""Python functions that run in a step, with the arguments of their first calls.

`sys.setprofile` reports every call of the thread that runs the step. Functions of user code and of
libraries are kept, and of torch those of `torch.nn` and `torch.optim`. A backward belongs to the
function in which autograd made its node.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch

from composites import torch_internals
from composites.python_syntax import parse_module
from composites.registry.model import Tensor
from lowering.frontends.protocols import Labels
from lowering.suggestion.loss import loss_of
from lowering.suggestion.values import Other, describe

LOSS = "the sum of what the module returns"
"""The target of the function that makes a loss, which is no part of the model."""
FUNCTION = "f"
"""The beginning of the labels."""
_OF_TORCH = ("torch.nn.functional", "torch.optim.")
_MODULES = "torch.nn.modules."
_SKIPPED = ("torch", "torch_xla", "typing_extensions", "functorch", "composites", "lowering")
_NEED_ADAPT = "write an entry with `adapt`"


@dataclass(slots=True, eq=False)
class Function:
    """A function that ran."""

    target: str
    """`package.module:Class.method`."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Descriptions of the arguments of the first call."""
    reads: dict[str, Any] = field(default_factory=dict)
    """Descriptions of arguments that are no objects, and of the attributes that are read of those
    that are, by path such as `self.weight`."""
    problem: str = ""
    """Why an entry cannot list these."""
    results: int | None = None
    """Tensors that the first call returned."""
    only_tensors: bool = True
    """True if all calls returned tensors and nothing else."""
    differentiable: bool = False
    """True if the result of a call needs a gradient."""

    @property
    def tensors(self) -> tuple[int, int]:
        """The numbers of tensors that are read and returned."""
        return sum(isinstance(value, Tensor) for value in self.reads.values()), self.results or 0

    def returns(self, value: Any) -> None:
        """Keep what is needed of a result."""
        items = list(value) if isinstance(value, tuple | list) else [value]
        tensors = [item for item in items if isinstance(item, torch.Tensor)]
        self.only_tensors &= bool(items) and len(tensors) == len(items)
        self.differentiable |= any(tensor.requires_grad for tensor in tensors)
        if self.results is None:
            self.results = len(tensors)


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

    labels: Labels
    """What is called in an invocation has a label with its number."""
    invocations: list[Invocation] = field(default_factory=list)
    _functions: dict[CodeType, Function | None] = field(default_factory=dict)
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
        """The number of a call, and of those that it is in."""
        while number is not None:
            yield number
            number = self.invocations[number].caller

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            first = torch_internals.sequence_number()
            if frame.f_code not in self._functions:
                self._functions[frame.f_code] = _function_of(frame)
            function = self._functions[frame.f_code]
            if function is not None:
                number = len(self.invocations)
                self.invocations.append(Invocation(function, self.current, first))
                label = self.labels.label(f"{FUNCTION}{number}")
                label.__enter__()
                self._stack.append((frame, number, label))
                self._of_node = None
        elif event == "return" and self._stack and self._stack[-1][0] is frame:
            self._leave().function.returns(argument)

    def _leave(self) -> Invocation:
        _, number, label = self._stack.pop()
        label.__exit__(None, None, None)
        invocation = self.invocations[number]
        invocation.end_node = torch_internals.sequence_number()
        return invocation


def _function_of(frame: FrameType) -> Function | None:
    """The function whose first call begins; None if it is not kept."""
    code, module = frame.f_code, frame.f_globals.get("__name__", "")
    package = module.partition(".")[0]
    if code is loss_of.__code__:
        return Function(LOSS)
    is_module = module.startswith(_MODULES) and code.co_name == "forward"
    is_kept = is_module or module.startswith(_OF_TORCH)
    if (
        code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
        or "<" in code.co_qualname  # of lambdas, comprehensions, and functions in functions
        or code.co_name.startswith("__")
        or code.co_filename.startswith("<")
        or package in sys.stdlib_module_names
        or (package in _SKIPPED and not is_kept)
    ):
        return None
    function = Function(f"{module}:{code.co_qualname}")
    of_objects: dict[str, Any] = {}
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if name not in frame.f_locals:
            continue
        value = frame.f_locals[name]
        described = function.arguments[name] = describe(value)
        if not isinstance(described, Other):
            function.reads |= {} if value is None else {name: described}
            continue
        read: dict[str, Any] = {}
        problem = ""
        if not isinstance(value, torch.Tensor | list | tuple | dict):
            with torch_internals.without_modes():  # a property may call operators
                read, problem = _attributes_read(code, name, value)
        if not (read or problem or name == "self"):
            problem = f"it takes {name}, a {described.type}; {_NEED_ADAPT}"
        of_objects |= read
        function.problem = function.problem or problem
    function.reads |= of_objects
    return function


def _attributes_read(code: CodeType, name: str, value: Any) -> tuple[dict[str, Any], str]:
    """Descriptions of the attributes of an argument that a function, and the methods that it calls
    on the argument, read; and why an entry cannot list them, if it cannot."""
    read: dict[str, Any] = {}
    problems: list[str] = []
    pending = [(code, name)]
    for current, owner in pending:
        try:
            tree = parse_module(textwrap.dedent(inspect.getsource(current)))
        except (OSError, SyntaxError, TypeError):
            return read, f"the source of {current.co_qualname} is not there"
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != owner:
                continue
            attribute = node.attr
            path = f"{name}.{attribute}"
            member = getattr(type(value), attribute, None)
            if not isinstance(node.ctx, ast.Load):
                problems.append(f"it writes {path}")
            elif callable(member):
                inner = getattr(inspect.unwrap(member), "__code__", None)
                if inner is not None and inner.co_varnames:
                    method = (inner, inner.co_varnames[0])
                    pending += [method] if method not in pending else []
            elif path not in read and hasattr(value, attribute):  # else it is not reached
                read[path] = described = describe(getattr(value, attribute))
                if isinstance(described, Other):
                    problems.append(f"it reads {path}, a {described.type}; {_NEED_ADAPT}")
    return read, problems[0] if problems else ""
