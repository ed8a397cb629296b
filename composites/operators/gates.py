"""Gated activations."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import UnsupportedCallError
from composites.operators.opmath import check_same_dtype, opmath_type


def glu_backward(grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    """Gradient of GLU with respect to its input.

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


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """`silu(gate) * up`: Shazeer, "GLU Variants Improve Transformer" (2020), without biases.

    Args:
        gate, up: tensors of the same shape, floating point.
    """
    return functional.silu(gate) * up


def geglu(gate: Tensor, up: Tensor, *, approximate: str) -> Tensor:
    """`gelu(gate) * up`: Shazeer, "GLU Variants Improve Transformer" (2020), without biases.

    Args:
        gate, up: tensors of the same shape, floating point.
        approximate: GELU's formula; see `torch.nn.functional.gelu`.
    """
    return functional.gelu(gate, approximate=approximate) * up


def swiglu_of_mlp(composite: Callable[..., Tensor], module: Any, x: Tensor) -> Tensor:
    """Run a gated MLP's `forward` with its gate as the composite."""
    # The check uses the name, so that this module need not import transformers.
    if type(module.act_fn).__name__ not in ("SiLU", "SiLUActivation"):
        raise UnsupportedCallError(f"the activation is {module.act_fn}")
    return _gated_mlp(composite, module, x)


def geglu_of_mlp(composite: Callable[..., Tensor], module: Any, x: Tensor) -> Tensor:
    """Run the `forward` of a gated MLP with GELU, as `swiglu_of_mlp` does with SiLU."""
    gelu = getattr(module.act_fn, "act", None)  # in transformers, possibly a functools.partial
    if getattr(gelu, "func", gelu) is not functional.gelu:
        raise UnsupportedCallError(f"the activation is {module.act_fn}")
    keywords = getattr(gelu, "keywords", {"approximate": "none"})
    return _gated_mlp(partial(composite, **keywords), module, x)


def _gated_mlp(composite: Callable[..., Tensor], module: Any, x: Tensor) -> Tensor:
    gate, up = module.gate_proj(x), module.up_proj(x)
    try:
        gated = composite(gate, up)
    except UnsupportedCallError:  # a fallback would run the projections and their hooks again
        gated = module.act_fn(gate) * up
    result: Tensor = module.down_proj(gated)
    return result
