"""`experts_implementation="composites"` of transformers.

`lowering.autoload` imports this module after transformers, and calls `register`.
"""

from typing import Any

from torch import Tensor
from transformers.integrations import moe

from composites.operators.transformers_attention import NAME


def register() -> None:
    """Add the implementation to those of transformers."""
    # Not `experts_forward` itself: while an entry catches it, another function has its name.
    moe.ExpertsInterface.register(NAME, lambda *arguments: experts_forward(*arguments))


def experts_forward(
    module: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor
) -> Tensor:
    """Experts as transformers calls them: those of `batched_mm`, which entries catch here.

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
