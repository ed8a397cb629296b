"""Dynamo's graph on the device of traced tensors.

Hooks of composites are at the dispatch keys of this device. Dynamo traces with the device of the
user's tensors, and its graph names that device where tensors are made, moved or cast by autocast.
"""

import copy
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from composites import torch_internals
from composites.torch_internals import pytree
from lowering.frontends.fx import DEVICE_TYPE
from lowering.frontends.fx.capture import device
from lowering.live.numbers import put_number, put_values
from lowering.live.strides import in_memory_order, in_own_order, memory_order


@dataclass(frozen=True, slots=True)
class TracedGraph:
    """A graph whose inputs are the tensors that it had as attributes, then its own inputs."""

    module: torch.fx.GraphModule
    attributes: tuple[Callable[[], torch.Tensor], ...]
    """Functions that read the current tensor of each attribute. A compiled optimizer's parameters
    are attributes to which the graph writes."""
    positions: tuple[int, ...]
    """The inputs of Dynamo's graph that are not numbers, which this graph takes."""


def on_traced_device(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    device_type: str,
    constants: Collection[int] = (),
) -> TracedGraph:
    """A copy of Dynamo's graph that has the traced tensors' device instead of the user's.

    Args:
        inputs: the inputs of the graph's first call. Numbers among them become constants, for which
            Dynamo has guards once `int` has read them.
        device_type: the type of the device of the user's tensors.
        constants: the positions of inputs whose values become constants; see `numbers`.
    """
    own = _copied(graph)  # Dynamo and eager PyTorch still use the original graph
    put_values(own.graph, constants, inputs)
    for part in own.modules():
        if isinstance(part, torch.fx.GraphModule):
            if device_type == "cpu":
                _keep_orders(part)
            _move(part, device_type, is_outermost=part is own)
    return _with_attributes_as_inputs(own, _put_numbers(own, inputs))


