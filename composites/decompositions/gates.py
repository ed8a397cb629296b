"""Gated activations."""

from __future__ import annotations

import torch
from torch import Tensor

from composites.decompositions.opmath import check_same_dtype, opmath_type


def glu_backward(grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    """Gradient of GLU's input.

    With a and b the halves of `self` along `dim`, GLU(a, b) = a * sigmoid(b) (torch.nn.GLU), so

        d/da = grad_output * sigmoid(b)
        d/db = grad_output * a * sigmoid(b) * (1 - sigmoid(b))

    Shapes: grad_output (…, n, …); self and the result (…, 2n, …).
    """
    check_same_dtype(self, grad_output)
    opmath = opmath_type(self.dtype)
    half = self.size(dim) // 2
    a = self.narrow(dim, 0, half).to(opmath)
    gate = torch.sigmoid(self.narrow(dim, half, half).to(opmath))
    grad_a = grad_output.to(opmath) * gate
    grad_b = grad_a * a * (1 - gate)
    return torch.cat((grad_a, grad_b), dim).to(self.dtype)
