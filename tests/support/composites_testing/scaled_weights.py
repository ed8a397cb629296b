"""A weight of integers and scales as a wrapper subclass, as libraries of quantization have them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class ScaledWeight(torch.Tensor):
    """`[N, K]` as integers and a scale for each row. A linear layer is what it can compute."""

    qdata: Tensor
    scale: Tensor

    @staticmethod
    def __new__(cls, qdata: Tensor, scale: Tensor) -> ScaledWeight:
        made: Any = torch.Tensor._make_wrapper_subclass(
            cls, qdata.shape, dtype=scale.dtype, device=qdata.device
        )
        made.qdata, made.scale = qdata, scale
        return made

    def __init__(self, qdata: Tensor, scale: Tensor) -> None:
        super().__init__()

    @classmethod
    def quantize(cls, weight: Tensor) -> ScaledWeight:
        scale = weight.detach().abs().amax(1, keepdim=True) / 127
        return cls((weight.detach() / scale).round().to(torch.int8), scale)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"ScaledWeight({list(self.shape)})"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["qdata", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], *_: Any) -> ScaledWeight:
        return ScaledWeight(inner["qdata"], inner["scale"])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            input, weight, *bias = args
            product = input @ weight.qdata.to(input.dtype).t() * weight.scale.flatten()
            return product if not bias or bias[0] is None else product + bias[0]
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        assert func in (torch.ops.aten.detach.default, torch.ops.aten.clone.default), func
        weight = args[0]
        return cls(func(weight.qdata), func(weight.scale))


def scale_weights(model: torch.nn.Module) -> torch.nn.Module:
    """Replace the weights of linear layers."""
    for part in model.modules():
        if isinstance(part, torch.nn.Linear):
            weight = ScaledWeight.quantize(part.weight)
            part.weight = torch.nn.Parameter(weight, requires_grad=False)
    return model
