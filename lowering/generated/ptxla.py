# Generated from registry.yaml; do not edit.
# Template: lowering/codegen/hooks.py.jinja
"""Hooks of the ptxla composites, generated from the schemas of their operators.

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


def gelu(_lowering: EntryLowering, self: Tensor, *, approximate: str = 'none') -> Any:
    """Lower calls as ptxla.gelu, version 1.

    aten::gelu(Tensor self, *, str approximate="none") -> Tensor
    """
    _key = (self.shape, self.dtype, approximate)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'approximate': approximate})
    )
    return _kernel(self)


def gelu_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, *, approximate: str = 'none') -> Any:
    """Lower calls as ptxla.gelu_backward, version 1.

    aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, approximate)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self), arguments={'approximate': approximate})
    )
    return _kernel(grad_output, self)


def silu(_lowering: EntryLowering, self: Tensor) -> Any:
    """Lower calls as ptxla.silu, version 1.

    aten::silu(Tensor self) -> Tensor
    """
    _key = (self.shape, self.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={})
    )
    return _kernel(self)


def silu_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor) -> Any:
    """Lower calls as ptxla.silu_backward, version 1.

    aten::silu_backward(Tensor grad_output, Tensor self) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self), arguments={})
    )
    return _kernel(grad_output, self)


def hardswish(_lowering: EntryLowering, self: Tensor) -> Any:
    """Lower calls as ptxla.hardswish, version 1.

    aten::hardswish(Tensor self) -> Tensor
    """
    _key = (self.shape, self.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={})
    )
    return _kernel(self)


def hardswish_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor) -> Any:
    """Lower calls as ptxla.hardswish_backward, version 1.

    aten::hardswish_backward(Tensor grad_output, Tensor self) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self), arguments={})
    )
    return _kernel(grad_output, self)


def mish(_lowering: EntryLowering, self: Tensor) -> Any:
    """Lower calls as ptxla.mish, version 1.

    aten::mish(Tensor self) -> Tensor
    """
    _key = (self.shape, self.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={})
    )
    return _kernel(self)


def mish_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor) -> Any:
    """Lower calls as ptxla.mish_backward, version 1.

    aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self), arguments={})
    )
    return _kernel(grad_output, self)


def elu(_lowering: EntryLowering, self: Tensor, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Any:
    """Lower calls as ptxla.elu, version 1.

    aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor
    """
    _key = (self.shape, self.dtype, _key_of(alpha), _key_of(scale), _key_of(input_scale))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'alpha': alpha, 'scale': scale, 'input_scale': input_scale})
    )
    return _kernel(self)


def elu_backward(_lowering: EntryLowering, grad_output: Tensor, alpha: Number, scale: Number, input_scale: Number, is_result: bool, self_or_result: Tensor) -> Any:
    """Lower calls as ptxla.elu_backward, version 1.

    aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, _key_of(alpha), _key_of(scale), _key_of(input_scale), is_result, self_or_result.shape, self_or_result.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self_or_result), arguments={'alpha': alpha, 'scale': scale, 'input_scale': input_scale, 'is_result': is_result})
    )
    return _kernel(grad_output, self_or_result)


def hardsigmoid(_lowering: EntryLowering, self: Tensor) -> Any:
    """Lower calls as ptxla.hardsigmoid, version 1.

    aten::hardsigmoid(Tensor self) -> Tensor
    """
    _key = (self.shape, self.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={})
    )
    return _kernel(self)


def hardsigmoid_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor) -> Any:
    """Lower calls as ptxla.hardsigmoid_backward, version 1.

    aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self), arguments={})
    )
    return _kernel(grad_output, self)


def log_sigmoid(_lowering: EntryLowering, self: Tensor) -> Any:
    """Lower calls as ptxla.log_sigmoid, version 1.

    aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)
    """
    _key = (self.shape, self.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={})
    )
    return _kernel(self)


def log_sigmoid_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, buffer: Tensor) -> Any:
    """Lower calls as ptxla.log_sigmoid_backward, version 1.

    aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, buffer.shape, buffer.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self, buffer), arguments={})
    )
    return _kernel(grad_output, self, buffer)


def softplus(_lowering: EntryLowering, self: Tensor, beta: Number = 1, threshold: Number = 20) -> Any:
    """Lower calls as ptxla.softplus, version 1.

    aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor
    """
    _key = (self.shape, self.dtype, _key_of(beta), _key_of(threshold))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'beta': beta, 'threshold': threshold})
    )
    return _kernel(self)


def softplus_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, beta: Number, threshold: Number) -> Any:
    """Lower calls as ptxla.softplus_backward, version 1.

    aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, _key_of(beta), _key_of(threshold))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self), arguments={'beta': beta, 'threshold': threshold})
    )
    return _kernel(grad_output, self)


def leaky_relu(_lowering: EntryLowering, self: Tensor, negative_slope: Number = 0.01) -> Any:
    """Lower calls as ptxla.leaky_relu, version 1.

    aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor
    """
    _key = (self.shape, self.dtype, _key_of(negative_slope))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'negative_slope': negative_slope})
    )
    return _kernel(self)


def leaky_relu_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, negative_slope: Number, self_is_result: bool) -> Any:
    """Lower calls as ptxla.leaky_relu_backward, version 1.

    aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, _key_of(negative_slope), self_is_result)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self), arguments={'negative_slope': negative_slope, 'self_is_result': self_is_result})
    )
    return _kernel(grad_output, self)


def hardtanh(_lowering: EntryLowering, self: Tensor, min_val: Number = -1, max_val: Number = 1) -> Any:
    """Lower calls as ptxla.hardtanh, version 1.

    aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor
    """
    _key = (self.shape, self.dtype, _key_of(min_val), _key_of(max_val))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'min_val': min_val, 'max_val': max_val})
    )
    return _kernel(self)


def hardtanh_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, min_val: Number, max_val: Number) -> Any:
    """Lower calls as ptxla.hardtanh_backward, version 1.

    aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, _key_of(min_val), _key_of(max_val))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self), arguments={'min_val': min_val, 'max_val': max_val})
    )
    return _kernel(grad_output, self)


def glu(_lowering: EntryLowering, self: Tensor, dim: int = -1) -> Any:
    """Lower calls as ptxla.glu, version 1.

    aten::glu(Tensor self, int dim=-1) -> Tensor
    """
    _key = (self.shape, self.dtype, dim)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim})
    )
    return _kernel(self)


def glu_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, dim: int) -> Any:
    """Lower calls as ptxla.glu_backward, version 1.

    aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, dim)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self), arguments={'dim': dim})
    )
    return _kernel(grad_output, self)


def softmax(_lowering: EntryLowering, self: Tensor, dim: int, half_to_float: bool) -> Any:
    """Lower calls as ptxla.softmax, version 1.

    aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
    """
    _key = (self.shape, self.dtype, dim, half_to_float)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'half_to_float': half_to_float})
    )
    return _kernel(self)


def softmax_backward(_lowering: EntryLowering, grad_output: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Any:
    """Lower calls as ptxla.softmax_backward, version 1.

    aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, output.shape, output.dtype, dim, input_dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, output), arguments={'dim': dim, 'input_dtype': input_dtype})
    )
    return _kernel(grad_output, output)


def log_softmax(_lowering: EntryLowering, self: Tensor, dim: int, half_to_float: bool) -> Any:
    """Lower calls as ptxla.log_softmax, version 1.

    aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
    """
    _key = (self.shape, self.dtype, dim, half_to_float)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'half_to_float': half_to_float})
    )
    return _kernel(self)


def log_softmax_backward(_lowering: EntryLowering, grad_output: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Any:
    """Lower calls as ptxla.log_softmax_backward, version 1.

    aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, output.shape, output.dtype, dim, input_dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, output), arguments={'dim': dim, 'input_dtype': input_dtype})
    )
    return _kernel(grad_output, output)


def layer_norm(_lowering: EntryLowering, input: Tensor, normalized_shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """Lower calls as ptxla.layer_norm, version 1.

    aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)
    """
    _key = (input.shape, input.dtype, _tuple(normalized_shape), None if weight is None else (weight.shape, weight.dtype), None if bias is None else (bias.shape, bias.dtype), eps)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input, weight, bias), arguments={'normalized_shape': normalized_shape, 'eps': eps})
    )
    return _kernel(input, weight, bias)


def group_norm(_lowering: EntryLowering, input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    """Lower calls as ptxla.group_norm, version 1.

    aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)
    """
    _key = (input.shape, input.dtype, None if weight is None else (weight.shape, weight.dtype), None if bias is None else (bias.shape, bias.dtype), N, C, HxW, group, eps)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input, weight, bias), arguments={'N': N, 'C': C, 'HxW': HxW, 'group': group, 'eps': eps})
    )
    return _kernel(input, weight, bias)


def batch_norm_inference(_lowering: EntryLowering, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: bool, momentum: float, eps: float) -> Any:
    """Lower calls as ptxla.batch_norm_inference, version 1.

    aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
    """
    _key = (input.shape, input.dtype, None if weight is None else (weight.shape, weight.dtype), None if bias is None else (bias.shape, bias.dtype), None if running_mean is None else (running_mean.shape, running_mean.dtype), None if running_var is None else (running_var.shape, running_var.dtype), training, momentum, eps)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input, weight, bias, running_mean, running_var), arguments={'training': training, 'momentum': momentum, 'eps': eps})
    )
    return _kernel(input, weight, bias, running_mean, running_var)


def batch_norm_backward(_lowering: EntryLowering, grad_out: Tensor, input: Tensor, weight: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, save_mean: Tensor | None, save_invstd: Tensor | None, train: bool, eps: float, output_mask: list[bool]) -> Any:
    """Lower calls as ptxla.batch_norm_backward, version 1.

    aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
    """
    _key = (grad_out.shape, grad_out.dtype, input.shape, input.dtype, None if weight is None else (weight.shape, weight.dtype), None if running_mean is None else (running_mean.shape, running_mean.dtype), None if running_var is None else (running_var.shape, running_var.dtype), None if save_mean is None else (save_mean.shape, save_mean.dtype), None if save_invstd is None else (save_invstd.shape, save_invstd.dtype), train, eps, _tuple(output_mask))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd), arguments={'train': train, 'eps': eps, 'output_mask': output_mask})
    )
    return _kernel(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd)


def weight_norm(_lowering: EntryLowering, v: Tensor, g: Tensor, dim: int = 0) -> Any:
    """Lower calls as ptxla.weight_norm, version 1.

    aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor
    """
    _key = (v.shape, v.dtype, g.shape, g.dtype, dim)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(v, g), arguments={'dim': dim})
    )
    return _kernel(v, g)


