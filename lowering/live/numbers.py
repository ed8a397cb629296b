"""Numbers that change from call to call, such as the learning rate of a schedule.

Dynamo passes such a number to its graph as a tensor, and reads it: `lr.item() * 0.01`. A traced
tensor has no value to read. The number therefore stays a tensor of f64, the type of Python's
numbers, up to an operation with another tensor, which decides the type of the result:
`p * (1 - lr * 0.01)` is `p * (1 - lr * 0.01).to(p.dtype)`.
"""

import copy
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from composites import torch_internals

_ARITHMETIC: Mapping[Any, Callable[..., Any]] = {
    operator.add: operator.add, operator.iadd: operator.add, operator.sub: operator.sub,
    operator.isub: operator.sub, operator.mul: operator.mul, operator.imul: operator.mul,
    operator.truediv: operator.truediv, operator.itruediv: operator.truediv,
    operator.pow: operator.pow, operator.neg: operator.neg,
}  # fmt: skip
"""Python's operators, and their forms that write to no operand, since numbers are immutable."""
_METHODS = {"add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_"}
MULTIPLY_ADD = "prims.fma.default"
"""An operator in Dynamo's graphs of optimizers, which PyTorch defines when it imports Inductor."""
_SCALED = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
"""Methods, and the keyword of the number that the last tensors are multiplied by."""


def changing_numbers(graph: torch.fx.Graph) -> list[int]:
    """Positions of a graph's inputs that are numbers in the program, and tensors in the graph."""
    return [
        position
        for position, node in enumerate(graph.find_nodes(op="placeholder"))
        if getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
        and not node.meta["grapharg"].is_tensor  # an array of NumPy
    ]


def without_reads(
    graph: torch.fx.GraphModule, positions: Collection[int]
) -> torch.fx.GraphModule | None:
    """A copy of a graph that does not read numbers; None if the graph cannot be rewritten.

    Args:
        positions: see `changing_numbers`.
    """
    own = copy.deepcopy(graph.graph)
    placeholders = own.find_nodes(op="placeholder")
    read = {node for n in positions for node in placeholders[n].users}
    if any(node.target != "item" for node in read):
        return None
    numbers: set[Any] = set()
    for node in list(own.nodes):
        if node in read:
            numbers.add(node.args[0])
            node.replace_all_uses_with(node.args[0])
            own.erase_node(node)
        elif numbers.intersection(node.all_input_nodes) and not _rewrite(node, numbers):
            return None
    return torch.fx.GraphModule(graph, own)


def put_values(graph: torch.fx.Graph, positions: Collection[int], values: Any) -> None:
    """Replace the reads of numbers in a graph by their values."""
    placeholders = graph.find_nodes(op="placeholder")
    for position in positions:
        number = float(values[position])
        for node in list(placeholders[position].users):
            if node.target == "item":
                put_number(node, number)
                graph.erase_node(node)


def put_number(node: torch.fx.Node, number: float) -> None:
    """Replace all uses of a node in a graph by a number."""

    def put(argument: torch.fx.Node) -> Any:
        return number if argument is node else argument

    for user in list(node.users):
        user.args = torch.fx.node.map_arg(user.args, put)
        user.kwargs = torch.fx.node.map_arg(user.kwargs, put)
        name = str(user.target)
        if user.op == "call_method" and user.args[0] is number:  # torch.fx would write 5.__add__(1)
            if not hasattr(operator, name):  # __radd__
                name, user.args = name.replace("__r", "__", 1), user.args[::-1]
            user.op, user.target = "call_function", getattr(operator, name)


def _rewrite(node: torch.fx.Node, numbers: set[Any]) -> bool:
    """Rewrite a call that takes numbers. Return False if this is not possible."""
    is_arithmetic = node.op == "call_function" and node.target in _ARITHMETIC
    if is_arithmetic and node.args[0] in numbers:
        node.target = _ARITHMETIC[node.target]
    if is_arithmetic and numbers.issuperset(node.all_input_nodes):
        numbers.add(node)
        return True
    dtype = _dtype(node)
    if dtype not in (torch.float32, torch.float64):
        return False  # narrower types would round the number

    def cast(argument: Any) -> Any:
        if argument not in numbers:
            return argument
        with node.graph.inserting_before(node):
            return node.graph.call_method("to", (argument, dtype))

    if str(node.target) == MULTIPLY_ADD:
        first, second, third = map(cast, node.args)
        with node.graph.inserting_before(node):
            product = node.graph.call_function(operator.mul, (first, second))
        node.target, node.args = operator.add, (product, third)
        return True
    if (
        is_arithmetic
        or node.target in torch_internals.PRODUCTS_OF_LISTS
        or (node.op == "call_method" and node.target in _METHODS)
    ):
        node.args = torch.fx.node.map_arg(node.args, cast)
        return not numbers.intersection(node.all_input_nodes) or _scale(node, numbers, cast)
    if node.target is torch.full and node.args[0] == () and node.args[1] in numbers:
        with node.graph.inserting_before(node):
            filled = node.graph.call_method("clone", (cast(node.args[1]),))
        node.replace_all_uses_with(filled)
        node.graph.erase_node(node)
        return True
    return _scale(node, numbers, cast)


def _scale(node: torch.fx.Node, numbers: set[Any], cast: Callable[[Any], Any]) -> bool:
    """Write `x.add_(y, alpha=n)` as `x.add_(y * n)`, and `x.addcdiv_(y, z, value=n)` as
    `x.add_(y * n / z)`."""
    if node.op != "call_method" or not isinstance(node.target, str):
        return False
    name, in_place = node.target.removesuffix("_"), node.target.endswith("_")
    number = node.kwargs.get(_SCALED.get(name, ""))
    operands_left = set(node.all_input_nodes) - {number}
    if number not in numbers or numbers & operands_left or len(node.kwargs) > 1:
        return False
    changed, first, *second = node.args
    operands = (changed, first, *second)
    if any(not isinstance(x, torch.fx.Node) or _dtype(x) != _dtype(node) for x in operands):
        return False  # PyTorch multiplies in the type of the result
    with node.graph.inserting_before(node):
        scaled = node.graph.call_method("mul", (first, cast(number)))
        if second:
            scaled = node.graph.call_method(name.removeprefix("addc"), (scaled, *second))
    node.target = ("sub" if name == "sub" else "add") + "_" * in_place
    node.args, node.kwargs = (changed, scaled), {}
    return True


def _dtype(node: torch.fx.Node) -> torch.dtype | None:
    """The dtype of a call's result or of the tensors in its list argument; None if they differ."""
    taken = node.args[0] if node.args else None
    nodes = taken if isinstance(taken, list | tuple) and taken else [node]
    values = [n.meta.get("example_value") for n in nodes if isinstance(n, torch.fx.Node)]
    dtypes = {value.dtype if isinstance(value, torch.Tensor) else None for value in values}
    return dtypes.pop() if len(dtypes) == 1 else None
