"""Clipping of gradients by their norm, and the adapter from torch.nn.utils."""

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError
from composites.torch_internals import assign_all, share_memory


def clip_grad_norm(grads: list[Tensor], max_norm: Tensor, *, norm_type: float) -> list[Tensor]:
    """Scale gradients so that their common norm is at most `max_norm`.

    Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (2013).
    The common norm is the norm of the tensors' norms. 1e-6 is added to it before the division, as
    in torch.nn.utils.clip_grad_norm_.

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
    """Return the common norm, and the factor for the gradients."""
    if math.isinf(norm_type):
        total_norm = torch.stack([grad.abs().max() for grad in grads]).max()
    else:
        norms = [torch.norm(grad, norm_type) for grad in grads]
        total_norm = torch.norm(torch.stack(norms), norm_type)
    factor = max_norm / (total_norm + 1e-6)
    return total_norm, torch.where(factor < 1, factor, torch.ones_like(factor))


def adapt_clip_grad_norm(
    composite: Callable[..., Sequence[Tensor]],
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Adapt `torch.nn.utils.clip_grad_norm_` as torch_xla defines it.

    The parameters may come from a generator, which the stock function could not read again. So if
    the composite cannot take the call, this function computes it in the same way.
    """
    if foreach or error_if_nonfinite:
        raise UnsupportedCallError("foreach and error_if_nonfinite need the original function")
    if norm_type == -math.inf:
        raise UnsupportedCallError("norm_type is -inf")
    listed = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [parameter.grad.detach() for parameter in listed if parameter.grad is not None]
    if not grads:  # falls back: the stock function gets no gradients either
        raise UnsupportedCallError("no parameter has a gradient")
    exponent = float(norm_type)
    bound = torch.full((), float(max_norm), dtype=grads[0].dtype, device=grads[0].device)
    with torch.no_grad():
        if share_memory(grads):  # scale them in order: shared memory is scaled several times
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
