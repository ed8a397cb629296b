"""A call of a composite as autograd sees it, either live or in a compiled graph."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""The types of tensors that a composite takes: no subclass, which may compute something else."""

TensorMeta = tuple[torch.Size, torch.dtype]
"""Shape and dtype of a tensor."""

Gradients = list[Tensor | None]
"""A gradient for each operand; None where no gradient is needed."""


class Differentiable(Protocol):
    """A call of a composite that autograd runs forward and backward."""

    def forward(self, operands: Sequence[Tensor | None]) -> Sequence[Tensor]:
        """The composite's results, followed by the additional saved tensors."""

    def backward(
        self,
        grads: Sequence[Tensor | None],
        kept: Sequence[Tensor | None],
        output_mask: Sequence[bool],
    ) -> Gradients:
        """A gradient for each operand; None where `output_mask` is false."""


class TypedCall(Differentiable, Protocol):
    """A differentiable call with the types of its operands and results."""

    @property
    def types(self) -> Sequence[TensorMeta | None]:
        """Shape and dtype of each operand."""

    @property
    def result_types(self) -> Sequence[TensorMeta]:
        """Shape and dtype of each tensor that `forward` returns."""
