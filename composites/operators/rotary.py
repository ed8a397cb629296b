"""Rotary embeddings of images."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def patch_rotary_embedding(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate the last positions, which are the patches of an image. `cos` has their number.

    Args:
        q, k: `[N, H, L, C]`, floating point.
        cos, sin: `[P, C]`, for the last P of L positions.
    """
    patches = sin.shape[-2]
    return _rotated(q, patches, cos, sin), _rotated(k, patches, cos, sin)


def _rotated(x: Tensor, patches: int, cos: Tensor, sin: Tensor) -> Tensor:
    prefix, last = x.split((x.shape[-2] - patches, patches), dim=-2)
    rotated = (last * cos) + (_half_turned(last) * sin)
    return torch.cat((prefix, rotated), dim=-2)


def _half_turned(x: Tensor) -> Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def patch_rotary_embedding_of_function(
    composite: Callable[..., tuple[Tensor, Tensor]],
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Adapt `apply_rotary_pos_emb` of DINOv3, which ignores other keyword arguments."""
    return composite(q, k, cos, sin)
