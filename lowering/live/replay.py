"""Running a graph of AOTAutograd with traced tensors.

If the user checkpoints activations, AOTAutograd writes operators that keep the state of the random
number generator in the forward, and draw from it again in the backward. AOTAutograd knows the
states of PyTorch's own generators; in a live program, the state is a tensor of the program.

A traced tensor does not have the memory layout of PyTorch's tensor. The nodes of the graph have.
"""

from collections.abc import Collection, Sequence
from typing import Any

import torch

from composites.torch_internals import is_check_of_errors, is_token, storage_key
from lowering import activation
from lowering.frontends.fx import strides
from lowering.frontends.protocols import RandomNumbers, Seed
from lowering.live.numbers import MULTIPLY_ADD
from lowering.live.strides import in_memory_order, memory_order

_KEEPING = torch.ops.higher_order.run_and_save_rng_state
_DRAWING_AGAIN = torch.ops.higher_order.run_with_rng_state
_IN_ORDER = torch.ops.higher_order.with_effects
"""Calls an operator whose calls must keep their order; takes and returns a token."""


def states_of_generators(graph: torch.fx.Graph) -> Collection[torch.fx.Node]:
    """The inputs of a graph that are generator states, which a forward has kept."""
    nodes = graph.find_nodes(op="call_function", target=_DRAWING_AGAIN)
    return {node.args[0] for node in nodes if isinstance(node.args[0], torch.fx.Node)}


class GraphReplay(torch.fx.Interpreter):
    """Runs a graph with the frontend's generator states."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        """See `torch.fx.Interpreter`."""
        super().__init__(module)
        self.offsets: dict[int, int] = {}
        """The storage offsets of the inputs of which the graph takes views by strides, by position.
        The offsets of such views are relative to the beginning of the storage."""

    def run_node(self, n: torch.fx.Node) -> Any:
        """See `torch.fx.Interpreter`."""
        if n.target is torch.ops.aten.as_strided.default:
            arguments, named = self.fetch_args_kwargs_from_env(n)
            described = n.all_input_nodes[0].meta["val"]
            for position, node in enumerate(self.graph.find_nodes(op="placeholder")):
                value = node.meta.get("val")
                if isinstance(value, torch.Tensor) and storage_key(value) == storage_key(described):
                    self.offsets[position] = int(value.storage_offset())
            view = _view_by_strides(described, *arguments, **named)
            if view is not None:
                return view
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """See `torch.fx.Interpreter`."""
        if target is _KEEPING:
            state = _random_numbers().seed().state
            return state, args[0](*args[1:], **kwargs)
        if target is _DRAWING_AGAIN:
            with _random_numbers().random_state(Seed(args[0], 0)):
                return args[1](*args[2:], **kwargs)
        if is_token(target):
            return None
        if target is _IN_ORDER and is_check_of_errors(args[1]):
            token, check, *values = args
            return token, check(*values, **kwargs)
        if str(target) == MULTIPLY_ADD:
            return args[0] * args[1] + args[2]
        return super().call_function(target, args, kwargs)


def _view_by_strides(
    described: torch.Tensor,
    x: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> torch.Tensor | None:
    """See `aten::as_strided`. None if the view has elements outside of the tensor.

    Args:
        described: a fake tensor with the memory layout that `x` has in eager PyTorch.
    """
    order = memory_order(described)
    if order is None and not described.is_contiguous():
        return None
    first = 0 if storage_offset is None else storage_offset - int(described.storage_offset())
    last = first + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if not 0 <= first <= last < x.numel():
        return None
    return strides.strided_view(in_memory_order(x, order).reshape(-1), size, stride, first)


def _random_numbers() -> RandomNumbers:
    return activation.backend().frontend.random_numbers
