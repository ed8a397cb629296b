"""Traced tensors: their types, and placeholders."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from composites import torch_internals
from lowering.emission.types import TensorType
from lowering.frontends.fx import DEVICE_TYPE, capture
from lowering.frontends.fx.sizes import in_jax, in_pytorch, vary
from lowering.frontends.tensor_types import DTYPE_OF, tensor_type

LIVE_BACKENDS: list[Callable[..., Any]] = []
"""The backends of torch.compile whose graphs this frontend traces."""


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def is_compiled_here() -> bool:
    """Return whether Dynamo traces for one of `LIVE_BACKENDS`."""
    return torch_internals.dynamo_backend() in LIVE_BACKENDS


class FxTensors:
    """See `lowering.frontends.protocols.Tensors`."""

    device_type = DEVICE_TYPE

    @staticmethod
    def owns(tensor: torch.Tensor) -> bool:
        if tensor.device.type == DEVICE_TYPE:
            return True
        # Dynamo traces live programs with tensors of the user's device.
        return torch.compiler.is_dynamo_compiling() and is_compiled_here()

    @staticmethod
    def tensor_type(tensor: torch.Tensor) -> TensorType:
        type_ = tensor_type(tensor, "StableHLO")
        return replace(type_, shape=in_jax(type_.shape)) if vary() else type_

    @staticmethod
    def described(type_: TensorType) -> tuple[torch.Size, torch.dtype]:
        return torch.Size(in_pytorch(type_.shape)), DTYPE_OF[type_.element_type]

    @staticmethod
    def placeholder(like: torch.Tensor) -> torch.Tensor:
        return torch_internals.functional(traced_placeholder(like))

    @staticmethod
    def read_instead(computed: torch.Tensor, saved: torch.Tensor) -> None:
        node = capture.traced(computed).node
        if node.op != "placeholder":
            node.replace_all_uses_with(capture.traced(saved).node)


def traced_placeholder(
    like: torch.Tensor, shape: Sequence[Any] | None = None
) -> capture.TracedTensor:
    """A placeholder for calls below functionalization.

    Args:
        shape: the shape of the placeholder, if it differs from that of `like`.
    """
    FxTensors.tensor_type(like)
    # Parameters of the program have no strides.
    size = tuple(like.shape if shape is None else shape)
    described = torch.empty(size, dtype=like.dtype, device="meta")
    return capture.placeholder(described)
