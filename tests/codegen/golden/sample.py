# Generated from sample.yaml; do not edit.
# Template: lowering/codegen/hooks.py.jinja
"""Hooks of the sample composites, generated from the schemas of their operators.

A hook has the arguments of what it catches. Before them it takes the lowering of its entry, to
which it is bound as a method is to an object.
"""

# ruff: noqa: B006, E501, F401
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.types import Number

from composites.attribute_types import key_of as _key_of
from lowering.dispatch.autograd.function import CompositeFunction
from lowering.dispatch.backend import EntryLowering
from lowering.dispatch.call import CallSpec
from lowering.dispatch.keys import owner_key as _owner_key
from lowering.dispatch.keys import tensor_key as _tensor_key
from lowering.dispatch.keys import value_key as _value_key

# Arguments can have the names of these.
_tuple, _type = tuple, type


def gelu_tanh(_lowering: EntryLowering, self: Tensor, *, approximate: str = 'none') -> Any:
    """Lower calls as sample.gelu_tanh, version 2.

    aten::gelu(Tensor self, *, str approximate="none") -> Tensor
    """
    _key = (self.shape, self.dtype, approximate)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'approximate': approximate})
    )
    return _kernel(self)


def mean(_lowering: EntryLowering, self: Tensor, dim: list[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """Lower calls as sample.mean, version 1.

    aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
    """
    _key = (self.shape, self.dtype, None if dim is None else _tuple(dim), keepdim, dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'keepdim': keepdim, 'dtype': dtype})
    )
    return _kernel(self)


def addmm(_lowering: EntryLowering, self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """Lower calls as sample.addmm, version 1.

    aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    """
    _key = (self.shape, self.dtype, mat1.shape, mat1.dtype, mat2.shape, mat2.dtype, _key_of(beta), _key_of(alpha))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(mat1, mat2, self), arguments={'beta': beta, 'alpha': alpha})
    )
    return _kernel(mat1, mat2, self)


BACKEND_HOOKS = {
    'gelu_tanh': gelu_tanh,
    'mean': mean,
    'addmm': addmm,
}

AUTOGRAD_HOOKS = {
}

FUNCTION_HOOKS = {
}
