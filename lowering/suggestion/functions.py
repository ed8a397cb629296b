"""What a step calls: Python functions, with the arguments of their first calls, and operators.

Functions of user code and of libraries are kept, and of torch those of `torch.nn` and
`torch.optim`.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch

from composites import torch_internals
from composites.python_syntax import parse_module
from composites.registry.model import Tensor
from lowering.suggestion.loss import loss_of
from lowering.suggestion.values import Other, describe

LOSS = "the sum of what the module returns"
"""The name of the function that makes a loss, which is no part of the model."""
_OF_TORCH = ("torch.nn.functional", "torch.optim.")
_MODULES = "torch.nn.modules."
_SKIPPED = ("torch", "torch_xla", "typing_extensions", "functorch", "composites", "lowering")
_NEED_ADAPT = "write an entry with `adapt`"


@dataclass(slots=True, eq=False)
class Callee:
    """A Python function or an operator that a step calls."""

    name: str
    """`package.module:Class.method` or `aten::mean.dim`."""
    overload: Any = None
    """PyTorch's operator; None for a function."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Descriptions of the arguments of the first call."""
    reads: dict[str, Any] = field(default_factory=dict)
    """Descriptions of arguments that are no objects, and of the attributes that are read of those
    that are, by path such as `self.weight`."""
    problem: str = ""
    """Why an entry cannot list these."""
    results: int | None = None
    """Tensors that the first call of a function returned."""
    only_tensors: bool = True
    """True if all calls returned tensors and nothing else."""
    differentiable: bool = False
    """True if the result of a call needs a gradient."""

    @property
    def tensors(self) -> tuple[int, int]:
        """The numbers of tensors that a function reads and returns."""
        return sum(isinstance(value, Tensor) for value in self.reads.values()), self.results or 0

    def returns(self, value: Any) -> None:
        """Keep what is needed of a result."""
        items = list(value) if isinstance(value, tuple | list) else [value]
        tensors = [item for item in items if isinstance(item, torch.Tensor)]
        self.only_tensors &= bool(items) and len(tensors) == len(items)
        self.differentiable |= any(tensor.requires_grad for tensor in tensors)
        if self.results is None:
            self.results = len(tensors)


def function_of(frame: FrameType) -> Callee | None:
    """The function whose first call begins; None if it is not kept."""
    code, module = frame.f_code, frame.f_globals.get("__name__", "")
    package = module.partition(".")[0]
    if code is loss_of.__code__:
        return Callee(LOSS)
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
    function = Callee(f"{module}:{code.co_qualname}")
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
