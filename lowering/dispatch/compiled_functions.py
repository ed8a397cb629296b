"""Python functions that torch.compile traces, in which a composite is one node of Dynamo's graph.

Dynamo traces the code of every function that is called, and records the operators that it finds.
The functions of this module are written to be traced. They decide by the properties of a call that
Dynamo knows (types, devices) whether it can be a composite. Dynamo does not trace into a hook but
records it as a node. AOTAutograd calls this node when it traces the forward and the backward, in
which the node becomes one of this project's operators; see `autograd.compiled_calls`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_origin, get_type_hints

import torch
from torch import Tensor

from composites import torch_internals
from lowering.codegen import loader, source
from lowering.dispatch.definition import ActiveEntry
from lowering.dispatch.keys import VALUES
from lowering.dispatch.reads import Reads
from lowering.frontends.protocols import Kernel

_SEQUENCES = (list, tuple)  # Dynamo does not support `list | tuple`


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of a Python function."""

    called: Kernel
    traced: Kernel
    """The version that Dynamo traces."""

    def __post_init__(self) -> None:
        # Dynamo would trace `called` in a frame that it has given up, such as a frame in which a
        # condition of an entry cannot be evaluated.
        torch_internals.keep_dynamo_out(self.called)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return self.traced(*arguments, **keywords)
        return self.called(*arguments, **keywords)


def traced_function(
    definition: ActiveEntry,
    function: Kernel,
    target: str,
    hook: Kernel,
    otherwise: Kernel,
    reads: Reads,
) -> Kernel:
    """The function that Dynamo traces in place of a function that an entry catches.

    Args:
        definition: the entry, whose statistics count the calls that are not a node.
        function: the caught function, whose meaning the composite has; `target` is its name.
        hook: takes a call as a composite, or calls the function. It becomes a node.
        otherwise: takes the calls that are not a node, such as calls without tensors of the
            backend.
        reads: the values that the function reads from outside. After a change, Dynamo traces the
            call again.
    """
    entry, statistics = definition.entry, definition.statistics
    owns = definition.frontend.tensors.owns  # Dynamo traces this function too
    matches = loader.load_condition(entry, function, target)
    differentiable = entry.backward is not None

    def node(*arguments: Any, **keywords: Any) -> Any:
        return hook(*arguments, **keywords)

    node.__name__ = node.__qualname__ = source.operator_name(entry)
    torch.compiler.allow_in_graph(node)

    guards: list[Callable[[], object]] = []

    def fits() -> bool:
        current = reads.guards() if _returns_tensors(function) else None
        guards[:] = current or ()
        return current is not None

    # `fits` runs when Dynamo traces the call, because the function may use names that are defined
    # later in its module.
    torch.compiler.assume_constant_result(fits)

    def count(reason: str) -> None:  # Dynamo runs this while it traces, and keeps only the result
        statistics.fallback(f"torch.compile: {reason}", ()).count_call()

    torch.compiler.assume_constant_result(count)

    def call(*arguments: Any, **keywords: Any) -> Any:
        values = _flat((*arguments, *keywords.values()))
        tensors = [value for value in values if isinstance(value, Tensor)]
        if not any(owns(t) for t in tensors):
            return otherwise(*arguments, **keywords)
        if fits():
            for guard in guards:
                guard()
            needs_gradients = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
            if not all(isinstance(v, Tensor) or _is_constant(v) for v in values):
                count("an argument is neither a tensor nor a constant")
            elif needs_gradients and not differentiable:
                count("the call needs gradients, and the entry has no backward")
            elif not matches(*arguments, **keywords):
                count("a condition of the entry does not hold")
            else:
                return node(*arguments, **keywords)
        else:
            count("no graph can hold a call of this function")
        return otherwise(*arguments, **keywords)

    return call


def _flat(values: Sequence[Any]) -> list[Any]:
    """The values, with the items of a list of tensors in place of the list."""
    flat: list[Any] = []
    for value in values:
        if isinstance(value, _SEQUENCES) and any(isinstance(item, Tensor) for item in value):
            flat.extend(value)
        else:
            flat.append(value)
    return flat


def _returns_tensors(function: Callable[..., Any]) -> bool:
    """Return whether a function returns tensors, tuples or lists, which a graph can hold, according
    to its annotation."""
    try:
        returned = get_type_hints(function).get("return", Tensor)
    except Exception:  # an annotation uses a name that only type checkers import
        return True
    returned = get_origin(returned) or returned
    return isinstance(returned, type) and issubclass(returned, Tensor | tuple | list)


def _is_constant(value: Any) -> bool:
    if isinstance(value, _SEQUENCES):
        return all(_is_constant(item) for item in value)
    return isinstance(value, VALUES)
