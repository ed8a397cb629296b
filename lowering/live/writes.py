"""Writes to a part of an input, which PyTorch makes in place.

AOTAutograd makes a graph return the whole input after all writes, and copies it to the input. A
cache of keys and values receives one row for each token: the program returns only the row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Write:
    """A write of one result to a part of an input."""

    result: int
    """The position of the written result among all results of the graph."""
    dim: int
    index: int
    """The position of the result with the indices along the dimension that are written."""

    def write(self, tensor: torch.Tensor, results: Sequence[torch.Tensor]) -> None:
        """Write to a tensor."""
        tensor.index_copy_(self.dim, results[self.index], results[self.result])


def return_parts(graph: torch.fx.Graph, written: Sequence[int]) -> Mapping[int, Write]:
    """Make a graph return the parts that it writes to inputs instead of the inputs, and, after its
    results, the indices of these parts. Return the writes by the positions of the inputs.

    Args:
        graph: a graph of AOTAutograd. Its first results are the inputs that it writes to, with
            their new values.
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
