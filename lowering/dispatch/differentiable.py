"""The tensors that autograd passes to a composite, and receives from it."""

import torch
from torch import Tensor

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""The types of tensors that a composite takes: no subclass, which may compute something else."""

TensorMeta = tuple[torch.Size, torch.dtype]
"""Shape and dtype of a tensor."""


def meta_tensor(type_: TensorMeta) -> Tensor:
    """A tensor without data that has a shape and a dtype."""
    shape, dtype = type_
    return torch.empty(shape, dtype=dtype, device="meta")


Gradients = list[Tensor | None]
"""A gradient for each operand; None where no gradient is needed."""
