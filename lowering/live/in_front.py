"""Composites in front of another backend of torch.compile.

AOTAutograd's graphs are made as for live programs. Then each call of a composite becomes an
operator (`lowering.live.operators`), and the other operators are on the user's device again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import getitem
from typing import Any

import torch

from composites import torch_internals
from composites.errors import UnsupportedCallError
from composites.torch_internals import pytree
from lowering import activation
from lowering.frontends.errors import NoKernelError
from lowering.frontends.fx import DEVICE_TYPE, capture
from lowering.frontends.fx.aten_graph import aten_graph
from lowering.frontends.fx.graph import FxComposite, call_composite
from lowering.frontends.fx.tensors import LIVE_BACKENDS, traced_placeholder
from lowering.live.backend import with_composites
from lowering.live.operators import register_operator
from lowering.live.strides import in_memory_order, in_own_order, memory_order
from lowering.live.traced_graph import read_attribute


@cache
def wrap_backend(inner: Callable[..., Any]) -> Callable[..., Any]:
    """A backend that hands graphs with composites to the backend `inner`."""

    def wrapped(
        graph: torch.fx.GraphModule, example_inputs: Sequence[Any], **keywords: Any
    ) -> Callable[..., Any]:
        devices = [x.device for x in example_inputs if isinstance(x, torch.Tensor)]
        device = next((d for d in devices if d.type != "cpu"), torch.device("cpu"))
        hand_over = partial(_compiled, inner=partial(inner, **keywords), device=device)
        return with_composites(graph, example_inputs, hand_over, runs_here=False)

    wrapped.__name__ = f"composites.wrap({getattr(inner, '__name__', inner)})"
    LIVE_BACKENDS.append(wrapped)
    return wrapped


def _compiled(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    inner: Callable[..., Any],
    device: torch.device,
    **_: Any,
) -> Any:
    """Compile a graph of AOTAutograd with another backend."""
    recording = activation.backend().frontend.recording
    with capture.at_top(), recording.recording():
        written = _with_operators(graph, device)
    with torch_internals.tracing(), torch.no_grad():
        function = inner(written, torch_internals.fakes(inputs, device))

    def call(arguments: list[Any]) -> Any:
        taken = list(arguments)
        arguments.clear()  # tensors of a forward may be freed while its backward runs
        return function(*taken)

    return torch_internals.not_traced(call)


def _with_operators(source: torch.fx.GraphModule, device: torch.device) -> torch.fx.GraphModule:
    """A graph with operators instead of composites, and its tensors on a device.

    Raises:
        UnsupportedCallError: a composite has no decomposition in PyTorch.
    """
    writer = _Writer(device)
    for name, part in source.named_children():
        if isinstance(part, torch.fx.GraphModule):
            part = _with_operators(part, device)
        writer.parts.add_module(name, part)
    values: dict[torch.fx.Node, Any] = {}
    for node in source.graph.nodes:
        target: Any = node.target
        operands = [values[operand] for operand in node.all_input_nodes]
        attribute = read_attribute(source, target) if node.op == "get_attr" else None
        is_hooked = bool(capture.KERNELS.get(target))
        expansion = _expansion(node) if is_hooked else None
        if isinstance(attribute, torch.Tensor):
            values[node] = writer.constant(attribute)
        elif target is getitem and isinstance(operands[0], list):
            values[node] = operands[0][node.args[1]]
        elif expansion is not None:
            expanded, nested = expansion
            values[node] = nested(writer.inlined(expanded, operands))
        elif is_hooked and target.namespace == "composites":
            # An operator that only this project's hooks compute.
            raise UnsupportedCallError(f"{node.args[-2]} has no decomposition in PyTorch")
        else:
            values[node] = writer.copied(node, values)
    return torch.fx.GraphModule(writer.parts, writer.graph)


def _expansion(node: torch.fx.Node) -> tuple[torch.fx.Graph, Callable[[Iterator[Any]], Any]] | None:
    """A call of a hook as a graph of its tensors, and a function that builds the call's results
    from those of the graph; None if PyTorch cannot compute the composite."""
    inputs = {operand: traced_placeholder(operand.meta["val"]) for operand in node.all_input_nodes}
    arguments: Any = torch.fx.node.map_arg(node.args, inputs.__getitem__)
    keywords: Any = torch.fx.node.map_arg(node.kwargs, inputs.__getitem__)
    try:
        returned = capture.called(node.target, arguments, keywords)
    except NoKernelError:  # the hook leaves the call to JAX, which has no rule
        return None
    results, structure = pytree.tree_flatten(returned)
    described = pytree.tree_leaves(node.meta["val"])
    laid_out = [
        _as_described(capture.traced(result), like)
        for result, like in zip(results, described, strict=True)
        if result is not None
    ]
    graph = aten_graph(laid_out, list(inputs.values()))
    if graph is None or not graph.find_nodes(op="call_function", target=call_composite):
        return None

    def nested(computed: Iterator[Any]) -> Any:
        leaves = [None if result is None else next(computed) for result in results]
        return pytree.tree_unflatten(leaves, structure)

    return graph, nested


def _as_described(result: capture.TracedTensor, like: torch.Tensor) -> capture.TracedTensor:
    """A result with the memory layout that it has in eager PyTorch."""
    order = memory_order(like)
    if order is None:
        return result
    moved = capture.traced(in_memory_order(result, order))
    # Write the copy as a node: elsewhere in this frontend, a copy is its source.
    keywords = {"memory_format": torch.contiguous_format}
    copied = capture.node(torch.ops.aten.clone.default, (moved,), keywords, moved.described)
    return capture.traced(in_own_order(copied, order))


class _Writer:
    """A graph that is written, and its parts."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.graph = torch.fx.Graph()
        self.parts = torch.nn.Module()

    def copied(self, node: torch.fx.Node, values: Mapping[torch.fx.Node, Any]) -> torch.fx.Node:
        """A copy of a node, with other operands and on the device."""

        def moved(device: torch.device) -> torch.device:
            return self._device if device.type == DEVICE_TYPE else device

        copy = self.graph.node_copy(node, values.__getitem__)
        arguments = tuple(copy.args), dict(copy.kwargs)
        copy.args, copy.kwargs = pytree.tree_map_only(torch.device, moved, arguments)
        copy.meta = {}
        return copy

    def constant(self, tensor: torch.Tensor) -> torch.fx.Node:
        """A node that returns a new tensor with the values of `tensor` in each call."""
        name = f"_constant_{len(list(self.parts.buffers(recurse=False)))}"
        self.parts.register_buffer(name, tensor.to(self._device))
        kept = self.graph.get_attr(name)
        return self.graph.call_function(torch.ops.aten.clone.default, (kept,))

    def inlined(self, graph: torch.fx.Graph, operands: Sequence[Any]) -> Iterator[torch.fx.Node]:
        """Write a graph of `aten_graph`, and return its results."""
        placeholders = graph.find_nodes(op="placeholder")
        values: dict[torch.fx.Node, Any] = dict(zip(placeholders, operands, strict=True))
        for node in graph.nodes:
            arguments: Any = node.args
            if node.op == "get_attr":
                values[node] = self.constant(node.meta["constant"])
            elif node.target is call_composite:
                called, composite = arguments
                operator, attributes = register_operator(composite, self._decomposition(composite))
                mapped = [values[operand] for operand in called]
                values[node] = self.graph.call_function(operator, (mapped,), dict(attributes))
            elif node.op == "call_function":
                values[node] = made = self.copied(node, values)
                if torch_internals.takes_device(node.target):
                    made.kwargs = {**made.kwargs, "device": self._device}
            elif node.op == "output":
                return iter([values[result] for result in arguments[0]])
        raise AssertionError("a graph without results")

    def _decomposition(self, composite: FxComposite) -> torch.fx.GraphModule:
        source = composite.decomposition.graph
        assert source is not None
        writer = _Writer(self._device)
        named = [node.name for node in source.find_nodes(op="placeholder")]
        operands = [writer.graph.placeholder(name) for name in named]
        writer.graph.output(list(writer.inlined(source, operands)))
        return torch.fx.GraphModule(writer.parts, writer.graph)
