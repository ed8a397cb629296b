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
"""The colors of wrong composites (True) and of right composites (False)."""
_SHADES = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#8ab4f8"})
"""The colors of the smallest and of the largest number, if nodes are not colored by `wrong`."""


@dataclass(frozen=True)
class NodeData:
    """Numbers for the nodes of a graph."""

    name: str
    """The meaning of the numbers, such as `error`."""
    values: Mapping[int, float]
    """The numbers, by the operation's index in `@main`, as Model Explorer counts."""
    wrong: Mapping[int, bool] = field(default_factory=dict)
    """True for red nodes, False for green nodes. Other nodes have a shade by their number."""

    def to_json(self) -> str:
        """The data as JSON. The largest float stands for infinity, which JSON lacks."""
        results: dict[str, dict[str, Any]] = {}
        for node, value in self.values.items():
            results[str(node)] = {"value": min(value, sys.float_info.max)}
            if node in self.wrong:
                results[str(node)]["bgColor"] = COLORS[self.wrong[node]]
        graph = {"name": self.name, "results": results}
        shades = {} if self.wrong else {"gradient": _SHADES}
        return json.dumps({"main": graph | shades}, indent=2)


def numbered(function: IrOperation) -> Iterable[tuple[int, IrOperation]]:
    """The operations of a function and of their regions, with the numbers that the MLIR adapter of
    Model Explorer (ai-edge-model-explorer-adapter 0.2.1) gives them."""
    return enumerate(nested_operations(function), -1)  # the function itself does not count


def composite_nodes(module: Module) -> Iterator[tuple[int, tuple[Signature, str]]]:
    """The composites of `@main`: number, signature and decomposition."""
    main = functions(module.ir).get("main")
    for node, operation in () if main is None else numbered(main):
        if operation.name == COMPOSITE:
            yield node, (signature(operation), target(operation))


def shares(module: Module) -> NodeData:
    """The share of each composite of `@main` in the module's operations."""
    reports = distinct_calls(module)
    called = {node: reports[key] for node, key in composite_nodes(module)}
    return NodeData("share", {node: call.share / call.count for node, call in called.items()})