def rms_norm(_lowering: EntryLowering, input: Tensor, normalized_shape: list[int], weight: Tensor | None = None, eps: float | None = None) -> Any:
    """Lower calls as ptxla.rms_norm, version 2.

    aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor
    """
    _key = (input.shape, input.dtype, _tuple(normalized_shape), None if weight is None else (weight.shape, weight.dtype), eps)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input, weight), arguments={'normalized_shape': normalized_shape, 'eps': eps})
    )
    return _kernel(input, weight)


def dropout(_lowering: EntryLowering, input: Tensor, p: float, train: bool) -> Any:
    """Lower calls as ptxla.dropout, version 1.

    aten::dropout(Tensor input, float p, bool train) -> Tensor
    """
    _key = (input.shape, input.dtype, p, train)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input,), arguments={'p': p, 'train': train})
    )
    return _kernel(input)


def nll_loss(_lowering: EntryLowering, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Any:
    """Lower calls as ptxla.nll_loss, version 1.

    aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)
    """
    _key = (self.shape, self.dtype, target.shape, target.dtype, None if weight is None else (weight.shape, weight.dtype), reduction, ignore_index)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, target, weight), arguments={'reduction': reduction, 'ignore_index': ignore_index})
    )
    return _kernel(self, target, weight)


def nll_loss_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, total_weight: Tensor) -> Any:
    """Lower calls as ptxla.nll_loss_backward, version 1.

    aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, target.shape, target.dtype, None if weight is None else (weight.shape, weight.dtype), reduction, ignore_index, total_weight.shape, total_weight.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self, target, weight, total_weight), arguments={'reduction': reduction, 'ignore_index': ignore_index})
    )
    return _kernel(grad_output, self, target, weight, total_weight)


def nll_loss2d(_lowering: EntryLowering, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Any:
    """Lower calls as ptxla.nll_loss2d, version 1.

    aten::nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)
    """
    _key = (self.shape, self.dtype, target.shape, target.dtype, None if weight is None else (weight.shape, weight.dtype), reduction, ignore_index)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, target, weight), arguments={'reduction': reduction, 'ignore_index': ignore_index})
    )
    return _kernel(self, target, weight)


def nll_loss2d_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, total_weight: Tensor) -> Any:
    """Lower calls as ptxla.nll_loss2d_backward, version 1.

    aten::nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, target.shape, target.dtype, None if weight is None else (weight.shape, weight.dtype), reduction, ignore_index, total_weight.shape, total_weight.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self, target, weight, total_weight), arguments={'reduction': reduction, 'ignore_index': ignore_index})
    )
    return _kernel(grad_output, self, target, weight, total_weight)


def mse_loss(_lowering: EntryLowering, self: Tensor, target: Tensor, reduction: int = 1) -> Any:
    """Lower calls as ptxla.mse_loss, version 1.

    aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
    """
    _key = (self.shape, self.dtype, target.shape, target.dtype, reduction)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, target), arguments={'reduction': reduction})
    )
    return _kernel(self, target)


def mse_loss_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int) -> Any:
    """Lower calls as ptxla.mse_loss_backward, version 1.

    aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, target.shape, target.dtype, reduction)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self, target), arguments={'reduction': reduction})
    )
    return _kernel(grad_output, self, target)


def smooth_l1_loss(_lowering: EntryLowering, self: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Any:
    """Lower calls as ptxla.smooth_l1_loss, version 1.

    aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor
    """
    _key = (self.shape, self.dtype, target.shape, target.dtype, reduction, beta)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, target), arguments={'reduction': reduction, 'beta': beta})
    )
    return _kernel(self, target)


def smooth_l1_loss_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, beta: float) -> Any:
    """Lower calls as ptxla.smooth_l1_loss_backward, version 1.

    aten::smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, target.shape, target.dtype, reduction, beta)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self, target), arguments={'reduction': reduction, 'beta': beta})
    )
    return _kernel(grad_output, self, target)


def huber_loss(_lowering: EntryLowering, self: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Any:
    """Lower calls as ptxla.huber_loss, version 1.

    aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor
    """
    _key = (self.shape, self.dtype, target.shape, target.dtype, reduction, delta)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, target), arguments={'reduction': reduction, 'delta': delta})
    )
    return _kernel(self, target)


def huber_loss_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, delta: float) -> Any:
    """Lower calls as ptxla.huber_loss_backward, version 1.

    aten::huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, target.shape, target.dtype, reduction, delta)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self, target), arguments={'reduction': reduction, 'delta': delta})
    )
    return _kernel(grad_output, self, target)


def binary_cross_entropy(_lowering: EntryLowering, self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1) -> Any:
    """Lower calls as ptxla.binary_cross_entropy, version 1.

    aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor
    """
    _key = (self.shape, self.dtype, target.shape, target.dtype, None if weight is None else (weight.shape, weight.dtype), reduction)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, target, weight), arguments={'reduction': reduction})
    )
    return _kernel(self, target, weight)


def binary_cross_entropy_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1) -> Any:
    """Lower calls as ptxla.binary_cross_entropy_backward, version 1.

    aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, target.shape, target.dtype, None if weight is None else (weight.shape, weight.dtype), reduction)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self, target, weight), arguments={'reduction': reduction})
    )
    return _kernel(grad_output, self, target, weight)


def binary_cross_entropy_with_logits(_lowering: EntryLowering, self: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 1) -> Any:
    """Lower calls as ptxla.binary_cross_entropy_with_logits, version 1.

    aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor
    """
    _key = (self.shape, self.dtype, target.shape, target.dtype, None if weight is None else (weight.shape, weight.dtype), None if pos_weight is None else (pos_weight.shape, pos_weight.dtype), reduction)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, target, weight, pos_weight), arguments={'reduction': reduction})
    )
    return _kernel(self, target, weight, pos_weight)


def kl_div(_lowering: EntryLowering, self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Any:
    """Lower calls as ptxla.kl_div, version 1.

    aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor
    """
    _key = (self.shape, self.dtype, target.shape, target.dtype, reduction, log_target)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, target), arguments={'reduction': reduction, 'log_target': log_target})
    )
    return _kernel(self, target)


def cross_entropy_loss(_lowering: EntryLowering, self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100, label_smoothing: float = 0.0) -> Any:
    """Lower calls as ptxla.cross_entropy_loss, version 2.

    aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor
    """
    _key = (self.shape, self.dtype, target.shape, target.dtype, None if weight is None else (weight.shape, weight.dtype), reduction, ignore_index, label_smoothing)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, target, weight), arguments={'reduction': reduction, 'ignore_index': ignore_index, 'label_smoothing': label_smoothing})
    )
    return _kernel(self, target, weight)


def weight_int8pack_mm(_lowering: EntryLowering, self: Tensor, mat2: Tensor, scales: Tensor) -> Any:
    """Lower calls as ptxla.int8_weight_only_linear, version 1.

    aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor
    """
    _key = (self.shape, self.dtype, mat2.shape, mat2.dtype, scales.shape, scales.dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, mat2, scales), arguments={})
    )
    return _kernel(self, mat2, scales)


def scaled_mm(_lowering: EntryLowering, self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None, scale_result: Tensor | None = None, out_dtype: torch.dtype | None = None, use_fast_accum: bool = False) -> Any:
    """Lower calls as ptxla.scaled_mm, version 1.

    aten::_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor
    """
    _key = (self.shape, self.dtype, mat2.shape, mat2.dtype, scale_a.shape, scale_a.dtype, scale_b.shape, scale_b.dtype, None if bias is None else (bias.shape, bias.dtype), None if scale_result is None else (scale_result.shape, scale_result.dtype), out_dtype, use_fast_accum)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, mat2, scale_a, scale_b, bias, scale_result), arguments={'out_dtype': out_dtype, 'use_fast_accum': use_fast_accum})
    )
    return _kernel(self, mat2, scale_a, scale_b, bias, scale_result)


def fake_quantize_per_tensor(_lowering: EntryLowering, self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Any:
    """Lower calls as ptxla.fake_quantize_per_tensor, version 1.

    aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> (Tensor output, Tensor mask)
    """
    _key = (self.shape, self.dtype, scale, zero_point, quant_min, quant_max)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'scale': scale, 'zero_point': zero_point, 'quant_min': quant_min, 'quant_max': quant_max})
    )
    return _kernel(self)


def fake_quantize_per_tensor_with_tensors(_lowering: EntryLowering, self: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int, quant_max: int) -> Any:
    """Lower calls as ptxla.fake_quantize_per_tensor_with_tensors, version 1.

    aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)
    """
    _key = (self.shape, self.dtype, scale.shape, scale.dtype, zero_point.shape, zero_point.dtype, fake_quant_enabled.shape, fake_quant_enabled.dtype, quant_min, quant_max)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, scale, zero_point, fake_quant_enabled), arguments={'quant_min': quant_min, 'quant_max': quant_max})
    )
    return _kernel(self, scale, zero_point, fake_quant_enabled)


def fake_quantize_per_channel(_lowering: EntryLowering, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int) -> Any:
    """Lower calls as ptxla.fake_quantize_per_channel, version 1.

    aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)
    """
    _key = (self.shape, self.dtype, scale.shape, scale.dtype, zero_point.shape, zero_point.dtype, axis, quant_min, quant_max)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, scale, zero_point), arguments={'axis': axis, 'quant_min': quant_min, 'quant_max': quant_max})
    )
    return _kernel(self, scale, zero_point)


def quantize_per_tensor(_lowering: EntryLowering, input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: torch.dtype) -> Any:
    """Lower calls as ptxla.quantize_per_tensor, version 1.

    quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor
    """
    _key = (input.shape, input.dtype, scale, zero_point, quant_min, quant_max, dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input,), arguments={'scale': scale, 'zero_point': zero_point, 'quant_min': quant_min, 'quant_max': quant_max, 'dtype': dtype})
    )
    return _kernel(input)


def quantize_per_tensor_with_tensors(_lowering: EntryLowering, input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: torch.dtype) -> Any:
    """Lower calls as ptxla.quantize_per_tensor_with_tensors, version 1.

    quantized_decomposed::quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor
    """
    _key = (input.shape, input.dtype, scale.shape, scale.dtype, zero_point.shape, zero_point.dtype, quant_min, quant_max, dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input, scale, zero_point), arguments={'quant_min': quant_min, 'quant_max': quant_max, 'dtype': dtype})
    )
    return _kernel(input, scale, zero_point)


def quantize_per_channel(_lowering: EntryLowering, input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int, dtype: torch.dtype) -> Any:
    """Lower calls as ptxla.quantize_per_channel, version 1.

    quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) -> Tensor
    """
    _key = (input.shape, input.dtype, scales.shape, scales.dtype, zero_points.shape, zero_points.dtype, axis, quant_min, quant_max, dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input, scales, zero_points), arguments={'axis': axis, 'quant_min': quant_min, 'quant_max': quant_max, 'dtype': dtype})
    )
    return _kernel(input, scales, zero_points)


