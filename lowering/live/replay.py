"""Running a graph of AOTAutograd with traced tensors.

If the user checkpoints activations, AOTAutograd writes operators that keep the state of the random
number generator in the forward, and draw from it again in the backward. AOTAutograd knows the
states of PyTorch's own generators; in a live program, the state is a tensor of the program.

A traced tensor does not have the memory layout of PyTorch's tensor. The nodes of the graph have.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from composites.torch_internals import is_check_of_errors, is_token, storage_key
from lowering import activation
from lowering.frontends.errors import NoKernelError
from lowering.frontends.fx import strides
from lowering.frontends.protocols import RandomNumbers, Seed
from lowering.live.numbers import MULTIPLY_ADD
from lowering.live.strides import Order, in_own_order, memory_order

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
        super().__init__(module, garbage_collect_values=False)  # views are taken of them
        self.offsets: dict[int, int] = {}
        """The storage offsets of the inputs of which the graph takes views by strides, by position.
        The offsets of such views are relative to the beginning of the storage."""

    def run_node(self, n: torch.fx.Node) -> Any:
        """See `torch.fx.Interpreter`."""
        by_strides = _BY_STRIDES.get(n.target)
        if by_strides is not None:
            arguments, named = self.fetch_args_kwargs_from_env(n)
            made = by_strides(self, n.all_input_nodes[0], *arguments, **named)
            if made is not None:
                return made
            raise NoKernelError(
                f"{n.target} takes elements of memory that no tensor of the graph has in order"
            )
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

    def _view(
        self,
        node: torch.fx.Node,
        x: torch.Tensor,
        size: Sequence[int],
        stride: Sequence[int],
        storage_offset: int | None = None,
    ) -> torch.Tensor | None:
        """See `aten::as_strided`. The elements are those of `x`, or of a tensor that it is a view
        of. None where there is no such tensor."""
        viewed = node.meta["val"]
        start = viewed.storage_offset()
        if storage_offset is not None:
            start = storage_offset
            for position, placeholder in enumerate(self.graph.find_nodes(op="placeholder")):
                if _shares_memory(placeholder, viewed):
                    self.offsets[position] = int(placeholder.meta["val"].storage_offset())
        for base in (node, *self.env):
            order = _dense_order(base.meta.get("val"))
            if order is None or not _shares_memory(base, viewed):
                continue
            first = start - int(base.meta["val"].storage_offset())
            flat = self.env[base].permute(order).reshape(-1)
            if _is_inside(flat, size, stride, first):
                return strides.strided_view(flat, size, stride, first)
        return None

    def _write(
        self,
        node: torch.fx.Node,
        x: torch.Tensor,
        src: torch.Tensor,
        size: Sequence[int],
        stride: Sequence[int],
        storage_offset: int | None = None,
    ) -> torch.Tensor | None:
        """See `aten::as_strided_scatter`."""
        order, first = _dense_order(node.meta["val"]), 0
        if storage_offset is not None:
            first = storage_offset - int(node.meta["val"].storage_offset())
        if order is None or not _is_inside(x, size, stride, first):
            return None
        ordered = x.permute(order)
        written = strides.strided_write(ordered.reshape(-1), src, size, stride, first)
        return in_own_order(written.reshape(ordered.shape), order)


_BY_STRIDES: Mapping[Any, Callable[..., torch.Tensor | None]] = {
    torch.ops.aten.as_strided.default: GraphReplay._view,
    torch.ops.aten.as_strided_scatter.default: GraphReplay._write,
}


def _dense_order(described: Any) -> Order:
    """The order of the dimensions in memory; None if they have gaps."""
    if not isinstance(described, torch.Tensor):
        return None
    is_contiguous = described.is_contiguous()
    return tuple(range(described.dim())) if is_contiguous else memory_order(described)


def _shares_memory(node: torch.fx.Node, other: torch.Tensor) -> bool:
    """Return whether a node is a tensor in the same memory, of which elements are read alike."""
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and storage_key(value) == storage_key(other)
        and (value.dtype, value.is_conj(), value.is_neg())
        == (other.dtype, other.is_conj(), other.is_neg())
    )


def _is_inside(x: torch.Tensor, size: Sequence[int], stride: Sequence[int], first: int) -> bool:
    """Return whether a view by strides has only elements of a tensor without gaps."""
    last = first + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    return 0 in size or 0 <= first <= last < x.numel()


def _random_numbers() -> RandomNumbers:
    return activation.backend().frontend.random_numbers
