"""The data flow of a function as a small graph: composites, and the operations between them.

Each composite is a node. Plain operations that feed each other between the same composites are
collapsed into one node. Constants are left out, and arguments are only counted.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from ..bindings import IrOperation, IrValue, walk
from ..composites import composite_name
from ..errors import SizeError, UnsupportedOperationError
from ..module import Module
from ..passes.flatten_calls import flatten_calls
from ..symbols import COMPOSITE, body, functions, is_private


@dataclass(frozen=True)
class Node:
    """One box of the graph."""

    number: int
    label: str
    """The composite's name, or a summary of the plain operations."""
    composite: bool
    operations: tuple[tuple[str, int], ...]
    """Operation names with their counts, most frequent first."""
    layer: int
    """The number of layers above. Data flows from smaller to larger layers."""
    arguments: int
    """The number of the function's arguments that it reads."""
    outputs: int
    """The number of the function's results that it produces."""


@dataclass(frozen=True)
class Edge:
    """Values that one node produces and another reads."""

    source: int
    target: int
    types: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """The data flow of a module's first public function."""

    function: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


@dataclass
class _Operation:
    """An operation during the construction of the graph."""

    name: str
    composite: str | None
    depth: int
    reads: list[int] = field(default_factory=list)
    values: list[tuple[int, IrValue]] = field(default_factory=list)
    arguments: set[int] = field(default_factory=set)
    outputs: int = 0


@dataclass(frozen=True)
class Flow:
    """All edges between composites, or plain operations, of two names."""

    source: str
    target: str
    count: int


def flows(graph: Graph) -> tuple[Flow, ...]:
    """A graph that is too large to be drawn, summed up; the most frequent flows first."""
    names = [node.label if node.composite else "plain operations" for node in graph.nodes]
    counts = Counter((names[edge.source], names[edge.target]) for edge in graph.edges)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Flow(source, target, count) for (source, target), count in ordered)


def dataflow_graph(module: Module) -> Graph:
    """The graph of the module's first public function; empty if there is none.

    Calls are inlined, since torch_xla prints each composite inside one; not where this makes too
    many operations.
    """
    with suppress(SizeError, UnsupportedOperationError):
        module = flatten_calls(module)
    for name, function in functions(module.ir).items():
        if not is_private(function) and body(function) is not None:
            operations = _read(body(function))
            _sink(operations)
            return _collapse(name, operations)
    return Graph("", (), ())


def _read(block: IrOperation) -> list[_Operation]:
    """The operations of a block, each with the number of composites on the way to it."""
    arguments = {value: number for number, value in enumerate(block.arguments)}
    made: dict[IrValue, int] = {}
    operations: list[_Operation] = []
    for opview in block.operations:
        operation = opview.operation
        operands = _all_operands(operation)
        if operation.name == "func.return":
            for value in operands:
                if value in made:
                    operations[made[value]].outputs += 1
            break
        if operation.name == "stablehlo.constant":
            continue
        reads = [(made[value], value) for value in operands if value in made]
        depth = max((_depth_after(operations[number]) for number, _ in reads), default=0)
        composite = composite_name(operation) if operation.name == COMPOSITE else None
        entry = _Operation(operation.name, composite, depth)
        entry.values = reads
        entry.reads = [number for number, _ in reads]
        entry.arguments = {arguments[value] for value in operands if value in arguments}
        for result in operation.results:
            made[result] = len(operations)
        operations.append(entry)
    return operations


def _depth_after(operation: _Operation) -> int:
    return operation.depth + (operation.composite is not None)


def _all_operands(operation: IrOperation) -> list[IrValue]:
    """The values that an operation reads, including those read inside its regions."""
    if not len(operation.regions):
        return list(operation.operands)
    operands: list[IrValue] = []

    walk(operation, lambda inner: operands.extend(inner.operands))
    return operands


def _sink(operations: list[_Operation]) -> None:
    """Move operations that depend only on arguments down to their first reader.

    Otherwise every weight that is transposed or broadcast would be at the top of the page, with an
    edge across all of it.
    """
    latest = [-1] * len(operations)  # depth of the first reader
    for number in range(len(operations) - 1, -1, -1):
        operation = operations[number]
        if operation.depth == 0 and operation.composite is None and latest[number] > 0:
            operation.depth = latest[number]
        for read in operation.reads:
            if latest[read] < 0 or operation.depth < latest[read]:
                latest[read] = operation.depth


def _collapse(function: str, operations: list[_Operation]) -> Graph:
    groups = _groups(operations)
    members: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        members.setdefault(group, []).append(number)
    index = {group: number for number, group in enumerate(members)}
    nodes = tuple(
        _node(index[group], [operations[number] for number in numbers])
        for group, numbers in members.items()
    )
    crossing: dict[tuple[int, int], dict[IrValue, None]] = {}
    for number, operation in enumerate(operations):
        for read, value in operation.values:
            source, target = index[groups[read]], index[groups[number]]
            if source != target:
                crossing.setdefault((source, target), {})[value] = None
    edges = tuple(
        Edge(source, target, tuple(str(value.type) for value in values))
        for (source, target), values in sorted(crossing.items(), key=lambda item: item[0])
    )
    return Graph(function, nodes, edges)


def _groups(operations: list[_Operation]) -> list[int]:
    """For each operation, the first operation of its group. A composite is its own group."""
    parent = list(range(len(operations)))

    def find(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    def mergeable(one: _Operation, other: _Operation) -> bool:
        # Merging plain operations of equal depth cannot create a cycle.
        return one.composite is None and other.composite is None and one.depth == other.depth

    for number, operation in enumerate(operations):
        for read in operation.reads:
            if mergeable(operation, operations[read]):
                first, second = sorted((find(number), find(read)))
                parent[second] = first
    return [find(number) for number in range(len(operations))]


def _node(number: int, members: list[_Operation]) -> Node:
    names = Counter(member.name.removeprefix("stablehlo.") for member in members)
    ordered = tuple(sorted(names.items(), key=lambda item: (-item[1], item[0])))
    first = members[0]
    return Node(
        number=number,
        label=first.composite or _label(ordered),
        composite=first.composite is not None,
        operations=ordered,
        layer=2 * first.depth + (first.composite is not None),
        arguments=len(set().union(*(member.arguments for member in members))),
        outputs=sum(member.outputs for member in members),
    )


def _label(operations: tuple[tuple[str, int], ...]) -> str:
    """The most important part of a group of plain operations: its matrix products, else its
    size."""
    total = sum(count for _, count in operations)
    if total == 1:
        return operations[0][0]
    heavy = [f"{count} {name}" for name, count in operations if name in _HEAVY]
    return f"{total} ops" + (f" ({', '.join(heavy)})" if heavy else "")


_HEAVY = frozenset({"dot_general", "dot", "convolution", "custom_call", "while", "sort"})