def dequantize_per_tensor(_lowering: EntryLowering, input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: torch.dtype, *, out_dtype: torch.dtype | None = None) -> Any:
    """Lower calls as ptxla.dequantize_per_tensor, version 1.

    quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
    """
    _key = (input.shape, input.dtype, scale, zero_point, quant_min, quant_max, dtype, out_dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input,), arguments={'scale': scale, 'zero_point': zero_point, 'quant_min': quant_min, 'quant_max': quant_max, 'dtype': dtype, 'out_dtype': out_dtype})
    )
    return _kernel(input)


def dequantize_per_tensor_with_tensors(_lowering: EntryLowering, input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: torch.dtype, *, out_dtype: torch.dtype | None = None) -> Any:
    """Lower calls as ptxla.dequantize_per_tensor_with_tensors, version 1.

    quantized_decomposed::dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
    """
    _key = (input.shape, input.dtype, scale.shape, scale.dtype, zero_point.shape, zero_point.dtype, quant_min, quant_max, dtype, out_dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input, scale, zero_point), arguments={'quant_min': quant_min, 'quant_max': quant_max, 'dtype': dtype, 'out_dtype': out_dtype})
    )
    return _kernel(input, scale, zero_point)


def dequantize_per_channel(_lowering: EntryLowering, input: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int, quant_min: int, quant_max: int, dtype: torch.dtype, *, out_dtype: torch.dtype | None = None) -> Any:
    """Lower calls as ptxla.dequantize_per_channel, version 1.

    quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
    """
    _key = (input.shape, input.dtype, scales.shape, scales.dtype, None if zero_points is None else (zero_points.shape, zero_points.dtype), axis, quant_min, quant_max, dtype, out_dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input, scales, zero_points), arguments={'axis': axis, 'quant_min': quant_min, 'quant_max': quant_max, 'dtype': dtype, 'out_dtype': out_dtype})
    )
    return _kernel(input, scales, zero_points)


def choose_qparams(_lowering: EntryLowering, input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype) -> Any:
    """Lower calls as ptxla.choose_qparams, version 1.

    quantized_decomposed::choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)
    """
    _key = (input.shape, input.dtype, quant_min, quant_max, eps, dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input,), arguments={'quant_min': quant_min, 'quant_max': quant_max, 'eps': eps, 'dtype': dtype})
    )
    return _kernel(input)


def scaled_dot_product_attention(_lowering: EntryLowering, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False) -> Any:
    """Lower calls as ptxla.scaled_dot_product_attention, version 1.

    aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor
    """
    _key = (query.shape, query.dtype, key.shape, key.dtype, value.shape, value.dtype, None if attn_mask is None else (attn_mask.shape, attn_mask.dtype), dropout_p, is_causal, scale, enable_gqa)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(query, key, value, attn_mask), arguments={'dropout_p': dropout_p, 'is_causal': is_causal, 'scale': scale, 'enable_gqa': enable_gqa})
    )
    return _kernel(query, key, value, attn_mask)


def embedding(_lowering: EntryLowering, weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    """Lower calls as ptxla.embedding, version 1.

    aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor
    """
    _key = (weight.shape, weight.dtype, indices.shape, indices.dtype, padding_idx, scale_grad_by_freq, sparse)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(weight, indices), arguments={'padding_idx': padding_idx, 'scale_grad_by_freq': scale_grad_by_freq, 'sparse': sparse})
    )
    return _kernel(weight, indices)


def embedding_dense_backward(_lowering: EntryLowering, grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    """Lower calls as ptxla.embedding_dense_backward, version 1.

    aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, indices.shape, indices.dtype, num_weights, padding_idx, scale_grad_by_freq)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, indices), arguments={'num_weights': num_weights, 'padding_idx': padding_idx, 'scale_grad_by_freq': scale_grad_by_freq})
    )
    return _kernel(grad_output, indices)


def scatter_reduce(_lowering: EntryLowering, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Any:
    """Lower calls as ptxla.scatter_reduce, version 1.

    aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor
    """
    _key = (self.shape, self.dtype, dim, index.shape, index.dtype, src.shape, src.dtype, reduce, include_self)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, index, src), arguments={'dim': dim, 'reduce': reduce, 'include_self': include_self})
    )
    return _kernel(self, index, src)


def topk(_lowering: EntryLowering, self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Lower calls as ptxla.topk, version 1.

    aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)
    """
    _key = (self.shape, self.dtype, k, dim, largest, sorted)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'k': k, 'dim': dim, 'largest': largest, 'sorted': sorted})
    )
    return _kernel(self)


def argmax(_lowering: EntryLowering, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Lower calls as ptxla.argmax, version 1.

    aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
    """
    _key = (self.shape, self.dtype, dim, keepdim)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'keepdim': keepdim})
    )
    return _kernel(self)


def sort(_lowering: EntryLowering, self: Tensor, dim: int = -1, descending: bool = False) -> Any:
    """Lower calls as ptxla.sort, version 1.

    aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
    """
    _key = (self.shape, self.dtype, dim, descending)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'descending': descending})
    )
    return _kernel(self)


def stable_sort(_lowering: EntryLowering, self: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Any:
    """Lower calls as ptxla.sort, version 1.

    aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
    """
    _key = (self.shape, self.dtype, stable, dim, descending)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'stable': stable, 'dim': dim, 'descending': descending})
    )
    return _kernel(self)


def cumsum(_lowering: EntryLowering, self: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """Lower calls as ptxla.cumsum, version 1.

    aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
    """
    _key = (self.shape, self.dtype, dim, dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'dtype': dtype})
    )
    return _kernel(self)


def var(_lowering: EntryLowering, self: Tensor, dim: list[int] | None = None, *, correction: Number | None = None, keepdim: bool = False) -> Any:
    """Lower calls as ptxla.var, version 1.

    aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
    """
    _key = (self.shape, self.dtype, None if dim is None else _tuple(dim), _key_of(correction), keepdim)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'correction': correction, 'keepdim': keepdim})
    )
    return _kernel(self)


def std(_lowering: EntryLowering, self: Tensor, dim: list[int] | None = None, *, correction: Number | None = None, keepdim: bool = False) -> Any:
    """Lower calls as ptxla.std, version 1.

    aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
    """
    _key = (self.shape, self.dtype, None if dim is None else _tuple(dim), _key_of(correction), keepdim)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'correction': correction, 'keepdim': keepdim})
    )
    return _kernel(self)


def var_mean(_lowering: EntryLowering, self: Tensor, dim: list[int] | None = None, *, correction: Number | None = None, keepdim: bool = False) -> Any:
    """Lower calls as ptxla.var_mean, version 1.

    aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)
    """
    _key = (self.shape, self.dtype, None if dim is None else _tuple(dim), _key_of(correction), keepdim)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'correction': correction, 'keepdim': keepdim})
    )
    return _kernel(self)


def avg_pool2d(_lowering: EntryLowering, self: Tensor, kernel_size: list[int], stride: list[int] = [], padding: list[int] = [0, 0], ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Any:
    """Lower calls as ptxla.avg_pool2d, version 1.

    aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor
    """
    _key = (self.shape, self.dtype, _tuple(kernel_size), _tuple(stride), _tuple(padding), ceil_mode, count_include_pad, divisor_override)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'kernel_size': kernel_size, 'stride': stride, 'padding': padding, 'ceil_mode': ceil_mode, 'count_include_pad': count_include_pad, 'divisor_override': divisor_override})
    )
    return _kernel(self)


def avg_pool2d_backward(_lowering: EntryLowering, grad_output: Tensor, self: Tensor, kernel_size: list[int], stride: list[int], padding: list[int], ceil_mode: bool, count_include_pad: bool, divisor_override: int | None) -> Any:
    """Lower calls as ptxla.avg_pool2d_backward, version 1.

    aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, self.shape, self.dtype, _tuple(kernel_size), _tuple(stride), _tuple(padding), ceil_mode, count_include_pad, divisor_override)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, self), arguments={'kernel_size': kernel_size, 'stride': stride, 'padding': padding, 'ceil_mode': ceil_mode, 'count_include_pad': count_include_pad, 'divisor_override': divisor_override})
    )
    return _kernel(grad_output, self)


def max_pool2d(_lowering: EntryLowering, self: Tensor, kernel_size: list[int], stride: list[int] = [], padding: list[int] = [0, 0], dilation: list[int] = [1, 1], ceil_mode: bool = False) -> Any:
    """Lower calls as ptxla.max_pool2d, version 1.

    aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor
    """
    _key = (self.shape, self.dtype, _tuple(kernel_size), _tuple(stride), _tuple(padding), _tuple(dilation), ceil_mode)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'kernel_size': kernel_size, 'stride': stride, 'padding': padding, 'dilation': dilation, 'ceil_mode': ceil_mode})
    )
    return _kernel(self)


def upsample_nearest2d(_lowering: EntryLowering, self: Tensor, output_size: list[int], scales_h: float | None = None, scales_w: float | None = None) -> Any:
    """Lower calls as ptxla.upsample_nearest2d, version 1.

    aten::upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor
    """
    _key = (self.shape, self.dtype, _tuple(output_size), scales_h, scales_w)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'output_size': output_size, 'scales_h': scales_h, 'scales_w': scales_w})
    )
    return _kernel(self)


def upsample_nearest2d_backward(_lowering: EntryLowering, grad_output: Tensor, output_size: list[int], input_size: list[int], scales_h: float | None = None, scales_w: float | None = None) -> Any:
    """Lower calls as ptxla.upsample_nearest2d_backward, version 1.

    aten::upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, float? scales_h=None, float? scales_w=None) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, _tuple(output_size), _tuple(input_size), scales_h, scales_w)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output,), arguments={'output_size': output_size, 'input_size': input_size, 'scales_h': scales_h, 'scales_w': scales_w})
    )
    return _kernel(grad_output)


def upsample_bilinear2d(_lowering: EntryLowering, self: Tensor, output_size: list[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Any:
    """Lower calls as ptxla.upsample_bilinear2d, version 1.

    aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
    """
    _key = (self.shape, self.dtype, _tuple(output_size), align_corners, scales_h, scales_w)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'output_size': output_size, 'align_corners': align_corners, 'scales_h': scales_h, 'scales_w': scales_w})
    )
    return _kernel(self)


def upsample_bilinear2d_backward(_lowering: EntryLowering, grad_output: Tensor, output_size: list[int], input_size: list[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Any:
    """Lower calls as ptxla.upsample_bilinear2d_backward, version 1.

    aten::upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, _tuple(output_size), _tuple(input_size), align_corners, scales_h, scales_w)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output,), arguments={'output_size': output_size, 'input_size': input_size, 'align_corners': align_corners, 'scales_h': scales_h, 'scales_w': scales_w})
    )
    return _kernel(grad_output)


