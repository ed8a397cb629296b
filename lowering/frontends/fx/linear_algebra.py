"""Operators without kernels in PyTorch for the device `meta`, among them linear algebra, checks of
values, and fake quantization, which torch.compile traces with tensors that have no values."""

from typing import Any

import torch

from composites import torch_internals
from composites.registry.operators import overload
from lowering.frontends.aten_in_jax import linear_algebra
from lowering.frontends.errors import ValueReadError
from lowering.frontends.fx import capture

_WITH_CHECKS = ("LinalgEighBackward0", "LinalgSvdBackward0")
"""Gradients whose formulas check complex vectors with `allclose`."""


def _lstsq(*arguments: Any, **keywords: Any) -> Any:
    """`torch.linalg.lstsq` as on CUDA, where sizes of results do not depend on values."""
    return capture.from_top(linear_algebra.linalg_lstsq, arguments, keywords)


def _factorized(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(self), self.new_empty((*self.shape[:-2], min(self.shape[-2:])))


def _check(*arguments: Any, **keywords: Any) -> None:
    """Omit a check of values, such as of the classes in `one_hot`. If a factorization fails, its
    result is infinite or NaN."""


def _check_in_order(value: Any, message: str, token: Any) -> Any:
    """Omit a check that keeps its order among other calls, and return its token."""
    return token


def _allclose(*arguments: Any, **keywords: Any) -> bool:
    """Omit the check for losses that depend on the phase of complex vectors, which PyTorch refuses.

    Raises:
        ValueReadError: the module makes the call, and may branch on the result.
    """
    if torch_internals.running_formula() in _WITH_CHECKS:
        return True
    raise ValueReadError("aten::allclose reads the values of tensors, but a traced one has none")


capture.FUNCTIONS[overload("aten::allclose")] = _allclose
capture.FUNCTIONS[overload("aten::linalg_lstsq")] = _lstsq
_CHECKS = ("_linalg_check_errors", "_assert_async", "_assert_async.msg", "_assert_tensor_metadata")
for _name in _CHECKS:
    capture.FUNCTIONS[overload(f"aten::{_name}")] = _check
capture.FUNCTIONS[overload("aten::_functional_assert_async.msg")] = _check_in_order


def _like_operand(grad: torch.Tensor, self: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(self)


def _fake_quantized(self: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(self), torch.empty_like(self, dtype=torch.bool)


_library = torch.library.Library("aten", "IMPL")
_DESCRIPTIONS = {
    "geqrf": _factorized,
    "fractional_max_pool3d_backward": _like_operand,
    "multi_margin_loss_backward": _like_operand,
    "multilabel_margin_loss_backward": _like_operand,
    "fake_quantize_per_tensor_affine_cachemask": _fake_quantized,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _fake_quantized,
    "fake_quantize_per_channel_affine_cachemask": _fake_quantized,
}
for _name, _description in _DESCRIPTIONS.items():
    if "fallback" in torch_internals.kernel_origin(f"aten::{_name}", "Meta"):
        _library.impl(_name, _description, "Meta")
