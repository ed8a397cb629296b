"""Autocast on the device of traced tensors.

In PyTorch, each backend decides which operators `torch.autocast` casts. Exports, and live programs
on devices with their own memory, use the lists of CUDA; live programs on the CPU use those of the
CPU ("Autocast Op Reference" in PyTorch's documentation).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

import torch

from composites import torch_internals
from composites.contexts import with_setting, with_value
from composites.registry.operators import overload
from composites.torch_internals import pytree
from lowering.frontends import autocast as states
from lowering.frontends.fx import DEVICE_TYPE
from lowering.frontends.protocols import Kernel
from lowering.frontends.registration import register_at_key

AUTOCAST_KEY = "AutocastIPU"
_STATE = "ipu"
"""PyTorch has no autocast for the device of traced tensors. This module uses the state and the
dispatch key of a device that no package registers any more; the key is added to the calls of a
thread while autocast is on."""

TO_LOWER_PRECISION = (
    "_convolution", "_convolution.deprecated", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell",
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d",
    "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input",
    "convolution", "einsum", "gru_cell", "linalg_multi_dot", "linalg_vecdot", "linear",
    "lstm_cell", "matmul", "mm", "mv", "prelu", "rnn_relu_cell", "rnn_tanh_cell",
    "scaled_dot_product_attention",
)  # fmt: skip

ON_THE_CPU_TO_LOWER_PRECISION = (
    "_addmm_activation", "_convolution.deprecated", "_native_multi_head_attention", "addbmm",
    "addmm", "baddbmm", "bmm", "conv1d", "conv1d.padding", "conv2d", "conv2d.padding", "conv3d",
    "conv3d.padding", "conv_tbc", "conv_transpose1d", "conv_transpose2d.input",
    "conv_transpose3d.input", "linalg_vecdot", "linear", "matmul", "mm", "prelu",
    "scaled_dot_product_attention",
)  # fmt: skip

ON_THE_CPU_TO_WIDEST = ("cat", "index_copy", "stack")
"""All other operators for which PyTorch has a kernel of autocast compute in f32."""

_LIBRARY_OPERATORS = {
    "_cudnn_rnn", "_scaled_dot_product_flash_attention", "cudnn_convolution",
    "cudnn_convolution_transpose", "mkldnn_rnn_layer",
}  # fmt: skip
"""Operators that PyTorch calls only on its own devices."""

TO_WIDEST = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler", "index_put",
    "scatter_add", "tensordot", "vdot",
)  # fmt: skip

WITH_FLOAT32_RESULT: Mapping[str, int | None] = {
    "cumprod": None, "cumsum": None, "linalg_matrix_norm": None, "linalg_matrix_norm.str_ord": None,
    "linalg_vector_norm": None, "log_softmax.int": 2, "prod": None, "prod.dim_int": None,
    "softmax.int": 2, "sum": None, "sum.dim_IntList": None,
}  # fmt: skip
"""The position of the argument `dtype`, which is f32 by default; None if it is a keyword."""

WITH_DTYPE = {
    "norm.Scalar": "norm.ScalarOpt_dtype",
    "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype",
}
"""The overload that takes a dtype, which autocast sets to f32."""


def autocast_dtype() -> torch.dtype | None:
    """The dtype of the active autocast of traced tensors; None if autocast is off."""
    return states.autocast_dtype(_STATE)


@contextmanager
def autocast(dtype: torch.dtype | None) -> Iterator[None]:
    """A context in which autocast of traced tensors uses a dtype; None turns it off."""
    is_added = partial(torch_internals.includes_key, torch_internals.parse_key(AUTOCAST_KEY))
    add = partial(torch_internals.include_key, AUTOCAST_KEY)
    with states.autocast(_STATE, dtype), with_setting(is_added, add, dtype is not None):
        yield


def offered() -> AbstractContextManager[None]:
    """A context in which `torch.autocast(x.device.type)` casts, for a traced tensor `x`."""

    def turned(enabled: bool) -> None:
        torch_internals.include_key(AUTOCAST_KEY, enabled)

    return torch_internals.autocast_offered(DEVICE_TYPE, _STATE, turned)


def _is_cast(value: Any) -> bool:
    """Return whether autocast changes the dtype of an argument."""
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == DEVICE_TYPE
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


# ---- kernels, which run without autocast ----


def _in(dtype: torch.dtype, call: Kernel, *arguments: Any, **keywords: Any) -> Any:
    """Call an operator with its arguments in a dtype."""

    def cast(value: Any) -> Any:
        return value.to(dtype) if _is_cast(value) else value

    args, named = pytree.tree_map(cast, (arguments, keywords))
    return call(*args, **named)


def _lower_precision(call: Kernel, *arguments: Any, **keywords: Any) -> Any:
    return _in(torch.get_autocast_dtype(_STATE), call, *arguments, **keywords)


def _widest(call: Kernel, *arguments: Any, **keywords: Any) -> Any:
    leaves = pytree.tree_leaves((arguments, keywords))
    wide = any(_is_cast(leaf) and leaf.dtype == torch.float32 for leaf in leaves)
    to = torch.float32 if wide else torch.get_autocast_dtype(_STATE)
    return _in(to, call, *arguments, **keywords)


def _float32_result(call: Kernel, position: int | None, *arguments: Any, **keywords: Any) -> Any:
    args: Sequence[Any] = arguments
    if position is None:
        asked = keywords.get("dtype")
    else:
        asked = arguments[position] if len(arguments) > position else keywords.get("dtype")
        args = arguments[:position]
    if asked is not None or not _is_cast(arguments[0]):
        return call(*arguments, **keywords)
    return call(*args, **{**keywords, "dtype": torch.float32})


def _with_dtype(call: Kernel, plain: Kernel, *arguments: Any, **keywords: Any) -> Any:
    if not _is_cast(arguments[0]):
        return plain(*arguments, **keywords)
    return call(*arguments, **keywords, dtype=torch.float32)


def _unsafe(*_: Any, **__: Any) -> Any:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast; use"
        " binary_cross_entropy_with_logits or BCEWithLogitsLoss, which have the sigmoid inside"
    )


def _kernels(
    key: str, to_lower_precision: Sequence[str], to_widest: Sequence[str]
) -> dict[str, Kernel]:
    """The autocast kernels of a device type, by operator of aten. `key` is its dispatch key."""
    names = torch_internals.operators_with_kernel(key) - _LIBRARY_OPERATORS
    made: dict[str, Kernel] = {name: partial(_in, torch.float32, _stock(name)) for name in names}
    for name in names.intersection(to_lower_precision):
        made[name] = partial(_lower_precision, _stock(name))
    for name in names.intersection(to_widest):
        made[name] = partial(_widest, _stock(name))
    return made


def _kernels_of_cuda() -> dict[str, Kernel]:
    """The autocast kernels of CUDA, by operator of aten."""
    made = _kernels("AutocastCUDA", TO_LOWER_PRECISION, TO_WIDEST)
    made["binary_cross_entropy"] = _unsafe
    for name, position in WITH_FLOAT32_RESULT.items():
        made[name] = partial(_float32_result, _stock(name), position)
    for name, with_dtype in WITH_DTYPE.items():
        made[name] = partial(_with_dtype, _stock(with_dtype), _stock(name))
    return made


def _stock(name: str) -> Kernel:
    return overload(f"aten::{name}")  # type: ignore[no-any-return]


_CAST_LISTS: ContextVar[str] = ContextVar("_CAST_LISTS", default="cuda")
"""The type of device whose lists are used: `cpu` or `cuda`."""


def with_cast_lists(device_type: str) -> AbstractContextManager[None]:
    """A context in which autocast follows PyTorch's lists for a type of device."""
    return with_value(_CAST_LISTS, "cpu" if device_type == "cpu" else "cuda")


@cache
def define_casts() -> object:
    """Register the kernels that cast. They stay for the life of the process."""
    cpu_kernels = _kernels("AutocastCPU", ON_THE_CPU_TO_LOWER_PRECISION, ON_THE_CPU_TO_WIDEST)
    kernels = {"cpu": cpu_kernels, "cuda": _kernels_of_cuda()}
    key = torch_internals.parse_key(AUTOCAST_KEY)
    after = torch_internals.keys_after(key)

    def call(name: str, keys: Any, *arguments: Any, **keywords: Any) -> Any:
        kernel = kernels[_CAST_LISTS.get()].get(name)
        if kernel is None:  # autocast stays on for operators that this one calls
            return overload(f"aten::{name}").redispatch(keys & after, *arguments, **keywords)
        with torch_internals.excluding_key(key):
            return kernel(*arguments, **keywords)

    names = {**kernels["cpu"], **kernels["cuda"]}
    return register_at_key(AUTOCAST_KEY, {name: partial(call, name) for name in names})
