"""Rotary embeddings of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def patch_rotary_embedding(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate halves of the last positions, the patches of an image, as many as `cos` has.

    Args:
        q, k: `[N, H, L, C]`, floating point.
        cos, sin: `[P, C]`, for the last P of L positions.
    """
    prefix = q.shape[-2] - sin.shape[-2]

    def rotated(x: Tensor) -> Tensor:
        first, patches = x.split((prefix, sin.shape[-2]), dim=-2)
        half = patches.shape[-1] // 2
        turned = torch.cat((-patches[..., half:], patches[..., :half]), dim=-1)
        return torch.cat((first, (patches * cos) + (turned * sin)), dim=-2)

    return rotated(q), rotated(k)


def patch_rotary_embedding_of_function(
    composite: Callable[..., tuple[Tensor, Tensor]],
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Adapt `apply_rotary_pos_emb` of DINOv3, which reads no further keyword."""
    return composite(q, k, cos, sin)