def upsample_bicubic2d(_lowering: EntryLowering, self: Tensor, output_size: list[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Any:
    """Lower calls as ptxla.upsample_bicubic2d, version 1.

    aten::upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
    """
    _key = (self.shape, self.dtype, _tuple(output_size), align_corners, scales_h, scales_w)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'output_size': output_size, 'align_corners': align_corners, 'scales_h': scales_h, 'scales_w': scales_w})
    )
    return _kernel(self)


def upsample_bicubic2d_backward(_lowering: EntryLowering, grad_output: Tensor, output_size: list[int], input_size: list[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Any:
    """Lower calls as ptxla.upsample_bicubic2d_backward, version 1.

    aten::upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
    """
    _key = (grad_output.shape, grad_output.dtype, _tuple(output_size), _tuple(input_size), align_corners, scales_h, scales_w)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output,), arguments={'output_size': output_size, 'input_size': input_size, 'align_corners': align_corners, 'scales_h': scales_h, 'scales_w': scales_w})
    )
    return _kernel(grad_output)


def grid_sampler_2d(_lowering: EntryLowering, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """Lower calls as ptxla.grid_sampler_2d, version 1.

    aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor
    """
    _key = (input.shape, input.dtype, grid.shape, grid.dtype, interpolation_mode, padding_mode, align_corners)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input, grid), arguments={'interpolation_mode': interpolation_mode, 'padding_mode': padding_mode, 'align_corners': align_corners})
    )
    return _kernel(input, grid)


def grid_sampler_2d_backward(_lowering: EntryLowering, grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool, output_mask: list[bool]) -> Any:
    """Lower calls as ptxla.grid_sampler_2d_backward, version 1.

    aten::grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)
    """
    _key = (grad_output.shape, grad_output.dtype, input.shape, input.dtype, grid.shape, grid.dtype, interpolation_mode, padding_mode, align_corners, _tuple(output_mask))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(grad_output, input, grid), arguments={'interpolation_mode': interpolation_mode, 'padding_mode': padding_mode, 'align_corners': align_corners, 'output_mask': output_mask})
    )
    return _kernel(grad_output, input, grid)


def gru_cell(_lowering: EntryLowering, input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Any:
    """Lower calls as ptxla.gru_cell, version 2.

    aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor
    """
    _key = (input.shape, input.dtype, hx.shape, hx.dtype, w_ih.shape, w_ih.dtype, w_hh.shape, w_hh.dtype, None if b_ih is None else (b_ih.shape, b_ih.dtype), None if b_hh is None else (b_hh.shape, b_hh.dtype))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(input, hx, w_ih, w_hh, b_ih, b_hh), arguments={})
    )
    return _kernel(input, hx, w_ih, w_hh, b_ih, b_hh)


def fft_r2c(_lowering: EntryLowering, self: Tensor, dim: list[int], normalization: int, onesided: bool) -> Any:
    """Lower calls as ptxla.fft_r2c, version 1.

    aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor
    """
    _key = (self.shape, self.dtype, _tuple(dim), normalization, onesided)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'normalization': normalization, 'onesided': onesided})
    )
    return _kernel(self)


def fft_c2c(_lowering: EntryLowering, self: Tensor, dim: list[int], normalization: int, forward: bool) -> Any:
    """Lower calls as ptxla.fft_c2c, version 1.

    aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor
    """
    _key = (self.shape, self.dtype, _tuple(dim), normalization, forward)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'normalization': normalization, 'forward': forward})
    )
    return _kernel(self)


def fft_c2r(_lowering: EntryLowering, self: Tensor, dim: list[int], normalization: int, last_dim_size: int) -> Any:
    """Lower calls as ptxla.fft_c2r, version 1.

    aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor
    """
    _key = (self.shape, self.dtype, _tuple(dim), normalization, last_dim_size)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self,), arguments={'dim': dim, 'normalization': normalization, 'last_dim_size': last_dim_size})
    )
    return _kernel(self)


def mm(_lowering: EntryLowering, self: Tensor, mat2: Tensor, out_dtype: torch.dtype) -> Any:
    """Lower calls as ptxla.mm, version 1.

    aten::mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
    """
    _key = (self.shape, self.dtype, mat2.shape, mat2.dtype, out_dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, mat2), arguments={'out_dtype': out_dtype})
    )
    return _kernel(self, mat2)


def bmm(_lowering: EntryLowering, self: Tensor, mat2: Tensor, out_dtype: torch.dtype) -> Any:
    """Lower calls as ptxla.bmm, version 1.

    aten::bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
    """
    _key = (self.shape, self.dtype, mat2.shape, mat2.dtype, out_dtype)
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, mat2), arguments={'out_dtype': out_dtype})
    )
    return _kernel(self, mat2)


def matmul_accumulate(_lowering: EntryLowering, self: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: torch.dtype, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """Lower calls as ptxla.matmul_accumulate, version 1.

    aten::addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    """
    _key = (self.shape, self.dtype, mat1.shape, mat1.dtype, mat2.shape, mat2.dtype, out_dtype, _key_of(beta), _key_of(alpha))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, mat1, mat2), arguments={'out_dtype': out_dtype, 'beta': beta, 'alpha': alpha})
    )
    return _kernel(self, mat1, mat2)


def addmm(_lowering: EntryLowering, self: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: torch.dtype, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """Lower calls as ptxla.addmm, version 1.

    aten::addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    """
    _key = (self.shape, self.dtype, mat1.shape, mat1.dtype, mat2.shape, mat2.dtype, out_dtype, _key_of(beta), _key_of(alpha))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, mat1, mat2), arguments={'out_dtype': out_dtype, 'beta': beta, 'alpha': alpha})
    )
    return _kernel(self, mat1, mat2)


def baddbmm(_lowering: EntryLowering, self: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: torch.dtype, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """Lower calls as ptxla.baddbmm, version 1.

    aten::baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    """
    _key = (self.shape, self.dtype, batch1.shape, batch1.dtype, batch2.shape, batch2.dtype, out_dtype, _key_of(beta), _key_of(alpha))
    _kernel = _lowering.kernels.get(_key) or _lowering.lower(
        CallSpec(_lowering.form, _key, operands=(self, batch1, batch2), arguments={'out_dtype': out_dtype, 'beta': beta, 'alpha': alpha})
    )
    return _kernel(self, batch1, batch2)


def silu_backward_at_autograd(_composite: CompositeFunction, _keys: Any, grad_output: Tensor, self: Tensor) -> Any:
    """Catch aten::silu_backward as ptxla.silu_backward before PyTorch decomposes it.

    aten::silu_backward(Tensor grad_output, Tensor self) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(grad_output), _tensor_key(self)),
        operands=(grad_output, self),
        arguments={},
        keys=(_keys,),
    ))


def mish_backward_at_autograd(_composite: CompositeFunction, _keys: Any, grad_output: Tensor, self: Tensor) -> Any:
    """Catch aten::mish_backward as ptxla.mish_backward before PyTorch decomposes it.

    aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(grad_output), _tensor_key(self)),
        operands=(grad_output, self),
        arguments={},
        keys=(_keys,),
    ))


def layer_norm_at_autograd(_composite: CompositeFunction, _keys: Any, input: Tensor, normalized_shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """Catch aten::native_layer_norm as ptxla.layer_norm before PyTorch decomposes it.

    aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _value_key(normalized_shape), _tensor_key(weight), _tensor_key(bias), _value_key(eps)),
        operands=(input, weight, bias),
        arguments={'normalized_shape': normalized_shape, 'eps': eps},
        keys=(_keys,),
    ))


def group_norm_at_autograd(_composite: CompositeFunction, _keys: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    """Catch aten::native_group_norm as ptxla.group_norm before PyTorch decomposes it.

    aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(weight), _tensor_key(bias), _value_key(N), _value_key(C), _value_key(HxW), _value_key(group), _value_key(eps)),
        operands=(input, weight, bias),
        arguments={'N': N, 'C': C, 'HxW': HxW, 'group': group, 'eps': eps},
        keys=(_keys,),
    ))


def weight_norm_at_autograd(_composite: CompositeFunction, _keys: Any, v: Tensor, g: Tensor, dim: int = 0) -> Any:
    """Catch aten::_weight_norm as ptxla.weight_norm before PyTorch decomposes it.

    aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(v), _tensor_key(g), _value_key(dim)),
        operands=(v, g),
        arguments={'dim': dim},
        keys=(_keys,),
    ))


def rms_norm_at_autograd(_composite: CompositeFunction, _keys: Any, input: Tensor, normalized_shape: list[int], weight: Tensor | None = None, eps: float | None = None) -> Any:
    """Catch aten::rms_norm as ptxla.rms_norm before PyTorch decomposes it.

    aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _value_key(normalized_shape), _tensor_key(weight), _value_key(eps)),
        operands=(input, weight),
        arguments={'normalized_shape': normalized_shape, 'eps': eps},
        keys=(_keys,),
    ))


def dropout_at_autograd(_composite: CompositeFunction, _keys: Any, input: Tensor, p: float, train: bool) -> Any:
    """Catch aten::dropout as ptxla.dropout before PyTorch decomposes it.

    aten::dropout(Tensor input, float p, bool train) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _value_key(p), _value_key(train)),
        operands=(input,),
        arguments={'p': p, 'train': train},
        keys=(_keys,),
    ))


def kl_div_at_autograd(_composite: CompositeFunction, _keys: Any, self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Any:
    """Catch aten::kl_div as ptxla.kl_div before PyTorch decomposes it.

    aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(self), _tensor_key(target), _value_key(reduction), _value_key(log_target)),
        operands=(self, target),
        arguments={'reduction': reduction, 'log_target': log_target},
        keys=(_keys,),
    ))


def cross_entropy_loss_at_autograd(_composite: CompositeFunction, _keys: Any, self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100, label_smoothing: float = 0.0) -> Any:
    """Catch aten::cross_entropy_loss as ptxla.cross_entropy_loss before PyTorch decomposes it.

    aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(self), _tensor_key(target), _tensor_key(weight), _value_key(reduction), _value_key(ignore_index), _value_key(label_smoothing)),
        operands=(self, target, weight),
        arguments={'reduction': reduction, 'ignore_index': ignore_index, 'label_smoothing': label_smoothing},
        keys=(_keys,),
    ))


def scaled_dot_product_attention_at_autograd(_composite: CompositeFunction, _keys: Any, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False) -> Any:
    """Catch aten::scaled_dot_product_attention as ptxla.scaled_dot_product_attention before PyTorch decomposes it.

    aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(query), _tensor_key(key), _tensor_key(value), _tensor_key(attn_mask), _value_key(dropout_p), _value_key(is_causal), _value_key(scale), _value_key(enable_gqa)),
        operands=(query, key, value, attn_mask),
        arguments={'dropout_p': dropout_p, 'is_causal': is_causal, 'scale': scale, 'enable_gqa': enable_gqa},
        keys=(_keys,),
    ))


