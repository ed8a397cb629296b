"""A call of a composite as autograd sees it: a live one, or one in a compiled graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

TensorMeta = tuple[torch.Size, torch.dtype]
"""Shape and dtype of a tensor."""

Gradients = list[Tensor | None]
"""A gradient for each operand; None where none is wanted."""


class Differentiable(Protocol):
    """A call of a composite that autograd runs both ways."""

    def forward(self, operands: Sequence[Tensor | None]) -> Sequence[Tensor]:
        """The composite's results, and what is saved beside them."""

    def backward(
        self,
        grads: Sequence[Tensor | None],
        kept: Sequence[Tensor | None],
        output_mask: Sequence[bool],
    ) -> Gradients:
        """A gradient for each operand; None where `output_mask` says that none is wanted."""


class TypedCall(Differentiable, Protocol):
    """Such a call, with the types of what it takes and gives."""

    @property
    def types(self) -> Sequence[TensorMeta | None]:
        """Shape and dtype of each operand."""

    @property
    def result_types(self) -> Sequence[TensorMeta]:
        """The same of what `forward` returns."""
