"""Linear layers with quantized weights, each as one function.

In: the layer's input, `[…, K]`, and the tensors of a quantized weight; out: `[…, N]` in the type of
the input. The arithmetic is the same as in torchao. `rewrite_torchao` rewrites linear layers with
torchao's tensors to calls of these functions, without importing torchao.

Only the input has a gradient, and layers that quantize their input have none, as in torchao.
Weights, scales and zero points are not trained.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import DeclinedError, UnsupportedCallError
from composites.operators.wide_products import matmul


def int8_weight_only_linear(
    input: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Multiply by integers, and then scale the columns.

    Args:
        weight: `[N, K]`, i8.
        scale: one number, or one for each row of the weight.
        bias: `[N]`.
    """
    product = functional.linear(input, weight.to(input.dtype)) * scale.to(input.dtype).flatten()
    return product if bias is None else (product + bias).to(input.dtype)


def float8_weight_only_linear(
    input: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Dequantize the weight in f32, round it to the type of the input, and multiply.

    Args:
        weight: `[N, K]`, an 8-bit float.
        scale: `[N, 1]` or `[1, 1]`.
        bias: `[N]`.
    """
    product = functional.linear(input, (weight.to(torch.float32) * scale).to(input.dtype))
    return product if bias is None else product + bias


def intx_weight_only_linear(
    input: Tensor,
    weight: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    bias: Tensor | None = None,
    *,
    bits: int = 4,
    group_size: int = 32,
    activation: str = "none",
) -> Tensor:
    """Dequantize the weight as `(weight - zero_point) * scale` in groups of columns, and multiply.

    Args:
        weight: `[N, K]`, i8, from -2^(bits - 1) to 2^(bits - 1) - 1.
        scale: `[N, K / group_size]`.
        zero_point: of the shape of `scale`; i8, or a float type.
        bias: `[N]`.
        activation: `int8_asymmetric` quantizes each row of the input to i8 and back, and `none`
            does not.
    """
    if activation != "none":
        quantized, row_scales, zeros = _quantized(input, symmetric=False, per_tensor=False)
        input = (quantized.to(input.dtype) - zeros.to(input.dtype)) * row_scales
    groups = weight.unflatten(-1, (-1, group_size)).to(input.dtype)
    shifted = groups - zero_point.to(input.dtype).unsqueeze(-1)
    dequantized = (shifted * scale.unsqueeze(-1)).to(input.dtype)
    return functional.linear(input, dequantized.flatten(-2), bias)


def int8_dynamic_linear(
    input: Tensor,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    symmetric: bool = True,
    per_tensor: bool = False,
) -> Tensor:
    """Quantize the input to i8, and multiply integers with an i32 accumulator.

    Args:
        weight: `[N, K]`, i8.
        scale: one number, or one for each row of the weight.
        bias: `[N]`.
        symmetric: True if the zero point of the input is 0.
        per_tensor: True if the input has one scale, False if each of its rows has one.
    """
    quantized, row_scale, zero_point = _quantized(input, symmetric=symmetric, per_tensor=per_tensor)
    rows = quantized.reshape(-1, quantized.size(-1))
    factor = row_scale.to(torch.float32).reshape(-1, 1)
    sums = matmul(rows, weight.t(), torch.int32).to(torch.float32)
    product = (sums * factor).to(input.dtype)
    if not symmetric:
        weight_sums = weight.sum(-1).to(torch.float32)
        shift = zero_point.reshape(-1, 1).to(torch.float32) * factor * weight_sums
        product = product - shift.to(input.dtype)
    result = (product * scale.flatten()).reshape(*input.shape[:-1], weight.size(0))
    return (result if bias is None else result + bias).to(input.dtype)


def scaled_mm(
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """`aten::_scaled_mm`: a product of 8-bit floats, computed in f32.

    Args:
        self: `[M, K]`; `mat2`: `[K, N]`.
        scale_a: a number, or `[M, 1]`; `scale_b`: a number, or `[1, N]`.
        bias: `[N]`.

    Raises:
        UnsupportedCallError: blocks of the operands have scales, or the result has a scale.
    """
    if scale_a.numel() not in (1, self.size(0)) or scale_b.numel() not in (1, mat2.size(1)):
        raise UnsupportedCallError("the operands have scales of blocks")
    if scale_result is not None or out_dtype is None or out_dtype.itemsize == 1:
        raise UnsupportedCallError("the result is an 8-bit float")
    product = torch.mm(self.to(torch.float32), mat2.to(torch.float32))
    scaled = product * scale_a.reshape(-1, 1) * scale_b.reshape(1, -1)
    return (scaled if bias is None else scaled + bias).to(out_dtype)


def _quantized(
    input: Tensor, *, symmetric: bool, per_tensor: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the input in i8, its scales and its zero points, as in torchao: f32 scales for
    symmetric quantization, and scales of the input's type otherwise."""
    input = input.detach()
    dims = tuple(range(input.dim())) if per_tensor else (-1,)
    least = input.amin(dims, keepdim=True).clamp(max=0)
    greatest = input.amax(dims, keepdim=True).clamp(min=0)
    if symmetric:
        scale = torch.maximum(-least, greatest) / 127.5
        scale = scale.clamp(min=torch.finfo(torch.float32).eps).to(torch.float32)
        zero_point = torch.zeros_like(scale, dtype=torch.int8)
    else:
        scale = ((greatest - least) / 255).clamp(min=torch.finfo(input.dtype).smallest_normal)
        zero_point = (-128 - torch.round(least / scale)).clamp(-128, 127).to(torch.int8)
    rounded = torch.round(input * (1.0 / scale)) + zero_point
    return rounded.clamp(-128, 127).to(torch.int8), scale, zero_point


def rewrite_torchao(
    cls: type,
    func: Any,
    types: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Tensor:
    """Rewrite `__torch_function__` of torchao's tensors for a linear layer with such a weight."""
    if func is not functional.linear:
        raise DeclinedError("not a linear layer")
    input, weight, bias = (*args, None)[:3]
    make = _LAYERS.get(type(weight).__name__)
    if make is None or hasattr(input, "__tensor_flatten__"):
        raise UnsupportedCallError(f"no entry claims weights of {type(weight).__name__}")
    if kwargs or weight.dim() != 2:
        raise UnsupportedCallError("the weight has three dimensions, or the bias is a keyword")
    if getattr(weight, "act_pre_scale", None) is not None:
        input = input * weight.act_pre_scale
    return make(input, weight, bias)


def _from_int8(input: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
    activation, scale = weight.act_quant_kwargs, weight.scale
    group_size = weight.block_size[-1]
    if activation is None and group_size == weight.size(-1):
        return int8_weight_only_linear(input, weight.qdata, scale, bias)
    if activation is None:
        if input.dtype != weight.dtype or weight.zero_point is None:
            raise UnsupportedCallError("the weight is of another type, or has no zero points")
        return intx_weight_only_linear(
            *(input, weight.qdata, scale, weight.zero_point, bias), bits=8, group_size=group_size
        )
    if weight.act_quant_scale is not None or activation.reduce_range:
        raise UnsupportedCallError("the input has a static scale, or a reduced range")
    return int8_dynamic_linear(
        *(input, weight.qdata, scale, bias),
        symmetric=activation.mapping_type.name == "SYMMETRIC",
        per_tensor=type(activation.granularity).__name__ == "PerTensor",
    )


def _from_intx(input: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
    rows, group_size = weight.block_size
    if rows != 1 or input.dtype != weight.dtype:
        raise UnsupportedCallError("the weight is of another type, or its groups have several rows")
    return intx_weight_only_linear(
        *(input, weight.qdata, weight.scale, weight.zero_point, bias),
        bits=int(str(weight.target_dtype).removeprefix("torch.int")),
        group_size=group_size,
        activation="none" if weight.activation_quantization is None else "int8_asymmetric",
    )


def _from_float8(input: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
    if weight.act_quant_kwargs is not None or weight.scale.numel() not in (1, weight.size(0)):
        raise UnsupportedCallError("the input is quantized too, or scales are those of blocks")
    return float8_weight_only_linear(input, weight.qdata, weight.scale, bias)


_LAYERS: dict[str, Callable[[Tensor, Any, Tensor | None], Tensor]] = {
    "Int8Tensor": _from_int8,
    "IntxUnpackedToInt8Tensor": _from_intx,
    "Float8Tensor": _from_float8,
}
"""The functions by the name of the tensor class in torchao 0.18."""
