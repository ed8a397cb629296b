"""From nodes of a graph to HLO: the rules of `lowering.frontends.aten_in_jax` run under JAX."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lowering.emission.types import DecompositionHlo, TensorType
from lowering.frontends.aten_in_jax.dtypes import jax_dtype
from lowering.frontends.aten_in_jax.evaluation import result_of
from lowering.frontends.aten_in_jax.table import LINEAR_ALGEBRA
from lowering.frontends.fx import sources
from lowering.frontends.fx.capture import TracedTensor
from lowering.frontends.fx.tensors import FxTensors
from lowering.frontends.jax.all_platforms import for_all_platforms
from lowering.frontends.jax.functions import lower_function

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


def lower(
    outputs: Sequence[TracedTensor], inputs: Sequence[TracedTensor], *, located: bool = False
) -> tuple[DecompositionHlo, list[int]]:
    """The HLO of outputs, and the positions of the inputs that it has as parameters, which are
    those that it reads.

    Args:
        located: whether instructions have the sources of their nodes as metadata.

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
                values[node] = _result(node, given, dict(named))
        return [values[tensor.node] for tensor in outputs]

    types: list[TensorType] = [FxTensors.type_of(inputs[place]) for place in read]
    lowered = lower_function(function, types)
    if located:
        lowered = replace(lowered, module=sources.with_sources(lowered.module, nodes))
    return lowered, read


def _result(node: torch.fx.Node, arguments: Any, keywords: dict[str, Any]) -> Any:
    """The arrays that a node gives. Linear algebra is lowered for all platforms: a program may run
    on another one than that on which it is exported, which has no LAPACK."""
    described = node.meta["val"]
    if node.target not in LINEAR_ALGEBRA:
        return result_of(node.target, described, arguments, keywords)
    leaves, tree = jax.tree.flatten((arguments, keywords))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]

    def of_arrays(*arrays: Any) -> Any:
        given = dict(enumerate(leaves)) | dict(zip(places, arrays, strict=True))
        positional, named = jax.tree.unflatten(tree, given.values())
        return result_of(node.target, described, positional, named)

    return for_all_platforms(of_arrays)(*(leaves[place] for place in places))


def _constant(tensor: torch.Tensor) -> Any:
    dtype = jax_dtype(tensor.dtype)
    if tensor.numel() <= _LITERAL:
        return jnp.asarray(np.array(tensor.tolist(), dtype=dtype).reshape(tuple(tensor.shape)))
    bits = tensor.reshape(-1).view(torch.uint8).numpy()
    return jnp.asarray(bits.view(dtype).reshape(tuple(tensor.shape)))
