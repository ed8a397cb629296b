"""Activations as models write them in Python."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def new_gelu(input: Tensor) -> Tensor:
    """GELU by its tanh formula: `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.

    Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), with the roundings of GPT-2: each
    step is rounded to the dtype of `input`.

    Args:
        input: any shape, floating point.

    Returns:
        A tensor of the shape and dtype of `input`.
    """
    half = 0.5 * input  # first, as in GPT-2: autograd adds gradients in the order of uses
    inner = math.sqrt(2.0 / math.pi) * (input + 0.044715 * torch.pow(input, 3.0))
    return half * (1.0 + torch.tanh(inner))


def fast_gelu(input: Tensor) -> Tensor:
    """GELU by the tanh formula with a rounded constant and the roundings of `FastGELUActivation`.

    Args:
        input: any shape, floating point.
    """
    half = 0.5 * input
    return half * (1.0 + torch.tanh(input * 0.7978845608 * (1.0 + 0.044715 * input * input)))


def quick_gelu(input: Tensor) -> Tensor:
    """`x * sigmoid(1.702 x)`: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016).

    Args:
        input: any shape, floating point.
    """
    return input * torch.sigmoid(1.702 * input)


def relu_squared(input: Tensor) -> Tensor:
    """`relu(x)^2`: So et al., "Primer" (2021).

    Args:
        input: any shape, floating point.
    """
    return torch.square(torch.relu(input))


def xielu(input: Tensor, alpha_p: Tensor, alpha_n: Tensor, beta: Tensor, eps: Tensor) -> Tensor:
    """The integral of ELU, with trained slopes: Huang and Schlag, "xIELU" (2024).

    With `a = softplus(alpha_p)` and `b = beta + softplus(alpha_n)`, it is `a x^2 + beta x` above
    zero, and elsewhere `b (exp(min(x, eps)) - 1 - x) + beta x`.

    Args:
        input: any shape, floating point.
        alpha_p, alpha_n: `[1]`.
        beta, eps: numbers.
    """
    above, below = functional.softplus(alpha_p), beta + functional.softplus(alpha_n)
    return torch.where(
        input > 0,
        above * input * input + beta * input,
        (torch.expm1(torch.min(input, eps)) - input) * below + beta * input,
    )


def xielu_of_module(composite: Callable[..., Tensor], module: Any, x: Tensor) -> Tensor:
    """Adapt `XIELUActivation._xielu_python` to the composite's operands."""
    return composite(x, module.alpha_p, module.alpha_n, module.beta, module.eps)


def bloom_gelu(input: Tensor) -> Tensor:
    """GELU by its tanh formula, with the constants and roundings of BLOOM.

    Args:
        input: any shape, floating point.
    """
    return input * 0.5 * (1.0 + torch.tanh(0.79788456 * input * (1 + 0.044715 * input * input)))


def bloom_gelu_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """The gradient of `bloom_gelu`, as BLOOM defines it.

    With `t = tanh(0.79788456 x (1 + 0.044715 x^2))`, it is
    `0.5 x (1 - t^2) (0.79788456 + 0.1070322243 x^2) + 0.5 (1 + t)`.
    """
    tanh = torch.tanh(0.79788456 * input * (1 + 0.044715 * input * input))
    slope = (1 - tanh * tanh) * (0.79788456 + 0.1070322243 * input * input)
    return (0.5 * input * slope + 0.5 * (1 + tanh)) * grad_output


def adapt_activation(composite: Callable[..., Tensor], module: Any, input: Tensor) -> Tensor:
    """Adapt an activation module's `forward` to the composite's operand."""
    return composite(input)
