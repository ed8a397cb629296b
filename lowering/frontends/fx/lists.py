"""Decompositions of operators on lists of tensors, such as `aten::_foreach_add`: one call for each
tensor. Optimizers and `torch.nn.utils.clip_grad_norm_` call these operators."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch

from composites import torch_internals
from lowering.frontends.fx import DISPATCH_KEY


@cache
def decomposition_of(operator: Any) -> Callable[..., Any] | None:
    """A decomposition that reads no values: most are those of PyTorch for devices without kernels.
    None for an operator that is not one of these."""
    name = operator.name()
    if not name.startswith("aten::_foreach_"):
        return None
    if name in _OWN:
        return _OWN[name]
    kernel = torch.library.get_kernel(name, DISPATCH_KEY)
    return partial(kernel.call_boxed, torch_internals.key_set(DISPATCH_KEY))


def _with_factors(
    function: Callable[..., Any],
    tensors: Sequence[Any],
    firsts: Sequence[Any],
    seconds: Sequence[Any],
    factors: Any,
) -> list[Any]:
    """The results of an operator such as addcmul, with a tensor that has a factor for each call."""
    lists = zip(tensors, firsts, seconds, factors.unbind(), strict=True)
    return [tensor + function(a, b) * factor for tensor, a, b, factor in lists]


def _copied(tensors: Sequence[Any], sources: Sequence[Any], non_blocking: bool = False) -> Any:
    pairs = zip(tensors, sources, strict=True)
    return [source.to(tensor.dtype).expand_as(tensor).clone() for tensor, source in pairs]


_OWN: dict[str, Callable[..., Any]] = {
    "aten::_foreach_addcdiv.Tensor": partial(_with_factors, torch.true_divide),
    "aten::_foreach_addcmul.Tensor": partial(_with_factors, torch.mul),
    "aten::_foreach_copy": _copied,
    "aten::_foreach_zero": lambda tensors: list(map(torch.zeros_like, tensors)),
}