def max_pool2d_at_autograd(_composite: CompositeFunction, _keys: Any, self: Tensor, kernel_size: list[int], stride: list[int] = [], padding: list[int] = [0, 0], dilation: list[int] = [1, 1], ceil_mode: bool = False) -> Any:
    """Catch aten::max_pool2d as ptxla.max_pool2d before PyTorch decomposes it.

    aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(self), _value_key(kernel_size), _value_key(stride), _value_key(padding), _value_key(dilation), _value_key(ceil_mode)),
        operands=(self,),
        arguments={'kernel_size': kernel_size, 'stride': stride, 'padding': padding, 'dilation': dilation, 'ceil_mode': ceil_mode},
        keys=(_keys,),
    ))


def gru_cell_at_autograd(_composite: CompositeFunction, _keys: Any, input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Any:
    """Catch aten::gru_cell as ptxla.gru_cell before PyTorch decomposes it.

    aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(hx), _tensor_key(w_ih), _tensor_key(w_hh), _tensor_key(b_ih), _tensor_key(b_hh)),
        operands=(input, hx, w_ih, w_hh, b_ih, b_hh),
        arguments={},
        keys=(_keys,),
    ))


def fft_c2r_at_autograd(_composite: CompositeFunction, _keys: Any, self: Tensor, dim: list[int], normalization: int, last_dim_size: int) -> Any:
    """Catch aten::_fft_c2r as ptxla.fft_c2r before PyTorch decomposes it.

    aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(self), _value_key(dim), _value_key(normalization), _value_key(last_dim_size)),
        operands=(self,),
        arguments={'dim': dim, 'normalization': normalization, 'last_dim_size': last_dim_size},
        keys=(_keys,),
    ))


def mm_at_autograd(_composite: CompositeFunction, _keys: Any, self: Tensor, mat2: Tensor, out_dtype: torch.dtype) -> Any:
    """Catch aten::mm.dtype as ptxla.mm before PyTorch decomposes it.

    aten::mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(self), _tensor_key(mat2), _value_key(out_dtype)),
        operands=(self, mat2),
        arguments={'out_dtype': out_dtype},
        keys=(_keys,),
    ))


def bmm_at_autograd(_composite: CompositeFunction, _keys: Any, self: Tensor, mat2: Tensor, out_dtype: torch.dtype) -> Any:
    """Catch aten::bmm.dtype as ptxla.bmm before PyTorch decomposes it.

    aten::bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(self), _tensor_key(mat2), _value_key(out_dtype)),
        operands=(self, mat2),
        arguments={'out_dtype': out_dtype},
        keys=(_keys,),
    ))


def matmul_accumulate_at_autograd(_composite: CompositeFunction, _keys: Any, self: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: torch.dtype, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """Catch aten::addmm.dtype as ptxla.matmul_accumulate before PyTorch decomposes it.

    aten::addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(self), _tensor_key(mat1), _tensor_key(mat2), _value_key(out_dtype), _value_key(beta), _value_key(alpha)),
        operands=(self, mat1, mat2),
        arguments={'out_dtype': out_dtype, 'beta': beta, 'alpha': alpha},
        keys=(_keys,),
    ))


def addmm_at_autograd(_composite: CompositeFunction, _keys: Any, self: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: torch.dtype, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """Catch aten::addmm.dtype as ptxla.addmm before PyTorch decomposes it.

    aten::addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(self), _tensor_key(mat1), _tensor_key(mat2), _value_key(out_dtype), _value_key(beta), _value_key(alpha)),
        operands=(self, mat1, mat2),
        arguments={'out_dtype': out_dtype, 'beta': beta, 'alpha': alpha},
        keys=(_keys,),
    ))


def baddbmm_at_autograd(_composite: CompositeFunction, _keys: Any, self: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: torch.dtype, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """Catch aten::baddbmm.dtype as ptxla.baddbmm before PyTorch decomposes it.

    aten::baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(self), _tensor_key(batch1), _tensor_key(batch2), _value_key(out_dtype), _value_key(beta), _value_key(alpha)),
        operands=(self, batch1, batch2),
        arguments={'out_dtype': out_dtype, 'beta': beta, 'alpha': alpha},
        keys=(_keys,),
    ))


def new_gelu_function(_composite: CompositeFunction, input: Tensor) -> Any:
    """Take calls of a function as ptxla.gelu.

    composites.operators.activations:new_gelu(input: 'Tensor') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input),),
        operands=(input,),
        arguments={},
    ))


def fast_gelu_function(_composite: CompositeFunction, input: Tensor) -> Any:
    """Take calls of a function as ptxla.gelu.

    composites.operators.activations:fast_gelu(input: 'Tensor') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input),),
        operands=(input,),
        arguments={},
    ))


def bloom_gelu_function(_composite: CompositeFunction, input: Tensor) -> Any:
    """Take calls of a function as ptxla.gelu.

    composites.operators.activations:bloom_gelu(input: 'Tensor') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input),),
        operands=(input,),
        arguments={},
    ))


def bloom_gelu_backward_function(_composite: CompositeFunction, grad_output: Tensor, input: Tensor) -> Any:
    """Take calls of a function as ptxla.gelu_backward.

    composites.operators.activations:bloom_gelu_backward(grad_output: 'Tensor', input: 'Tensor') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(grad_output), _tensor_key(input)),
        operands=(grad_output, input),
        arguments={},
    ))


def quick_gelu_function(_composite: CompositeFunction, input: Tensor) -> Any:
    """Take calls of a function as ptxla.quick_gelu.

    composites.operators.activations:quick_gelu(input: 'Tensor') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input),),
        operands=(input,),
        arguments={},
    ))


def relu_squared_function(_composite: CompositeFunction, input: Tensor) -> Any:
    """Take calls of a function as ptxla.relu_squared.

    composites.operators.activations:relu_squared(input: 'Tensor') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input),),
        operands=(input,),
        arguments={},
    ))


def swiglu_function(_composite: CompositeFunction, gate: Tensor, up: Tensor) -> Any:
    """Take calls of a function as ptxla.swiglu.

    composites.operators.gates:swiglu(gate: 'Tensor', up: 'Tensor') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(gate), _tensor_key(up)),
        operands=(gate, up),
        arguments={},
    ))


def batch_norm_training_function(_composite: CompositeFunction, input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None, *, momentum: float, eps: float) -> Any:
    """Take calls of a function as ptxla.batch_norm_training.

    composites.operators.norms:batch_norm_training(input: 'Tensor', running_mean: 'Tensor', running_var: 'Tensor', weight: 'Tensor | None', bias: 'Tensor | None', *, momentum: 'float', eps: 'float') -> 'tuple[Tensor, Tensor, Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(running_mean), _tensor_key(running_var), _tensor_key(weight), _tensor_key(bias), _value_key(momentum), _value_key(eps)),
        operands=(input, running_mean, running_var, weight, bias),
        arguments={'momentum': momentum, 'eps': eps},
    ))


def instance_norm_function(_composite: CompositeFunction, input: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Any:
    """Take calls of a function as ptxla.instance_norm.

    composites.operators.norms:instance_norm(input: 'Tensor', weight: 'Tensor | None', bias: 'Tensor | None', *, eps: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(weight), _tensor_key(bias), _value_key(eps)),
        operands=(input, weight, bias),
        arguments={'eps': eps},
    ))


def llama_rms_norm_function(_composite: CompositeFunction, input: Tensor, weight: Tensor, *, normalized_shape: list[int], eps: float) -> Any:
    """Take calls of a function as ptxla.rms_norm.

    composites.operators.norms:llama_rms_norm(input: 'Tensor', weight: 'Tensor', *, normalized_shape: 'Sequence[int]', eps: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(weight), _value_key(normalized_shape), _value_key(eps)),
        operands=(input, weight),
        arguments={'normalized_shape': normalized_shape, 'eps': eps},
    ))


def t5_rms_norm_function(_composite: CompositeFunction, input: Tensor, weight: Tensor, *, normalized_shape: list[int], eps: float) -> Any:
    """Take calls of a function as ptxla.rms_norm.

    composites.operators.norms:t5_rms_norm(input: 'Tensor', weight: 'Tensor', *, normalized_shape: 'Sequence[int]', eps: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(weight), _value_key(normalized_shape), _value_key(eps)),
        operands=(input, weight),
        arguments={'normalized_shape': normalized_shape, 'eps': eps},
    ))


def olmo2_rms_norm_function(_composite: CompositeFunction, input: Tensor, weight: Tensor, *, normalized_shape: list[int], eps: float) -> Any:
    """Take calls of a function as ptxla.rms_norm.

    composites.operators.norms:olmo2_rms_norm(input: 'Tensor', weight: 'Tensor', *, normalized_shape: 'Sequence[int]', eps: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(weight), _value_key(normalized_shape), _value_key(eps)),
        operands=(input, weight),
        arguments={'normalized_shape': normalized_shape, 'eps': eps},
    ))


def gemma_rms_norm_function(_composite: CompositeFunction, input: Tensor, weight: Tensor, *, normalized_shape: list[int], eps: float) -> Any:
    """Take calls of a function as ptxla.gemma_rms_norm.

    composites.operators.norms:gemma_rms_norm(input: 'Tensor', weight: 'Tensor', *, normalized_shape: 'Sequence[int]', eps: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(weight), _value_key(normalized_shape), _value_key(eps)),
        operands=(input, weight),
        arguments={'normalized_shape': normalized_shape, 'eps': eps},
    ))


def weightless_rms_norm_function(_composite: CompositeFunction, input: Tensor, *, normalized_shape: list[int], eps: float) -> Any:
    """Take calls of a function as ptxla.rms_norm.

    composites.operators.norms:weightless_rms_norm(input: 'Tensor', *, normalized_shape: 'Sequence[int]', eps: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _value_key(normalized_shape), _value_key(eps)),
        operands=(input,),
        arguments={'normalized_shape': normalized_shape, 'eps': eps},
    ))


def rms_norm_gated_function(_composite: CompositeFunction, input: Tensor, weight: Tensor, gate: Tensor | None = None, *, group_size: int, eps: float) -> Any:
    """Take calls of a function as ptxla.rms_norm_gated.

    composites.operators.norms:rms_norm_gated(input: 'Tensor', weight: 'Tensor', gate: 'Tensor | None' = None, *, group_size: 'int', eps: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(weight), _tensor_key(gate), _value_key(group_size), _value_key(eps)),
        operands=(input, weight, gate),
        arguments={'group_size': group_size, 'eps': eps},
    ))


def cohere_layer_norm_function(_composite: CompositeFunction, input: Tensor, weight: Tensor, *, normalized_shape: list[int], eps: float) -> Any:
    """Take calls of a function as ptxla.cohere_layer_norm.

    composites.operators.norms:cohere_layer_norm(input: 'Tensor', weight: 'Tensor', *, normalized_shape: 'Sequence[int]', eps: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(weight), _value_key(normalized_shape), _value_key(eps)),
        operands=(input, weight),
        arguments={'normalized_shape': normalized_shape, 'eps': eps},
    ))


