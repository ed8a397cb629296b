"""Custom node data of Model Explorer: a number for each composite of the graph of `@main`."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..bindings import nested_operations
from ..composites import Signature, signature
from ..ir_types import IrOperation
from ..module import Module
from ..symbols import COMPOSITE, functions, target
from .report import distinct_calls

COLORS = {True: "#f28b82", False: "#ccff90"}
"""The colors of composites that are wrong, and of right ones."""
_SHADES = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#8ab4f8"})
"""The colors of the smallest number and of the largest one, where no node has its own."""


@dataclass(frozen=True)
class NodeData:
    """Numbers for the nodes of a graph."""

    name: str
    """The meaning of the numbers, such as `error`."""
    values: Mapping[int, float]
    """By the number of the operation in `@main`, as Model Explorer counts."""
    wrong: Mapping[int, bool] = field(default_factory=dict)
    """Nodes that are red, where this is true, or green. The others have a shade by their number."""

    def to_json(self) -> str:
        """The file. The largest number stands for infinity, which JSON lacks."""
        results: dict[str, dict[str, Any]] = {}
        for node, value in self.values.items():
            results[str(node)] = {"value": min(value, sys.float_info.max)}
            if node in self.wrong:
                results[str(node)]["bgColor"] = COLORS[self.wrong[node]]
        graph = {"name": self.name, "results": results}
        shades = {} if self.wrong else {"gradient": _SHADES}
        return json.dumps({"main": graph | shades}, indent=2)


def numbered(function: IrOperation) -> Iterable[tuple[int, IrOperation]]:
    """The operations of a function and those in their regions, by number, as the MLIR adapter of
    Model Explorer (ai-edge-model-explorer-adapter 0.2.1) has them."""
    return enumerate(nested_operations(function), -1)  # the function itself does not count


def composite_nodes(module: Module) -> Iterator[tuple[int, tuple[Signature, str]]]:
    """The composites of `@main`: number, signature and decomposition."""
    main = functions(module.ir).get("main")
    for node, operation in () if main is None else numbered(main):
        if operation.name == COMPOSITE:
            yield node, (signature(operation), target(operation))


def shares(module: Module) -> NodeData:
    """The share of the module's operations that each composite of `@main` has."""
    reports = distinct_calls(module)
    called = {node: reports[key] for node, key in composite_nodes(module)}
    return NodeData("share", {node: each.share / each.count for node, each in called.items()})
