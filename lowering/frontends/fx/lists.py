"""Decompositions of operators on lists of tensors, such as `aten::_foreach_add`: one call for each
tensor. Optimizers and `torch.nn.utils.clip_grad_norm_` call these operators."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from composites import torch_internals
from composites.registry.operators import overload
from lowering.frontends.fx import DISPATCH_KEY

_PREFIX = "aten::_foreach_"


def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions for devices without kernels that read no values, by overload."""
    made: dict[Any, Callable[..., Any]] = {
        overload("aten::_foreach_addcdiv.Tensor"): partial(_with_factors, torch.true_divide),
        overload("aten::_foreach_addcmul.Tensor"): partial(_with_factors, torch.mul),
        overload("aten::_foreach_copy"): _copied,
        overload("aten::_foreach_zero"): lambda tensors: list(map(torch.zeros_like, tensors)),
    }
    keys = torch_internals.key_set(DISPATCH_KEY)
    for name in torch_internals.operator_names():
        if not name.startswith(_PREFIX) or name.endswith("_"):
            continue
        for schema in torch_internals.schemas_of(name):
            full = f"{name}.{schema.overload_name}".removesuffix(".")
            if not full.endswith("out"):
                kernel = torch.library.get_kernel(full, DISPATCH_KEY)
                made.setdefault(overload(full), partial(kernel.call_boxed, keys))
    return made


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