def frozen_batch_norm_function(_composite: CompositeFunction, input: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor) -> Any:
    """Take calls of a function as ptxla.frozen_batch_norm.

    composites.operators.norms:frozen_batch_norm(input: 'Tensor', weight: 'Tensor', bias: 'Tensor', running_mean: 'Tensor', running_var: 'Tensor') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(weight), _tensor_key(bias), _tensor_key(running_mean), _tensor_key(running_var)),
        operands=(input, weight, bias, running_mean, running_var),
        arguments={},
    ))


def drop_path_function(_composite: CompositeFunction, hidden_states: Tensor, *, drop_prob: float) -> Any:
    """Take calls of a function as ptxla.drop_path.

    composites.operators.dropping:drop_path(hidden_states: 'Tensor', *, drop_prob: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(hidden_states), _value_key(drop_prob)),
        operands=(hidden_states,),
        arguments={'drop_prob': drop_prob},
    ))


def eager_attention_function(_composite: CompositeFunction, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None, *, scaling: float, softcap: float | None = None) -> Any:
    """Take calls of a function as ptxla.eager_attention.

    composites.operators.attention:eager_attention(query: 'Tensor', key: 'Tensor', value: 'Tensor', attention_mask: 'Tensor | None' = None, *, scaling: 'float', softcap: 'float | None' = None) -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(query), _tensor_key(key), _tensor_key(value), _tensor_key(attention_mask), _value_key(scaling), _value_key(softcap)),
        operands=(query, key, value, attention_mask),
        arguments={'scaling': scaling, 'softcap': softcap},
    ))


def attention_with_sinks_function(_composite: CompositeFunction, query: Tensor, key: Tensor, value: Tensor, sinks: Tensor, attention_mask: Tensor | None = None, *, scaling: float) -> Any:
    """Take calls of a function as ptxla.attention_with_sinks.

    composites.operators.attention:attention_with_sinks(query: 'Tensor', key: 'Tensor', value: 'Tensor', sinks: 'Tensor', attention_mask: 'Tensor | None' = None, *, scaling: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(query), _tensor_key(key), _tensor_key(value), _tensor_key(sinks), _tensor_key(attention_mask), _value_key(scaling)),
        operands=(query, key, value, sinks, attention_mask),
        arguments={'scaling': scaling},
    ))


def scaled_attention_function(_composite: CompositeFunction, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None, *, scale_attn: float, mask_first: bool) -> Any:
    """Take calls of a function as ptxla.scaled_attention.

    composites.operators.attention:scaled_attention(query: 'Tensor', key: 'Tensor', value: 'Tensor', attention_mask: 'Tensor | None' = None, *, scale_attn: 'float', mask_first: 'bool') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(query), _tensor_key(key), _tensor_key(value), _tensor_key(attention_mask), _value_key(scale_attn), _value_key(mask_first)),
        operands=(query, key, value, attention_mask),
        arguments={'scale_attn': scale_attn, 'mask_first': mask_first},
    ))


def relative_position_bias_function(_composite: CompositeFunction, relative_position_bias_table: Tensor, relative_position_index: Tensor, *, window_area: int) -> Any:
    """Take calls of a function as ptxla.relative_position_bias.

    composites.operators.attention:relative_position_bias(relative_position_bias_table: 'Tensor', relative_position_index: 'Tensor', *, window_area: 'int') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(relative_position_bias_table), _tensor_key(relative_position_index), _value_key(window_area)),
        operands=(relative_position_bias_table, relative_position_index),
        arguments={'window_area': window_area},
    ))


def embedding_bag_function(_composite: CompositeFunction, weight: Tensor, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None, *, mode: str, include_last_offset: bool, padding_idx: int | None) -> Any:
    """Take calls of a function as ptxla.embedding_bag.

    composites.operators.embedding_bag:embedding_bag(weight: 'Tensor', input: 'Tensor', offsets: 'Tensor | None' = None, per_sample_weights: 'Tensor | None' = None, *, mode: 'str', include_last_offset: 'bool', padding_idx: 'int | None') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(weight), _tensor_key(input), _tensor_key(offsets), _tensor_key(per_sample_weights), _value_key(mode), _value_key(include_last_offset), _value_key(padding_idx)),
        operands=(weight, input, offsets, per_sample_weights),
        arguments={'mode': mode, 'include_last_offset': include_last_offset, 'padding_idx': padding_idx},
    ))


def index_function(_composite: CompositeFunction, self: Tensor, index: Tensor, *, dim: int) -> Any:
    """Take calls of a function as ptxla.index.

    composites.operators.indexing:index(self: 'Tensor', index: 'Tensor', *, dim: 'int') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(self), _tensor_key(index), _value_key(dim)),
        operands=(self, index),
        arguments={'dim': dim},
    ))


def lstm_cell_function(_composite: CompositeFunction, input: Tensor, hx: Tensor, cx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Any:
    """Take calls of a function as ptxla.lstm_cell.

    composites.operators.recurrent:lstm_cell(input: 'Tensor', hx: 'Tensor', cx: 'Tensor', w_ih: 'Tensor', w_hh: 'Tensor', b_ih: 'Tensor | None' = None, b_hh: 'Tensor | None' = None) -> 'tuple[Tensor, Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(hx), _tensor_key(cx), _tensor_key(w_ih), _tensor_key(w_hh), _tensor_key(b_ih), _tensor_key(b_hh)),
        operands=(input, hx, cx, w_ih, w_hh, b_ih, b_hh),
        arguments={},
    ))


def scanned_gru_cell_function(_composite: CompositeFunction, input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Any:
    """Take calls of a function as ptxla.gru_cell.

    composites.operators.recurrent:scanned_gru_cell(input: 'Tensor', hx: 'Tensor', w_ih: 'Tensor', w_hh: 'Tensor', b_ih: 'Tensor | None' = None, b_hh: 'Tensor | None' = None) -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(hx), _tensor_key(w_ih), _tensor_key(w_hh), _tensor_key(b_ih), _tensor_key(b_hh)),
        operands=(input, hx, w_ih, w_hh, b_ih, b_hh),
        arguments={},
    ))


def lstm_function(_composite: CompositeFunction, input: Tensor, hx: Tensor, cx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None, *, reverse: bool) -> Any:
    """Take calls of a function as ptxla.lstm.

    composites.operators.recurrent:lstm(input: 'Tensor', hx: 'Tensor', cx: 'Tensor', w_ih: 'Tensor', w_hh: 'Tensor', b_ih: 'Tensor | None' = None, b_hh: 'Tensor | None' = None, *, reverse: 'bool') -> 'LstmResults'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(hx), _tensor_key(cx), _tensor_key(w_ih), _tensor_key(w_hh), _tensor_key(b_ih), _tensor_key(b_hh), _value_key(reverse)),
        operands=(input, hx, cx, w_ih, w_hh, b_ih, b_hh),
        arguments={'reverse': reverse},
    ))


def gru_function(_composite: CompositeFunction, input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None, *, reverse: bool) -> Any:
    """Take calls of a function as ptxla.gru.

    composites.operators.recurrent:gru(input: 'Tensor', hx: 'Tensor', w_ih: 'Tensor', w_hh: 'Tensor', b_ih: 'Tensor | None' = None, b_hh: 'Tensor | None' = None, *, reverse: 'bool') -> 'tuple[Tensor, Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(input), _tensor_key(hx), _tensor_key(w_ih), _tensor_key(w_hh), _tensor_key(b_ih), _tensor_key(b_hh), _value_key(reverse)),
        operands=(input, hx, w_ih, w_hh, b_ih, b_hh),
        arguments={'reverse': reverse},
    ))


def causal_conv1d_function(_composite: CompositeFunction, hidden_states: Tensor, weight: Tensor, bias: Tensor | None = None, *, activation: str | None = None) -> Any:
    """Take calls of a function as ptxla.causal_conv1d.

    composites.operators.scans:causal_conv1d(hidden_states: 'Tensor', weight: 'Tensor', bias: 'Tensor | None' = None, *, activation: 'str | None' = None) -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(hidden_states), _tensor_key(weight), _tensor_key(bias), _value_key(activation)),
        operands=(hidden_states, weight, bias),
        arguments={'activation': activation},
    ))


def selective_scan_function(_composite: CompositeFunction, hidden_states: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None, delta_bias: Tensor | None = None, *, delta_softplus: bool = False) -> Any:
    """Take calls of a function as ptxla.selective_scan.

    composites.operators.scans:selective_scan(hidden_states: 'Tensor', dt: 'Tensor', A: 'Tensor', B: 'Tensor', C: 'Tensor', D: 'Tensor | None' = None, z: 'Tensor | None' = None, delta_bias: 'Tensor | None' = None, *, delta_softplus: 'bool' = False) -> 'tuple[Tensor, Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(hidden_states), _tensor_key(dt), _tensor_key(A), _tensor_key(B), _tensor_key(C), _tensor_key(D), _tensor_key(z), _tensor_key(delta_bias), _value_key(delta_softplus)),
        operands=(hidden_states, dt, A, B, C, D, z, delta_bias),
        arguments={'delta_softplus': delta_softplus},
    ))


def chunk_scan_function(_composite: CompositeFunction, hidden_states: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, dt_bias: Tensor | None = None, initial_states: Tensor | None = None, *, chunk_size: int, dt_softplus: bool, dt_limit: list[float]) -> Any:
    """Take calls of a function as ptxla.chunk_scan.

    composites.operators.scans:chunk_scan(hidden_states: 'Tensor', dt: 'Tensor', A: 'Tensor', B: 'Tensor', C: 'Tensor', D: 'Tensor | None' = None, dt_bias: 'Tensor | None' = None, initial_states: 'Tensor | None' = None, *, chunk_size: 'int', dt_softplus: 'bool', dt_limit: 'Sequence[float]') -> 'tuple[Tensor, Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(hidden_states), _tensor_key(dt), _tensor_key(A), _tensor_key(B), _tensor_key(C), _tensor_key(D), _tensor_key(dt_bias), _tensor_key(initial_states), _value_key(chunk_size), _value_key(dt_softplus), _value_key(dt_limit)),
        operands=(hidden_states, dt, A, B, C, D, dt_bias, initial_states),
        arguments={'chunk_size': chunk_size, 'dt_softplus': dt_softplus, 'dt_limit': dt_limit},
    ))


def rnn_scan_function(_composite: CompositeFunction, hidden_states: Tensor, recurrent_gate: Tensor, reset: Tensor, recurrent_states: Tensor | None = None) -> Any:
    """Take calls of a function as ptxla.rnn_scan.

    composites.operators.scans:rnn_scan(hidden_states: 'Tensor', recurrent_gate: 'Tensor', reset: 'Tensor', recurrent_states: 'Tensor | None' = None) -> 'tuple[Tensor, Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(hidden_states), _tensor_key(recurrent_gate), _tensor_key(reset), _tensor_key(recurrent_states)),
        operands=(hidden_states, recurrent_gate, reset, recurrent_states),
        arguments={},
    ))


