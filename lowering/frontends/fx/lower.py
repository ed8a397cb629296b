"""From nodes of a graph to a function of JAX arrays, which runs the rules of
`lowering.frontends.aten_in_jax`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from lowering.frontends.aten_in_jax.dtypes import jax_dtype
from lowering.frontends.aten_in_jax.evaluation import result_of
from lowering.frontends.fx import sources
from lowering.frontends.fx.capture import TracedTensor

_LITERAL = 16
"""How many numbers a constant can have that is written as numbers."""


class ForeignInputError(Exception):
    """A graph reads an input that is not given."""


def reached(
    outputs: Sequence[TracedTensor], inputs: Sequence[TracedTensor]
) -> tuple[list[torch.fx.Node], list[int]]:
    """The nodes from which outputs are computed, in the order of recording, and the positions of
    the inputs among them."""
    places = {tensor.node: place for place, tensor in enumerate(inputs)}
    found: set[torch.fx.Node] = set()
    pending = [tensor.node for tensor in outputs]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            if node not in places:
                pending.extend(node.all_input_nodes)
    read = sorted(places[node] for node in found if node in places)
    return sorted(found - places.keys()), read


def function_of(
    outputs: Sequence[TracedTensor], inputs: Sequence[TracedTensor], *, located: bool = False
) -> tuple[Callable[..., list[Any]], list[int], Sequence[torch.fx.Node]]:
    """A function of JAX arrays that computes outputs; the positions of the inputs that it takes,
    which are those that it reads; and its nodes.

    Args:
        located: whether what JAX traces for a node is in a scope of the node's number.

    Raises:
        ForeignInputError: it reads an input that is not given.
    """
    nodes, read = reached(outputs, inputs)
    foreign = next((node for node in nodes if node.op == "placeholder"), None)
    if foreign is not None:
        shape = foreign.meta["val"].shape
        raise ForeignInputError(f"the graph reads {shape}, which is not an input")
    operands = [inputs[place].node for place in read]

    def function(*arrays: Any) -> list[Any]:
        values: dict[torch.fx.Node, Any] = dict(zip(operands, arrays, strict=True))
        for number, node in enumerate(nodes):
            if node.op == "get_attr":
                values[node] = _constant(node.meta["constant"])
                continue
            given = torch.fx.node.map_arg(node.args, values.__getitem__)
            named = torch.fx.node.map_arg(node.kwargs, values.__getitem__)
            with sources.scope(number) if located else nullcontext():
                values[node] = result_of(node.target, node.meta["val"], given, dict(named))
        return [values[tensor.node] for tensor in outputs]

    return function, read, nodes


def _constant(tensor: torch.Tensor) -> Any:
    dtype = jax_dtype(tensor.dtype)
    if tensor.numel() <= _LITERAL:
        return jnp.asarray(np.array(tensor.tolist(), dtype=dtype).reshape(tuple(tensor.shape)))
    bits = tensor.reshape(-1).view(torch.uint8).numpy()
    return jnp.asarray(bits.view(dtype).reshape(tuple(tensor.shape)))
