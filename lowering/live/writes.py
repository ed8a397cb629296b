"""Writes to a part of an input, which PyTorch makes in place.

AOTAutograd lets a graph return the whole input as it is after all writes, and copies that to the
input. A cache of keys and values gets one row for each token: here the program returns the row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Write:
    """A write of one result to a part of an input."""

    result: int
    """The position of the result that is written, among all that the graph returns."""
    dim: int
    index: int
    """The position of the result that says which places of the dimension are written."""

    def write(self, tensor: torch.Tensor, results: Sequence[torch.Tensor]) -> None:
        """Write to a tensor."""
        tensor.index_copy_(self.dim, results[self.index], results[self.result])


def return_parts(graph: torch.fx.Graph, written: Sequence[int]) -> Mapping[int, Write]:
    """Let a graph return the parts that it writes to inputs in place of the inputs, and after its
    results the places that it writes to. Return the writes by the positions of the inputs.

    Args:
        graph: a graph of AOTAutograd. It returns first the inputs that it writes to, as they are
            afterwards.
        written: the positions of these inputs, in this order.
    """
    placeholders, output = graph.find_nodes(op="placeholder"), graph.output_node()
    returned: list[Any] = [*output.args[0]]  # type: ignore[misc]
    writes: dict[int, Write] = {}
    for result, position in enumerate(written):
        node = returned[result]
        if not isinstance(node, torch.fx.Node) or node.args[:1] != (placeholders[position],):
            continue
        if node.target is torch.ops.aten.index_copy.default:
            arguments: tuple[Any, ...] = node.args
            _, dim, index, part = arguments
            writes[position] = Write(result, dim, index=len(returned))
            returned[result] = part
            returned.append(index)
    output.args = (tuple(returned),)
    return writes
