"""Casts under functionalization.

PyTorch's functionalization of `aten::_to_copy` ends at devices that it does not know to be lazy
ones: the result would not be functional any more (torch 2.15.0, `FunctionalizeFallbackKernel.cpp`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from composites.torch_internals import DispatchKeySet
from lowering.frontends.aten_in_jax.table import overload
from lowering.frontends.fx import FUNCTIONALIZATION_KEY, capture
from lowering.frontends.fx.device import DEVICE_TYPE
from lowering.frontends.registration import Override, Place

_NAME = "aten::_to_copy"


@cache
def keep_casts_functional() -> Override:
    """Have the result of a cast functional, if its operand is. This stays for the life of the
    process."""
    cast = overload(_NAME)
    stock = torch.library.get_kernel(_NAME, FUNCTIONALIZATION_KEY).call_boxed

    def kernel(keys: DispatchKeySet, self: Any, **keywords: Any) -> Any:
        if not isinstance(self, torch.Tensor) or self.device.type != DEVICE_TYPE:
            return stock(keys, self, **keywords)
        return capture.functional(capture.called(cast, (capture.traced(self),), keywords))

    place = Place(_NAME, FUNCTIONALIZATION_KEY, with_keyset=True, stock=stock, overload=cast)
    return place.override(kernel)
