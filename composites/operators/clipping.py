"""Clipping of gradients by their norm, and the adapter from torch.nn.utils."""

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError
from composites.torch_internals import assign_all, share_memory


def clip_grad_norm(grads: list[Tensor], max_norm: Tensor, *, norm_type: float) -> list[Tensor]:
    """Gradients, scaled so that their common norm is at most `max_norm`.

    Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (2013).
    The norm is that of the norms of the tensors, and 1e-6 is added to it before the division, as
    torch.nn.utils.clip_grad_norm_ does.

    Args:
        grads: floating point, of any shapes.
        max_norm: 0-d, of the dtype of the first gradient.
        norm_type: the exponent; infinity for the greatest absolute value.

    Returns:
        The common norm, 0-d, and the new gradients.
    """
    total_norm, factor = _norm_and_factor(grads, max_norm, norm_type)
    return [total_norm, *(grad * factor for grad in grads)]


def _norm_and_factor(
    grads: Sequence[Tensor], max_norm: Tensor, norm_type: float
) -> tuple[Tensor, Tensor]:
    """The common norm, and the factor of the gradients."""
    if math.isinf(norm_type):
        total_norm = torch.stack([grad.abs().max() for grad in grads]).max()
    else:
        norms = [torch.norm(grad, norm_type) for grad in grads]
        total_norm = torch.norm(torch.stack(norms), norm_type)
    factor = max_norm / (total_norm + 1e-6)
    return total_norm, torch.where(factor < 1, factor, torch.ones_like(factor))


def of_parameters(
    composite: Callable[..., Sequence[Tensor]],
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Adapt `torch.nn.utils.clip_grad_norm_` as torch_xla defines it.

    The parameters may come from a generator. Once it is used up the stock function would find none,
    so a call that the composite cannot take is made here, in the same way.
    """
    if foreach or error_if_nonfinite:
        raise UnsupportedCallError("foreach and error_if_nonfinite need the original function")
    if norm_type == -math.inf:
        raise UnsupportedCallError("norm_type is -inf")
    listed = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [parameter.grad.detach() for parameter in listed if parameter.grad is not None]
    if not grads:  # nor does the stock function find any
        raise UnsupportedCallError("no parameter has a gradient")
    exponent = float(norm_type)
    bound = torch.full((), float(max_norm), dtype=grads[0].dtype, device=grads[0].device)
    with torch.no_grad():
        if share_memory(grads):  # one after the other, so what they share is scaled each time
            total_norm, factor = _norm_and_factor(grads, bound, exponent)
            for grad in grads:
                grad.mul_(factor)
            return total_norm
        try:
            total_norm, *clipped = composite(grads, bound, norm_type=exponent)
        except UnsupportedCallError:
            total_norm, *clipped = clip_grad_norm(grads, bound, norm_type=exponent)
        assign_all(grads, clipped)
    return total_norm