def wkv_function(_composite: CompositeFunction, time_decay: Tensor, time_first: Tensor, key: Tensor, value: Tensor) -> Any:
    """Take calls of a function as ptxla.wkv.

    composites.operators.scans:wkv(time_decay: 'Tensor', time_first: 'Tensor', key: 'Tensor', value: 'Tensor') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(time_decay), _tensor_key(time_first), _tensor_key(key), _tensor_key(value)),
        operands=(time_decay, time_first, key, value),
        arguments={},
    ))


def top_k_routing_function(_composite: CompositeFunction, router_logits: Tensor, *, top_k: int, norm_topk_prob: bool) -> Any:
    """Take calls of a function as ptxla.top_k_routing.

    composites.operators.experts:top_k_routing(router_logits: 'Tensor', *, top_k: 'int', norm_topk_prob: 'bool') -> 'tuple[Tensor, Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(router_logits), _value_key(top_k), _value_key(norm_topk_prob)),
        operands=(router_logits,),
        arguments={'top_k': top_k, 'norm_topk_prob': norm_topk_prob},
    ))


def experts_function(_composite: CompositeFunction, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor, gate_up_proj: Tensor, down_proj: Tensor, *, activation: str) -> Any:
    """Take calls of a function as ptxla.experts.

    composites.operators.experts:experts(hidden_states: 'Tensor', top_k_index: 'Tensor', top_k_weights: 'Tensor', gate_up_proj: 'Tensor', down_proj: 'Tensor', *, activation: 'str') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(hidden_states), _tensor_key(top_k_index), _tensor_key(top_k_weights), _tensor_key(gate_up_proj), _tensor_key(down_proj), _value_key(activation)),
        operands=(hidden_states, top_k_index, top_k_weights, gate_up_proj, down_proj),
        arguments={'activation': activation},
    ))


def gpt_oss_experts_function(_composite: CompositeFunction, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor, gate_up_proj: Tensor, gate_up_proj_bias: Tensor, down_proj: Tensor, down_proj_bias: Tensor, *, alpha: float, limit: float) -> Any:
    """Take calls of a function as ptxla.gpt_oss_experts.

    composites.operators.experts:gpt_oss_experts(hidden_states: 'Tensor', top_k_index: 'Tensor', top_k_weights: 'Tensor', gate_up_proj: 'Tensor', gate_up_proj_bias: 'Tensor', down_proj: 'Tensor', down_proj_bias: 'Tensor', *, alpha: 'float', limit: 'float') -> 'Tensor'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(hidden_states), _tensor_key(top_k_index), _tensor_key(top_k_weights), _tensor_key(gate_up_proj), _tensor_key(gate_up_proj_bias), _tensor_key(down_proj), _tensor_key(down_proj_bias), _value_key(alpha), _value_key(limit)),
        operands=(hidden_states, top_k_index, top_k_weights, gate_up_proj, gate_up_proj_bias, down_proj, down_proj_bias),
        arguments={'alpha': alpha, 'limit': limit},
    ))


def adamw_function(_composite: CompositeFunction, param: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, step_size: Tensor, bias_correction2_sqrt: Tensor, decay: Tensor, max_exp_avg_sq: Tensor | None = None, *, beta1: float, beta2: float, eps: float, weight_decay: float, maximize: bool, capturable: bool = False) -> Any:
    """Take calls of a function as ptxla.adamw.

    composites.operators.optimizers:adam_update(param: 'Tensor', grad: 'Tensor', exp_avg: 'Tensor', exp_avg_sq: 'Tensor', step_size: 'Tensor', bias_correction2_sqrt: 'Tensor', decay: 'Tensor', max_exp_avg_sq: 'Tensor | None' = None, *, beta1: 'float', beta2: 'float', eps: 'float', weight_decay: 'float', maximize: 'bool', capturable: 'bool' = False) -> 'list[Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(param), _tensor_key(grad), _tensor_key(exp_avg), _tensor_key(exp_avg_sq), _tensor_key(step_size), _tensor_key(bias_correction2_sqrt), _tensor_key(decay), _tensor_key(max_exp_avg_sq), _value_key(beta1), _value_key(beta2), _value_key(eps), _value_key(weight_decay), _value_key(maximize), _value_key(capturable)),
        operands=(param, grad, exp_avg, exp_avg_sq, step_size, bias_correction2_sqrt, decay, max_exp_avg_sq),
        arguments={'beta1': beta1, 'beta2': beta2, 'eps': eps, 'weight_decay': weight_decay, 'maximize': maximize, 'capturable': capturable},
    ))


def adam_function(_composite: CompositeFunction, param: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, step_size: Tensor, bias_correction2_sqrt: Tensor, decay: Tensor, max_exp_avg_sq: Tensor | None = None, *, beta1: float, beta2: float, eps: float, weight_decay: float, maximize: bool, capturable: bool = False) -> Any:
    """Take calls of a function as ptxla.adam.

    composites.operators.optimizers:adam_update(param: 'Tensor', grad: 'Tensor', exp_avg: 'Tensor', exp_avg_sq: 'Tensor', step_size: 'Tensor', bias_correction2_sqrt: 'Tensor', decay: 'Tensor', max_exp_avg_sq: 'Tensor | None' = None, *, beta1: 'float', beta2: 'float', eps: 'float', weight_decay: 'float', maximize: 'bool', capturable: 'bool' = False) -> 'list[Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(param), _tensor_key(grad), _tensor_key(exp_avg), _tensor_key(exp_avg_sq), _tensor_key(step_size), _tensor_key(bias_correction2_sqrt), _tensor_key(decay), _tensor_key(max_exp_avg_sq), _value_key(beta1), _value_key(beta2), _value_key(eps), _value_key(weight_decay), _value_key(maximize), _value_key(capturable)),
        operands=(param, grad, exp_avg, exp_avg_sq, step_size, bias_correction2_sqrt, decay, max_exp_avg_sq),
        arguments={'beta1': beta1, 'beta2': beta2, 'eps': eps, 'weight_decay': weight_decay, 'maximize': maximize, 'capturable': capturable},
    ))


def sgd_function(_composite: CompositeFunction, param: Tensor, grad: Tensor, lr: Tensor, momentum_buffer: Tensor | None = None, *, momentum: float, dampening: float, weight_decay: float, nesterov: bool, maximize: bool) -> Any:
    """Take calls of a function as ptxla.sgd.

    composites.operators.optimizers:sgd_update(param: 'Tensor', grad: 'Tensor', lr: 'Tensor', momentum_buffer: 'Tensor | None' = None, *, momentum: 'float', dampening: 'float', weight_decay: 'float', nesterov: 'bool', maximize: 'bool') -> 'list[Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(param), _tensor_key(grad), _tensor_key(lr), _tensor_key(momentum_buffer), _value_key(momentum), _value_key(dampening), _value_key(weight_decay), _value_key(nesterov), _value_key(maximize)),
        operands=(param, grad, lr, momentum_buffer),
        arguments={'momentum': momentum, 'dampening': dampening, 'weight_decay': weight_decay, 'nesterov': nesterov, 'maximize': maximize},
    ))


def lion_function(_composite: CompositeFunction, param: Tensor, grad: Tensor, exp_avg: Tensor, lr: Tensor, decay: Tensor, *, beta1: float, beta2: float) -> Any:
    """Take calls of a function as ptxla.lion.

    composites.operators.optimizers:lion_update(param: 'Tensor', grad: 'Tensor', exp_avg: 'Tensor', lr: 'Tensor', decay: 'Tensor', *, beta1: 'float', beta2: 'float') -> 'list[Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(param), _tensor_key(grad), _tensor_key(exp_avg), _tensor_key(lr), _tensor_key(decay), _value_key(beta1), _value_key(beta2)),
        operands=(param, grad, exp_avg, lr, decay),
        arguments={'beta1': beta1, 'beta2': beta2},
    ))


def adafactor_function(_composite: CompositeFunction, param: Tensor, grad: Tensor, rho: Tensor, one_minus_beta2: Tensor, decay: Tensor, row_var: Tensor, col_var: Tensor | None = None, *, d: float, eps1: float, eps2: float, maximize: bool) -> Any:
    """Take calls of a function as ptxla.adafactor.

    composites.operators.adafactor:adafactor_update(param: 'Tensor', grad: 'Tensor', rho: 'Tensor', one_minus_beta2: 'Tensor', decay: 'Tensor', row_var: 'Tensor', col_var: 'Tensor | None' = None, *, d: 'float', eps1: 'float', eps2: 'float', maximize: 'bool') -> 'list[Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(param), _tensor_key(grad), _tensor_key(rho), _tensor_key(one_minus_beta2), _tensor_key(decay), _tensor_key(row_var), _tensor_key(col_var), _value_key(d), _value_key(eps1), _value_key(eps2), _value_key(maximize)),
        operands=(param, grad, rho, one_minus_beta2, decay, row_var, col_var),
        arguments={'d': d, 'eps1': eps1, 'eps2': eps2, 'maximize': maximize},
    ))


def muon_function(_composite: CompositeFunction, param: Tensor, grad: Tensor, momentum_buffer: Tensor, step_size: Tensor, decay: Tensor, *, momentum: float, nesterov: bool, ns_coefficients: list[float], ns_steps: int, eps: float) -> Any:
    """Take calls of a function as ptxla.muon.

    composites.operators.muon:muon_update(param: 'Tensor', grad: 'Tensor', momentum_buffer: 'Tensor', step_size: 'Tensor', decay: 'Tensor', *, momentum: 'float', nesterov: 'bool', ns_coefficients: 'Sequence[float]', ns_steps: 'int', eps: 'float') -> 'list[Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(param), _tensor_key(grad), _tensor_key(momentum_buffer), _tensor_key(step_size), _tensor_key(decay), _value_key(momentum), _value_key(nesterov), _value_key(ns_coefficients), _value_key(ns_steps), _value_key(eps)),
        operands=(param, grad, momentum_buffer, step_size, decay),
        arguments={'momentum': momentum, 'nesterov': nesterov, 'ns_coefficients': ns_coefficients, 'ns_steps': ns_steps, 'eps': eps},
    ))


