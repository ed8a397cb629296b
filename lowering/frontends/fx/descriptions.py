"""Kernels for the device `meta` that PyTorch lacks: torch.compile traces with tensors that have no
values."""

from typing import Any

import torch

from composites import torch_internals

_library = torch.library.Library("aten", "IMPL")


def _rounded(self: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(self), torch.empty_like(self, dtype=torch.bool)


for _name in (
    "fake_quantize_per_tensor_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "fake_quantize_per_channel_affine_cachemask",
):
    if "fallback" in torch_internals.kernel_origin(f"aten::{_name}", "Meta"):
        _library.impl(_name, _rounded, "Meta")
