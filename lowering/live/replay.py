"""Running a graph of AOTAutograd with traced tensors.

Where the user asks for checkpointing, AOTAutograd has operators that keep the state of the random
number generator in the forward, and draw from it again in the backward. It knows the states of
PyTorch's own generators; here the state is a tensor of the program.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from lowering import activation
from lowering.frontends.protocols import RandomNumbers, Seed
from lowering.live.numbers import MULTIPLY_ADD

_KEEPING = torch.ops.higher_order.run_and_save_rng_state
_DRAWING_AGAIN = torch.ops.higher_order.run_with_rng_state


def states_of_generators(graph: torch.fx.Graph) -> Collection[torch.fx.Node]:
    """The inputs of a graph that are states which a forward has kept."""
    nodes = graph.find_nodes(op="call_function", target=_DRAWING_AGAIN)
    return {node.args[0] for node in nodes if isinstance(node.args[0], torch.fx.Node)}


class Replay(torch.fx.Interpreter):
    """Runs a graph whose states of generators are those of the frontend."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """See `torch.fx.Interpreter`."""
        if target is _KEEPING:
            state = _random_numbers().seed().state
            return state, args[0](*args[1:], **kwargs)
        if target is _DRAWING_AGAIN:
            with _random_numbers().random_state(Seed(args[0], 0)):
                return args[1](*args[2:], **kwargs)
        if str(target) == MULTIPLY_ADD:
            return args[0] * args[1] + args[2]
        return super().call_function(target, args, kwargs)


def _random_numbers() -> RandomNumbers:
    numbers = activation.backend().frontend.random_numbers
    assert numbers is not None
    return numbers