def fused_adamw_function(_composite: CompositeFunction, params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], max_exp_avg_sqs: list[Tensor], step_size: Tensor, bias_correction2_sqrt: Tensor, decay: Tensor, *, beta1: float, beta2: float, eps: float, weight_decay: float, maximize: bool) -> Any:
    """Take calls of a function as ptxla.fused_adamw.

    composites.operators.fused_adam:fused_adam_update(params: 'list[Tensor]', grads: 'list[Tensor]', exp_avgs: 'list[Tensor]', exp_avg_sqs: 'list[Tensor]', max_exp_avg_sqs: 'list[Tensor]', step_size: 'Tensor', bias_correction2_sqrt: 'Tensor', decay: 'Tensor', *, beta1: 'float', beta2: 'float', eps: 'float', weight_decay: 'float', maximize: 'bool') -> 'list[Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(params), _tensor_key(grads), _tensor_key(exp_avgs), _tensor_key(exp_avg_sqs), _tensor_key(max_exp_avg_sqs), _tensor_key(step_size), _tensor_key(bias_correction2_sqrt), _tensor_key(decay), _value_key(beta1), _value_key(beta2), _value_key(eps), _value_key(weight_decay), _value_key(maximize)),
        operands=(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, step_size, bias_correction2_sqrt, decay),
        arguments={'beta1': beta1, 'beta2': beta2, 'eps': eps, 'weight_decay': weight_decay, 'maximize': maximize},
    ))


def fused_adam_function(_composite: CompositeFunction, params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], max_exp_avg_sqs: list[Tensor], step_size: Tensor, bias_correction2_sqrt: Tensor, decay: Tensor, *, beta1: float, beta2: float, eps: float, weight_decay: float, maximize: bool) -> Any:
    """Take calls of a function as ptxla.fused_adam.

    composites.operators.fused_adam:fused_adam_update(params: 'list[Tensor]', grads: 'list[Tensor]', exp_avgs: 'list[Tensor]', exp_avg_sqs: 'list[Tensor]', max_exp_avg_sqs: 'list[Tensor]', step_size: 'Tensor', bias_correction2_sqrt: 'Tensor', decay: 'Tensor', *, beta1: 'float', beta2: 'float', eps: 'float', weight_decay: 'float', maximize: 'bool') -> 'list[Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(params), _tensor_key(grads), _tensor_key(exp_avgs), _tensor_key(exp_avg_sqs), _tensor_key(max_exp_avg_sqs), _tensor_key(step_size), _tensor_key(bias_correction2_sqrt), _tensor_key(decay), _value_key(beta1), _value_key(beta2), _value_key(eps), _value_key(weight_decay), _value_key(maximize)),
        operands=(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, step_size, bias_correction2_sqrt, decay),
        arguments={'beta1': beta1, 'beta2': beta2, 'eps': eps, 'weight_decay': weight_decay, 'maximize': maximize},
    ))


def clip_grad_norm_function(_composite: CompositeFunction, grads: list[Tensor], max_norm: Tensor, *, norm_type: float) -> Any:
    """Take calls of a function as ptxla.clip_grad_norm.

    composites.operators.clipping:clip_grad_norm(grads: 'list[Tensor]', max_norm: 'Tensor', *, norm_type: 'float') -> 'list[Tensor]'
    """
    return _composite(CallSpec(
        _composite.definition.form,
        key=(_tensor_key(grads), _tensor_key(max_norm), _value_key(norm_type)),
        operands=(grads, max_norm),
        arguments={'norm_type': norm_type},
    ))


BACKEND_HOOKS = {
    'gelu': gelu,
    'gelu_backward': gelu_backward,
    'silu': silu,
    'silu_backward': silu_backward,
    'hardswish': hardswish,
    'hardswish_backward': hardswish_backward,
    'mish': mish,
    'mish_backward': mish_backward,
    'elu': elu,
    'elu_backward': elu_backward,
    'hardsigmoid': hardsigmoid,
    'hardsigmoid_backward': hardsigmoid_backward,
    'log_sigmoid': log_sigmoid,
    'log_sigmoid_backward': log_sigmoid_backward,
    'softplus': softplus,
    'softplus_backward': softplus_backward,
    'leaky_relu': leaky_relu,
    'leaky_relu_backward': leaky_relu_backward,
    'hardtanh': hardtanh,
    'hardtanh_backward': hardtanh_backward,
    'glu': glu,
    'glu_backward': glu_backward,
    'softmax': softmax,
    'softmax_backward': softmax_backward,
    'log_softmax': log_softmax,
    'log_softmax_backward': log_softmax_backward,
    'layer_norm': layer_norm,
    'group_norm': group_norm,
    'batch_norm_inference': batch_norm_inference,
    'batch_norm_backward': batch_norm_backward,
    'weight_norm': weight_norm,
    'rms_norm': rms_norm,
    'dropout': dropout,
    'nll_loss': nll_loss,
    'nll_loss_backward': nll_loss_backward,
    'nll_loss2d': nll_loss2d,
    'nll_loss2d_backward': nll_loss2d_backward,
    'mse_loss': mse_loss,
    'mse_loss_backward': mse_loss_backward,
    'smooth_l1_loss': smooth_l1_loss,
    'smooth_l1_loss_backward': smooth_l1_loss_backward,
    'huber_loss': huber_loss,
    'huber_loss_backward': huber_loss_backward,
    'binary_cross_entropy': binary_cross_entropy,
    'binary_cross_entropy_backward': binary_cross_entropy_backward,
    'binary_cross_entropy_with_logits': binary_cross_entropy_with_logits,
    'kl_div': kl_div,
    'cross_entropy_loss': cross_entropy_loss,
    'weight_int8pack_mm': weight_int8pack_mm,
    'scaled_mm': scaled_mm,
    'fake_quantize_per_tensor': fake_quantize_per_tensor,
    'fake_quantize_per_tensor_with_tensors': fake_quantize_per_tensor_with_tensors,
    'fake_quantize_per_channel': fake_quantize_per_channel,
    'quantize_per_tensor': quantize_per_tensor,
    'quantize_per_tensor_with_tensors': quantize_per_tensor_with_tensors,
    'quantize_per_channel': quantize_per_channel,
    'dequantize_per_tensor': dequantize_per_tensor,
    'dequantize_per_tensor_with_tensors': dequantize_per_tensor_with_tensors,
    'dequantize_per_channel': dequantize_per_channel,
    'choose_qparams': choose_qparams,
    'scaled_dot_product_attention': scaled_dot_product_attention,
    'embedding': embedding,
    'embedding_dense_backward': embedding_dense_backward,
    'scatter_reduce': scatter_reduce,
    'topk': topk,
    'argmax': argmax,
    'sort': sort,
    'stable_sort': stable_sort,
    'cumsum': cumsum,
    'var': var,
    'std': std,
    'var_mean': var_mean,
    'avg_pool2d': avg_pool2d,
    'avg_pool2d_backward': avg_pool2d_backward,
    'max_pool2d': max_pool2d,
    'upsample_nearest2d': upsample_nearest2d,
    'upsample_nearest2d_backward': upsample_nearest2d_backward,
    'upsample_bilinear2d': upsample_bilinear2d,
    'upsample_bilinear2d_backward': upsample_bilinear2d_backward,
    'upsample_bicubic2d': upsample_bicubic2d,
    'upsample_bicubic2d_backward': upsample_bicubic2d_backward,
    'grid_sampler_2d': grid_sampler_2d,
    'grid_sampler_2d_backward': grid_sampler_2d_backward,
    'gru_cell': gru_cell,
    'fft_r2c': fft_r2c,
    'fft_c2c': fft_c2c,
    'fft_c2r': fft_c2r,
    'mm': mm,
    'bmm': bmm,
    'matmul_accumulate': matmul_accumulate,
    'addmm': addmm,
    'baddbmm': baddbmm,
}

AUTOGRAD_HOOKS = {
    'silu_backward': silu_backward_at_autograd,
    'mish_backward': mish_backward_at_autograd,
    'layer_norm': layer_norm_at_autograd,
    'group_norm': group_norm_at_autograd,
    'weight_norm': weight_norm_at_autograd,
    'rms_norm': rms_norm_at_autograd,
    'dropout': dropout_at_autograd,
    'kl_div': kl_div_at_autograd,
    'cross_entropy_loss': cross_entropy_loss_at_autograd,
    'scaled_dot_product_attention': scaled_dot_product_attention_at_autograd,
    'max_pool2d': max_pool2d_at_autograd,
    'gru_cell': gru_cell_at_autograd,
    'fft_c2r': fft_c2r_at_autograd,
    'mm': mm_at_autograd,
    'bmm': bmm_at_autograd,
    'matmul_accumulate': matmul_accumulate_at_autograd,
    'addmm': addmm_at_autograd,
    'baddbmm': baddbmm_at_autograd,
}

FUNCTION_HOOKS = {
    'new_gelu': new_gelu_function,
    'fast_gelu': fast_gelu_function,
    'bloom_gelu': bloom_gelu_function,
    'bloom_gelu_backward': bloom_gelu_backward_function,
    'quick_gelu': quick_gelu_function,
    'relu_squared': relu_squared_function,
    'swiglu': swiglu_function,
    'batch_norm_training': batch_norm_training_function,
    'instance_norm': instance_norm_function,
    'llama_rms_norm': llama_rms_norm_function,
    't5_rms_norm': t5_rms_norm_function,
    'olmo2_rms_norm': olmo2_rms_norm_function,
    'gemma_rms_norm': gemma_rms_norm_function,
    'weightless_rms_norm': weightless_rms_norm_function,
    'rms_norm_gated': rms_norm_gated_function,
    'cohere_layer_norm': cohere_layer_norm_function,
    'frozen_batch_norm': frozen_batch_norm_function,
    'drop_path': drop_path_function,
    'eager_attention': eager_attention_function,
    'attention_with_sinks': attention_with_sinks_function,
    'scaled_attention': scaled_attention_function,
    'relative_position_bias': relative_position_bias_function,
    'embedding_bag': embedding_bag_function,
    'index': index_function,
    'lstm_cell': lstm_cell_function,
    'scanned_gru_cell': scanned_gru_cell_function,
    'lstm': lstm_function,
    'gru': gru_function,
    'causal_conv1d': causal_conv1d_function,
    'selective_scan': selective_scan_function,
    'chunk_scan': chunk_scan_function,
    'rnn_scan': rnn_scan_function,
    'wkv': wkv_function,
    'top_k_routing': top_k_routing_function,
    'experts': experts_function,
    'gpt_oss_experts': gpt_oss_experts_function,
    'adamw': adamw_function,
    'adam': adam_function,
    'sgd': sgd_function,
    'lion': lion_function,
    'adafactor': adafactor_function,
    'muon': muon_function,
    'fused_adamw': fused_adamw_function,
    'fused_adam': fused_adam_function,
    'clip_grad_norm': clip_grad_norm_function,
}
