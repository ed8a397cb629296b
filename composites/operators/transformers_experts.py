"""`experts_implementation="composites"` of transformers.

`lowering.autoload` imports this module after transformers, and calls `register`.
"""

from typing import Any

from torch import Tensor
from transformers.integrations import moe

from composites.operators.transformers_attention import NAME


def register() -> None:
    """Register the implementation in transformers."""
    # Look `experts_forward` up at each call: an entry that catches it replaces the function.
    moe.ExpertsInterface.register(NAME, lambda *arguments: experts_forward(*arguments))


def experts_forward(
    module: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor
) -> Tensor:
    """Compute the experts of a layer as `batched_mm` does. Entries catch calls of this function.

    Args:
        module: a module of experts, whose class has `@use_experts_implementation`.
        hidden_states: `[tokens, hidden]`, floating point.
        top_k_index, top_k_weights: `[tokens, k]`, the experts of a token and their weights.

    Returns:
        `[tokens, hidden]`.
    """
    result: Tensor = moe.batched_mm_experts_forward(
        module, hidden_states, top_k_index, top_k_weights
    )
    return result
