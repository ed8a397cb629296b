"""Python functions in what torch.compile traces: a composite is one node of Dynamo's graph.

Dynamo reads the code of every function that it meets, and finds the operators that it calls. The
functions here are written to be read: they decide, by what Dynamo knows of a call (types, devices),
whether it can be a composite. A hook is not read. It is a node, which AOTAutograd calls when it
traces forward and backward, and there it becomes an operator of ours, see `calls`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_origin, get_type_hints

import torch
from torch import Tensor

from composites.registry.model import Composite
from lowering.codegen import loader, source
from lowering.dispatch.keys import VALUES
from lowering.frontends.protocols import Kernel

_SEQUENCES = (list, tuple)  # Dynamo does not read `list | tuple`


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands in the place of a Python function."""

    called: Kernel
    traced: Kernel
    """The same for Dynamo to read."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return self.traced(*arguments, **keywords)
        return self.called(*arguments, **keywords)


def traced_function(
    entry: Composite,
    function: Kernel,
    target: str,
    hook: Kernel,
    otherwise: Kernel,
    owns: Callable[[Tensor], bool],
) -> Kernel:
    """What Dynamo reads in the place of a function that an entry catches.

    Args:
        function: what is caught, and what the composite means; `target` is its name.
        hook: takes a call as a composite, or calls the function; becomes a node.
        otherwise: takes the calls that are no node, as those without tensors of the backend.
        owns: whether a tensor is one of the backend's; Dynamo reads it too.
    """
    matches = loader.load_condition(entry, function, target)
    differentiable = entry.backward is not None

    def node(*arguments: Any, **keywords: Any) -> Any:
        return hook(*arguments, **keywords)

    node.__name__ = node.__qualname__ = source.operator_name(entry)
    torch.compiler.allow_in_graph(node)

    def fits() -> bool:
        return _can_be_a_node(function)

    # Asked when Dynamo reads the call: what the function reads may be defined after it.
    torch.compiler.assume_constant_result(fits)

    def call(*arguments: Any, **keywords: Any) -> Any:
        values = (*arguments, *keywords.values())
        tensors = [value for value in values if isinstance(value, Tensor)]
        if (
            any(owns(t) for t in tensors)
            and fits()
            and all(isinstance(v, Tensor) or _is_constant(v) for v in values)
            and (differentiable or not _needs_gradients(tensors))
            and matches(*arguments, **keywords)
        ):
            return node(*arguments, **keywords)
        return otherwise(*arguments, **keywords)

    return call


def _needs_gradients(tensors: Sequence[Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _can_be_a_node(function: Callable[..., Any]) -> bool:
    """Whether a graph can hold calls of a function without reading it.

    It must not reach tensors but by its arguments, which a graph would take for constants, and must
    return tensors, tuples or lists: an annotation that says something else is believed.
    """
    try:
        reached = inspect.getclosurevars(inspect.unwrap(function))
    except TypeError:  # not written in Python
        return True
    except ValueError:  # a variable around it has no value yet
        return False
    held = (*reached.nonlocals.values(), *reached.globals.values())
    if any(isinstance(value, Tensor | torch.nn.Module) for value in held):
        return False
    try:
        returned = get_type_hints(function).get("return", Tensor)
    except Exception:  # a name that exists for type checkers alone
        return True
    returned = get_origin(returned) or returned
    return isinstance(returned, type) and issubclass(returned, Tensor | tuple | list)


def _is_constant(value: Any) -> bool:
    if isinstance(value, _SEQUENCES):
        return all(_is_constant(item) for item in value)
    return isinstance(value, VALUES)
