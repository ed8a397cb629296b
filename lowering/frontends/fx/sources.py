"""Sources of nodes: the operator, and the line of Python, as locations of operations.

a call with traced tensors -> a node with its source     within `located`
a node traced by JAX -> operations in a scope of its number
operations -> operations with the sources of their nodes as locations
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import FrameType
from typing import Any

import jax
import torch

from composites.contexts import with_value
from lowering.stablehlo import Module
from lowering.stablehlo.bindings import innermost_line

_SOURCE = "source"
_NODE = "composites_node_"
_SCOPE = re.compile(rf"/{_NODE}(\d+)(?=[/\"])")
_LOCATION = re.compile(r"^(#loc\d* = loc\()(.*)\)$", re.MULTILINE)
"""A line of MLIR text that defines a location."""
_LOCATED: ContextVar[bool] = ContextVar("composites_fx_located", default=False)


def located() -> AbstractContextManager[None]:
    """A context in which nodes keep their sources."""
    return with_value(_LOCATED, True)


def keep_source(node: torch.fx.Node, operator: str = "") -> None:
    """Store the source of a new node in it, within `located`.

    Args:
        operator: the operator's name, if the node's function is not the operator itself.
    """
    if _LOCATED.get():
        # Operators of gradients and of updates of optimizers are called by no line of the module.
        node.meta[_SOURCE] = operator or _operator_name(node.target), innermost_line(_stack())


def calling_line() -> str:
    """`file:line: ` of the line of the module that is running; empty if none is running."""
    line = innermost_line(_stack())
    return "" if line is None else f"{line[0]}:{line[1]}: "


def scope(number: int) -> AbstractContextManager[Any]:
    """A context in which the operations that JAX traces belong to the node with a number."""
    named: AbstractContextManager[Any] = jax.named_scope(f"{_NODE}{number}")
    return named


def with_sources(module: Module, nodes: Sequence[torch.fx.Node]) -> Module:
    """A module whose operations have the sources of nodes as locations, instead of JAX's own.

    Args:
        nodes: the nodes, by the numbers of their scopes.
    """
    text = module.ir.operation.get_asm(enable_debug_info=True)

    def written(location: re.Match[str]) -> str:
        scopes = _SCOPE.findall(location[2])
        source = nodes[int(scopes[-1])].meta.get(_SOURCE) if scopes else None
        if source is None:
            return f"{location[1]}unknown)"
        operator, line = source
        name = json.dumps(operator.replace("::", "__"))
        if line is None:
            return f"{location[1]}{name})"
        file, number = line
        return f"{location[1]}{name}({json.dumps(file)}:{number}:0))"

    return Module.parse(_LOCATION.sub(written, text))


def _stack() -> Iterator[tuple[str, int]]:
    """The lines of Python files on the stack, innermost first; generated code has no file."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.endswith(".py"):
            yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def _operator_name(target: Any) -> str:
    name = getattr(target, "name", None)  # a method of overloads; functions have none
    return str(name()).partition(".")[0] if callable(name) else str(target.__name__)