def _copied(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy with the same tensors, and with copies of the graphs that its operators take."""
    own = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for name, part in list(own.named_children()):
        if isinstance(part, torch.fx.GraphModule):
            setattr(own, name, _copied(part))
    return own


def _keep_orders(part: torch.fx.GraphModule) -> None:
    """Give results the order of dimensions in memory that they have in eager PyTorch, such as that
    of attention's query. Operators of traced tensors return tensors in order, and PyTorch would
    refuse `view` of them, or take other elements with `as_strided`."""
    for node in list(part.graph.nodes):
        value = node.meta.get("example_value")
        if not node.op.startswith("call_") or not isinstance(value, torch.Tensor):
            continue
        described = torch_internals.with_example_sizes(value)
        order = None if described is None else memory_order(described)
        if order is None or _shares_memory(node, value):
            continue
        with part.graph.inserting_after(node):
            ordered = part.graph.call_function(_in_order, (node, order))
        ordered.meta = dict(node.meta)
        node.replace_all_uses_with(ordered, lambda user, ordered=ordered: user is not ordered)


def _shares_memory(node: torch.fx.Node, value: torch.Tensor) -> bool:
    """Return whether a result shares memory with an operand, or with another result."""
    is_part = node.target is operator.getitem and not _is_tensor(node.args[0])
    maker = node.args[0] if is_part else node
    assert isinstance(maker, torch.fx.Node)
    made = [maker, *maker.all_input_nodes]
    leaves = pytree.tree_leaves([other.meta.get("example_value") for other in made])
    key = torch_internals.storage_key(value)
    tensors = (leaf for leaf in leaves if torch_internals.is_plain_fake(leaf))
    return sum(torch_internals.storage_key(leaf) == key for leaf in tensors) > 1


def _in_order(tensor: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    if memory_order(tensor) == order:
        return tensor
    view = in_own_order(in_memory_order(tensor, order).contiguous(), order)
    return view.clone()  # PyTorch refuses some writes to views


_MADE_OF_NUMBERS = (torch.tensor, torch.as_tensor, torch.asarray)


def _move(part: torch.fx.GraphModule, device_type: str, is_outermost: bool) -> None:
    makers = torch_internals.device_constructors()

    def moved(value: Any) -> Any:
        is_device = isinstance(value, torch.device) and value.type == device_type
        return device() if is_device else value

    for node in list(part.graph.nodes):
        node.meta.pop("unbacked_bindings", None)  # symbols of Dynamo's trace, which may be over
        node.args, node.kwargs = pytree.tree_map_only(
            torch.device, moved, (tuple(node.args), dict(node.kwargs))
        )
        if device_type == "cpu":
            _put_dtype(node)
        is_maker = node.target in makers or _makes_tensor(node)
        asked = node.kwargs.get("device")
        if _is_type(asked, device_type) or (is_maker and asked is None and device_type == "cpu"):
            node.kwargs = {**node.kwargs, "device": device()}
        if _is_made_of_nodes(node):
            _join(part, node)
        elif node.target in _MADE_OF_NUMBERS and not node.all_input_nodes:
            _make_now(part, node, is_outermost)
        elif node.op == "call_method" and node.target == "to":
            node.args = tuple(device() if _is_type(a, device_type) else a for a in node.args)
        elif node.op == "call_method" and node.target == device_type:  # x.cpu() of a CPU tensor
            node.target, node.args = "to", (node.args[0], device())
        elif torch_internals.enters_autocast(node.target) and node.args[0] == device_type:
            node.args = (DEVICE_TYPE, *node.args[1:])
    part.recompile()


def _makes_tensor(node: torch.fx.Node) -> bool:
    """Return whether a node is an operator that makes a tensor from numbers, like `aten.zeros`."""
    operands = (operand.meta.get("example_value") for operand in node.all_input_nodes)
    has_tensors = any(isinstance(operand, torch.Tensor) for operand in operands)
    return torch_internals.takes_device(node.target) and not has_tensors


def _is_made_of_nodes(node: torch.fx.Node) -> bool:
    """Return whether a node makes a tensor of a list with tensors, or of numbers that vary."""
    if node.target in _MADE_OF_NUMBERS:
        return bool(node.all_input_nodes) and not any(map(_is_tensor, node.all_input_nodes))
    is_copy = node.target in (torch_internals.TENSOR_OF_TENSORS, "new_tensor")
    return is_copy and any(map(_is_tensor, pytree.tree_leaves(node.args[-1])))


def _is_type(value: Any, device_type: str) -> bool:
    return isinstance(value, str) and torch.device(value).type == device_type


def _put_dtype(node: torch.fx.Node) -> None:
    """Rewrite a call with a tensor type of the CPU, such as `torch.LongTensor`, with a dtype."""
    if node.op == "call_method" and node.target == "type" and len(node.args) == 2:
        kind: Any = node.args[1]
        kind = getattr(torch, kind.removeprefix("torch."), kind) if isinstance(kind, str) else kind
        node.args = node.args[0], getattr(kind, "dtype", kind)
    elif node.target is torch.Tensor or isinstance(node.target, type(torch.LongTensor)):
        taken = node.args[0] if len(node.args) == 1 else None
        if isinstance(taken, torch.fx.Node) and _is_tensor(taken):
            node.target = torch.ops.aten.alias.default
            return
        is_list = isinstance(taken, list | tuple) and not isinstance(taken, torch.Size)
        dtype = node.meta["example_value"].dtype
        node.target, node.kwargs = torch.tensor if is_list else torch.empty, {"dtype": dtype}
        node.args = node.args or (0,)


def _is_tensor(value: Any) -> bool:
    is_node = isinstance(value, torch.fx.Node)
    return is_node and isinstance(value.meta.get("example_value"), torch.Tensor)


def _join(part: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """Write `torch.tensor` of a list that contains tensors or numbers without their values."""
    like = node.meta["example_value"]
    values = node.args[0 if node.target in _MADE_OF_NUMBERS else -1]
    with part.graph.inserting_before(node):
        single = [
            part.graph.call_method(
                "reshape", (part.graph.call_method("to", (leaf, like.dtype)), -1)
            )
            if _is_tensor(leaf)
            else _filled(part, (1,), leaf, like.dtype)
            for leaf in pytree.tree_leaves(values)
        ]
        joined = part.graph.call_function(torch.cat, (single,))
        shaped = part.graph.call_method("reshape", (joined, like.shape))
        made = part.graph.call_method("detach", (shaped,))
    node.replace_all_uses_with(made)
    part.graph.erase_node(node)


def _make_now(part: torch.fx.GraphModule, node: torch.fx.Node, is_outermost: bool) -> None:
    """Rewrite a tensor of numbers as calls on the traced tensors' device: fake tensors compute with
    small constants, which takes memory that this device does not have.

    Each call makes a new tensor, to which the program may write. Several numbers become an input of
    the outermost graph, and are stacked in the graphs of functions that its operators take.
    """
    make: Any = node.target
    values = make(*node.args, **{**node.kwargs, "device": "cpu"})
    numbers = values.flatten().tolist()
    with part.graph.inserting_before(node):
        if len(numbers) == 1:
            made = _filled(part, values.shape, numbers[0], values.dtype)
        elif is_outermost:
            name = f"_constant_{len(list(part.buffers(recurse=False)))}"
            part.register_buffer(name, values)
            made = part.graph.call_method("clone", (part.graph.get_attr(name),))
        elif numbers:
            single = [_filled(part, (), number, values.dtype) for number in numbers]
            stacked = part.graph.call_function(torch.stack, (single,))
            made = part.graph.call_method("reshape", (stacked, values.shape))
        else:
            made = _filled(part, values.shape, 0, values.dtype)
        node.replace_all_uses_with(made)
    part.graph.erase_node(node)


def _filled(
    part: torch.fx.GraphModule, shape: Sequence[int], number: complex, dtype: torch.dtype
) -> torch.fx.Node:
    keywords: dict[str, Any] = {"dtype": dtype, "device": device()}
    return part.graph.call_function(torch.full, (shape, number), keywords)


def _put_numbers(own: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[int, ...]:
    """Replace inputs by numbers, and return the positions of the remaining inputs."""
    positions: list[int] = []
    placeholders = own.graph.find_nodes(op="placeholder")
    for position, (node, value) in enumerate(zip(placeholders, inputs, strict=True)):
        if not isinstance(value, int | torch.SymInt):
            positions.append(position)
            continue
        put_number(node, int(value))
        own.graph.erase_node(node)
    return tuple(positions)


def _with_attributes_as_inputs(
    own: torch.fx.GraphModule, positions: tuple[int, ...]
) -> TracedGraph:
    nodes = list(own.graph.nodes)
    inputs: dict[str, torch.fx.Node] = {}
    for node in nodes:
        if node.op != "get_attr" or not isinstance(read_attribute(own, node.target), torch.Tensor):
            continue
        if node.target not in inputs:
            with own.graph.inserting_before(nodes[0]):
                inputs[node.target] = own.graph.placeholder(f"attribute_{len(inputs)}")
        node.replace_all_uses_with(inputs[node.target])
        own.graph.erase_node(node)
    # Each placeholder was inserted directly before the first node, after earlier placeholders.
    names = tuple(inputs)
    parts = torch.nn.Module()
    for name, part in own.named_children():
        parts.add_module(name, part)
    readers = tuple(partial(read_attribute, own, name) for name in names)
    return TracedGraph(torch.fx.GraphModule(parts, own.graph), readers, positions)


def read_attribute(own: torch.nn.Module, name: str) -> Any:
    value: Any = own
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def control_flow(graph: torch.fx.Graph) -> Sequence[str]:
    """The distinct operators of a graph that take functions, such as `cond`."""
    targets = {node.target for node in graph.nodes if torch_internals.takes_functions(node.target)}
    return sorted(target.name() for target in targets)


def find_device_type(inputs: Sequence[Any]) -> str:
    """The type of the device of the first tensor that is not on the CPU, or `cpu`. Numbers that
    change are tensors of the CPU."""
    types = (value.device.type for value in inputs if isinstance(value, torch.Tensor))
    return next((type_ for type_ in types if type_ != "cpu"), "cpu")
