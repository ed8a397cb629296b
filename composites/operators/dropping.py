"""Stochastic depth."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError


def drop_path(hidden_states: Tensor, *, drop_prob: float) -> Tensor:
    """Set random samples of the batch to zero, and divide the other samples by `1 - drop_prob`.

    Huang et al., "Deep Networks with Stochastic Depth" (2016).

    Args:
        hidden_states: `[N, …]`, floating point.
        drop_prob: the probability that a sample is dropped.
    """
    kept = 1 - drop_prob
    shape = (hidden_states.shape[0],) + (1,) * (hidden_states.ndim - 1)
    drawn = torch.rand(shape, dtype=hidden_states.dtype, device=hidden_states.device)
    return hidden_states.div(kept) * torch.floor(drawn + kept)


def drop_path_of_module(
    composite: Callable[..., Tensor], module: Any, hidden_states: Tensor
) -> Tensor:
    """Adapt the `forward` of a module to the composite's operand and attribute."""
    if not module.training or module.drop_prob == 0.0:
        raise UnsupportedCallError("drop_prob is 0, or the module is not in training")
    return composite(hidden_states, drop_prob=module.drop_prob)
