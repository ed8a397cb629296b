"""A report and its graph as one self-contained HTML page."""

from collections import defaultdict
from dataclasses import dataclass
from importlib.resources import files

from ..module import Module
from .graph import Edge, Graph, Node, dataflow_graph, flows
from .report import inspect
from .table import caption, cells

_ROW_HEIGHT = 64
_BOX_HEIGHT = 30
_GAP = 18
_BOW = 110  # space on the right for edges that bow around boxes
_MOST_BOXES = 400
"""Of the graph, and rows of tables. A page of 20,000 calls cannot be read."""
_CHARACTER = 7.2  # width of one character of the label font, with a margin


@dataclass(frozen=True)
class Box:
    """A node with its position on the page."""

    node: Node
    x: float
    y: float
    width: float
    hue: int
    """Colour of a composite. Every box and row with the same name has the same colour."""
    label: str
    tooltip: str
    height: int = _BOX_HEIGHT


@dataclass(frozen=True)
class Curve:
    """An edge with its position on the page."""

    path: str
    tooltip: str


def html_page(module: Module, *, section: str = "") -> str:
    """The report of a module, with a graph of its data flow, as a self-contained page.

    All text from the module is escaped. The page has no script and loads nothing. `section` is HTML
    to put between the two; it is not escaped.
    """
    report, graph = inspect(module), dataflow_graph(module)
    hues = _hues({row.name for row in report.composites})
    is_drawn = len(graph.nodes) <= _MOST_BOXES
    boxes = _place(graph, hues) if is_drawn else []
    return rendered(
        __package__,
        "page.html.j2",
        title=f"composites of @{report.module or 'module'}",
        caption=caption(report),
        rows=[(cells(row), hues[row.name]) for row in report.composites[:_MOST_BOXES]],
        more_rows=max(len(report.composites) - _MOST_BOXES, 0),
        section=section,
        function=graph.function,
        boxes=boxes,
        curves=[_curve(edge, boxes) for edge in graph.edges] if is_drawn else [],
        flows=() if is_drawn else flows(graph)[:_MOST_BOXES],
        nodes=len(graph.nodes),
        width=max((box.x + box.width for box in boxes), default=0) + _BOW,
        height=max((box.y + box.height for box in boxes), default=0) + _GAP,
    )


def rendered(package: str, name: str, **values: object) -> str:
    """A template of a package with values in it. Text is escaped, and a missing value is an
    error."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = files(package).joinpath(name).read_text(encoding="utf-8")
    return environment.from_string(template).render(**values)


def _place(graph: Graph, hues: dict[str, int]) -> list[Box]:
    """Boxes in layers from top to bottom, each near the middle of the boxes that feed it."""
    feeds: dict[int, list[int]] = defaultdict(list)
    for edge in graph.edges:
        feeds[edge.target].append(edge.source)
    layers: dict[int, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        layers[node.layer].append(node)
    centre: dict[int, float] = {}
    boxes: dict[int, Box] = {}
    for row, layer in enumerate(sorted(layers)):
        wanted = {
            node.number: sum(centre[source] for source in above) / len(above) if above else 0.0
            for node in layers[layer]
            for above in [[source for source in feeds[node.number] if source in centre]]
        }
        x = float(_GAP)
        for node in sorted(layers[layer], key=lambda n: (wanted[n.number], n.number)):
            hue = hues.get(node.label, 0)
            box = _box(node, x, _GAP + row * _ROW_HEIGHT, wanted[node.number], hue)
            x = box.x + box.width + _GAP
            centre[node.number] = box.x + box.width / 2
            boxes[node.number] = box
    return [boxes[node.number] for node in graph.nodes]


def _box(node: Node, free: float, y: float, wanted: float, hue: int) -> Box:
    label = node.label + (" → output" if node.outputs else "")
    width = len(label) * _CHARACTER + 16
    return Box(
        node=node,
        x=max(free, wanted - width / 2),
        y=y,
        width=width,
        hue=hue,
        label=label,
        tooltip=_tooltip(node),
    )


def _tooltip(node: Node) -> str:
    lines = [node.label]
    if not node.composite:
        lines += [f"{count} {name}" for name, count in node.operations]
    if node.arguments:
        lines.append(f"reads {node.arguments} arguments")
    if node.outputs:
        lines.append(f"makes {node.outputs} outputs")
    return "\n".join(lines)


def _curve(edge: Edge, boxes: list[Box]) -> Curve:
    source, target = boxes[edge.source], boxes[edge.target]
    x1, y1 = source.x + source.width / 2, source.y + source.height
    x2, y2 = target.x + target.width / 2, target.y
    # Long edges bow sideways, so that they do not cross the boxes in between.
    bow = 0.0 if y2 - y1 < _ROW_HEIGHT else 40 + (y2 - y1) / 12
    bend = min(60.0, (y2 - y1) / 2)
    path = (
        f"M{x1:.0f},{y1:.0f} C{x1 + bow:.0f},{y1 + bend:.0f} "
        f"{x2 + bow:.0f},{y2 - bend:.0f} {x2:.0f},{y2:.0f}"
    )
    return Curve(path, f"{source.node.label} → {target.node.label}\n" + "\n".join(edge.types))


def _hues(names: set[str]) -> dict[str, int]:
    """A colour for each name. Steps of the golden angle keep even many colours distinct."""
    return {name: number * 137 % 360 for number, name in enumerate(sorted(names))}
