"""Activations as models write them in Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def new_gelu(input: Tensor) -> Tensor:
    """GELU by its tanh formula: `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.

    Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), with the roundings of GPT-2: each
    step is rounded to the dtype of `input`.

    Args:
        input: any shape, floating point.

    Returns:
        A tensor of the shape and dtype of `input`.
    """
    half = 0.5 * input  # first, as in GPT-2: autograd adds gradients in the order of the uses
    inner = math.sqrt(2.0 / math.pi) * (input + 0.044715 * torch.pow(input, 3.0))
    return half * (1.0 + torch.tanh(inner))


def of_module(composite: Callable[..., Tensor], module: Any, input: Tensor) -> Tensor:
    """Adapt an activation module's `forward` to the composite's operand."""
    return composite(input)
