"""Recorded calls as a graph of PyTorch's operators, for compilers that do not take JAX's functions.

A node calls an overload of an operator, or `lowering.frontends.fx.graph.call_composite`. Operators
that make tensors are called without a device.
"""

from collections.abc import Sequence
from operator import getitem
from typing import Any

import torch

from composites import torch_internals
from lowering.frontends.fx.capture import TracedTensor
from lowering.frontends.fx.regions import Subgraph, reached_nodes


def aten_graph(
    outputs: Sequence[TracedTensor], inputs: Sequence[TracedTensor]
) -> torch.fx.Graph | None:
    """The graph that computes outputs; None if a value is computed from other inputs, or by JAX
    alone, such as random numbers and control flow."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for tensor in inputs:
        copies[tensor.node] = graph.placeholder(f"operand_{len(copies)}")
    for node in reached_nodes([tensor.node for tensor in outputs], copies):
        if node in copies:
            continue
        if not _is_of_pytorch(node):
            return None
        copies[node] = graph.node_copy(node, copies.__getitem__)
        copies[node].meta = {"constant": node.meta.get("constant")}
    graph.output([copies[tensor.node] for tensor in outputs])
    return graph


def _is_of_pytorch(node: torch.fx.Node) -> bool:
    if node.op == "get_attr":
        return True
    composite: Any = node.args[-1] if node.args else None
    if hasattr(composite, "decomposition"):
        return composite.decomposition.graph is not None
    is_operator = node.target is getitem or torch_internals.is_operator(node.target)
    return is_operator and not any(isinstance(argument, Subgraph) for argument in node.args)
