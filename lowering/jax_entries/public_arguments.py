"""Arguments of public functions for entries that catch a private operator of PyTorch.

A public function, such as `torch.nn.functional.softmax`, fills in all arguments of the private
operator that it calls, which therefore has no defaults. Each function here has the arguments of a
public one, of PyTorch or of `jax.nn`, and returns those of the operator by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from composites.errors import InvalidCallError
from composites.operators.aten_enums import MEAN


def softmax(self: Any, dim: int = -1, *, axis: int | None = None) -> dict[str, Any]:
    """`aten::_softmax` and `aten::_log_softmax`; `axis` is the name that `jax.nn` has for `dim`."""
    if axis is not None and dim != -1:
        raise InvalidCallError(f"dim={dim} and axis={axis} name the same argument; write one")
    return {"self": self, "dim": dim if axis is None else axis, "half_to_float": False}


def nll_loss(
    self: Any,
    target: Any,
    weight: Any = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> dict[str, Any]:
    """`aten::nll_loss_forward` and `aten::nll_loss2d_forward`, as `functional.nll_loss`."""
    return {
        "self": self,
        "target": target,
        "weight": weight,
        "reduction": reduction,
        "ignore_index": ignore_index,
    }


FUNCTIONS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "aten::_softmax": softmax,
    "aten::_log_softmax": softmax,
    "aten::nll_loss_forward": nll_loss,
    "aten::nll_loss2d_forward": nll_loss,
}
"""Functions by operator. `aten::_weight_norm` has the arguments of `torch._weight_norm` already."""
