"""Linear layers in MX and NVFP4, formats of 4- or 8-bit floats with one scale per block.

In: the input `[…, K]` in bf16 or f32, and the tensors of a quantized weight; out: `[…, N]` in the
type of the input. Blocks are parts of a row. Two f4E2M1FN are packed in one ui8, the first in the
low bits. The formats are specified in the OCP Microscaling Formats specification 1.0 (MX) and in
NVIDIA's cuBLAS (NVFP4). The arithmetic follows `MXTensor` and `NVFP4Tensor` in torchao 0.18 on the
CPU, with one exception: if the quotient of a block's largest number is just above a power of 2, the
scale for `rceil` is the next power of 2, as on GPUs. Dequantized numbers are multiplied in the type
of the input.

Layers that quantize their input have no gradient, as in torchao. `rewrite_block_scaled` rewrites
linear layers with such a weight to calls of these functions, without importing torchao.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import DeclinedError, InvalidCallError, UnsupportedCallError

aten = torch.ops.aten


class _Format(NamedTuple):
    """The float format of a block."""

    largest: float
    exponent: int
    """The exponent of the largest number."""
    fraction: int
    """The fraction of the largest number: the lower 23 bits of its f32 representation."""
    bits: int
    """The number of bits of a fraction."""


_FORMATS = {
    torch.float8_e4m3fn: _Format(448.0, 8, 0x600000, 3),
    torch.float8_e5m2: _Format(57344.0, 15, 0x600000, 2),
    torch.uint8: _Format(6.0, 2, 0x400000, 1),  # two f4E2M1FN
}


def mx_linear(
    input: Tensor,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    block_size: int = 32,
    scaling: str = "floor",
) -> Tensor:
    """A linear layer in an MX format. The input is quantized to the format of the weight.

    Args:
        weight: `[N, K]`, f8E4M3FN or f8E5M2; or `[N, K / 2]`, ui8.
        scale: `[N, K / block_size]`, f8E8M0FNU.
        bias: `[N]`.
        scaling: how the largest number of a block of the input determines its scale, a power of 2:
            `floor`, `ceil`, `even` or `rceil`; see torchao's `ScaleCalculationMode`.
    """
    rounded, exponent = quantize_mx(input, weight.dtype, block_size, scaling)
    scales = torch.where(exponent == 255, torch.nan, _power_of_2(exponent))
    quantized = (rounded.to(input.dtype) * scales.to(input.dtype)).flatten(-2)
    numbers = unscaled_numbers(weight).to(input.dtype).unflatten(-1, (-1, block_size))
    scales = scale.to(torch.float32).to(input.dtype).unsqueeze(-1)
    return functional.linear(quantized, (numbers * scales).flatten(-2), bias)


def quantize_mx(
    input: Tensor, dtype: torch.dtype, block_size: int, scaling: str
) -> tuple[Tensor, Tensor]:
    """Round an input to the nearest numbers of an MX format, and compute their scales.

    Args:
        dtype: the dtype of the format's tensors; uint8 for f4E2M1FN.
        scaling: see `mx_linear`.

    Returns:
        Numbers without scales, `[…, K / block_size, block_size]` in f32, and the bits of the
        f8E8M0FNU scales `[…, K / block_size, 1]` in i32.
    """
    blocks = input.to(torch.float32).unflatten(-1, (-1, block_size))
    exponent = _mx_exponent(blocks.abs().amax(-1, keepdim=True), _FORMATS[dtype], scaling)
    if scaling == "rceil":
        # Multiplied by 0.5 and then by 2: a compiler may treat a subnormal inverse as 0.
        inverse = torch.where(exponent == 0, 2.0, _power_of_2(255 - exponent))
        scaled = blocks * 0.5 * inverse
    else:
        scaled = blocks / _power_of_2(exponent).clamp(min=2.0**-126)
    return _rounded(scaled, dtype), exponent


def nvfp4_linear(
    input: Tensor,
    weight: Tensor,
    scale: Tensor,
    weight_scale: Tensor,
    input_scale: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str = "none",
) -> Tensor:
    """A linear layer in NVFP4: a scale for each block of 16 numbers, and one for the whole tensor.

    Args:
        weight: `[N, K / 2]`, ui8.
        scale: `[N, K / 16]`, f8E4M3FN.
        weight_scale: f32, the scale of the whole weight.
        input_scale: f32, the scale of the whole input. Only `static` reads it.
        bias: `[N]`.
        activation: `none`, or the input is quantized to NVFP4 too. Its whole scale is `input_scale`
            (`static`), or follows from its largest number (`dynamic`).
    """
    numbers = unscaled_numbers(weight).unflatten(-1, (-1, 16))
    block_scales = scale.to(torch.float32).unsqueeze(-1)
    if activation == "none":
        dequantized = (numbers * (weight_scale * block_scales)).flatten(-2)
        return functional.linear(input, dequantized.to(input.dtype), bias)
    if activation == "dynamic":
        input_scale = input.abs().amax().to(torch.float32) / (448.0 * 6.0)
    weights = (numbers * block_scales).flatten(-2).to(input.dtype)
    product = functional.linear(_nvfp4_blocks(input, input_scale).to(input.dtype), weights)
    scaled = product * (input_scale * weight_scale).to(input.dtype)
    return scaled if bias is None else scaled + bias.to(input.dtype)


def _mx_exponent(largest: Tensor, format_: _Format, scaling: str) -> Tensor:
    """The bits of the f8E8M0FNU scales, in i32, for the largest numbers of blocks in f32.

    They are computed from bits of the numbers, because compilers may round quotients differently.
    """
    bits = largest.view(torch.int32)
    if scaling == "even":
        bits = (bits + (1 << (22 - format_.bits))) & ~0x7FFFFF
    exponent, fraction = (bits >> 23) & 255, bits & 0x7FFFFF
    if scaling in ("ceil", "rceil"):  # round up the largest number itself, or its quotient
        exponent = exponent + (fraction > (0 if scaling == "ceil" else format_.fraction))
    exponent = (exponent - format_.exponent).clamp(0, 254 if scaling == "rceil" else 255)
    if scaling == "rceil":
        exponent = torch.where(largest.isinf(), 254, exponent)
    return torch.where(largest.isnan(), 255, exponent).to(torch.int32)


def _nvfp4_blocks(input: Tensor, tensor_scale: Tensor) -> Tensor:
    """Quantize an input to NVFP4, and return the numbers with the scales of blocks, in f32."""
    blocks = input.to(torch.float32).unflatten(-1, (-1, 16))
    scale = blocks.abs().amax(-1, keepdim=True) / 6.0 / tensor_scale
    smallest = torch.finfo(torch.float8_e4m3fn).smallest_normal
    scale = scale.clamp(smallest, 448.0).to(torch.float8_e4m3fn).to(torch.float32)
    scaled = blocks * (1.0 / tensor_scale / scale)
    scaled = torch.where(scaled.isnan(), -6.0, scaled)  # as torchao encodes NaN
    numbers: Tensor = _rounded(scaled, torch.uint8) * scale
    return numbers.flatten(-2)


def _power_of_2(exponent: Tensor) -> Tensor:
    """`2^(exponent - 127)` in f32, for exponents from 0 to 254 in i32."""
    return torch.where(exponent > 0, exponent << 23, 1 << 22).view(torch.float32)


def _rounded(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """Round to the nearest numbers of a format, in f32; ties go to even numbers."""
    largest = _FORMATS[dtype].largest
    clamped = numbers.clamp(-largest, largest)
    if dtype is not torch.uint8:
        return clamped.to(dtype).to(torch.float32)
    size = clamped.abs()
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return torch.round(clamped / step) * step


def unscaled_numbers(weight: Tensor) -> Tensor:
    """Unpack the numbers of a weight in f32, without scales."""
    if weight.dtype is not torch.uint8:
        return weight.to(torch.float32)
    codes = torch.stack([weight & 15, weight >> 4], -1).flatten(-2).to(torch.int32)
    size = codes & 7
    large = torch.where(size < 6, size - 2, 2 * size - 8)
    numbers = torch.where(size < 4, size * 0.5, large.to(torch.float32))
    return torch.where(codes > 7, -numbers, numbers)


def rewrite_block_scaled(
    cls: type, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Tensor:
    """Rewrite `__torch_dispatch__` of torchao's tensors for linear layers with scales of blocks."""
    make = {"MXTensor": _from_mx, "NVFP4Tensor": _from_nvfp4}.get(cls.__name__)
    if make is None:
        raise DeclinedError("not a weight of blocks")
    return make(*linear_operands(func, args))


def linear_operands(func: Any, args: Sequence[Any]) -> tuple[Tensor, Any, Tensor | None]:
    """Return the input, weight and bias of a linear layer with a quantized weight of torchao.

    PyTorch dispatches the linear layer itself, or its products with a transposed weight.

    Raises:
        DeclinedError: the call is not a linear layer.
        UnsupportedCallError: no entry claims the layer.
        InvalidCallError: the call computes a gradient that the layer does not have.
    """
    if func not in _OPERANDS:
        raise DeclinedError("not a linear layer")
    input, weight, bias = _OPERANDS[func](*args)
    if hasattr(input, "__tensor_flatten__") or not hasattr(weight, "qdata"):
        raise UnsupportedCallError("the input is quantized, or the weight is not")
    if func is not aten.linear.default:
        weight = weight.t()
    if weight.dim() != 2:
        raise UnsupportedCallError("the weight does not have two dimensions")
    if not weight.qdata.is_contiguous() and weight.act_quant_kwargs is not None:
        raise InvalidCallError(
            f"a linear layer with a weight in {type(weight).__name__} quantizes its input, which"
            " has no gradient then; quantize the model after training, or only its weights"
        )
    rows, blocks = weight.size(1) == input.size(-1), weight.size(1) % weight.block_size == 0
    if not (weight.qdata.is_contiguous() and rows and blocks and input.dtype == weight.dtype):
        raise UnsupportedCallError("the input has another type, or the weight is not one of rows")
    return input, weight, bias


_OPERANDS: dict[Any, Any] = {
    aten.linear.default: lambda input, weight, bias=None: (input, weight, bias),
    aten.mm.default: lambda input, weight: (input, weight, None),
    aten.addmm.default: lambda bias, input, weight: (input, weight, bias),
}


def _from_mx(input: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
    scaling = input_scaling(weight)
    scale = rows_of_scales(weight, weight.block_size)
    return mx_linear(
        *(input, weight.qdata, scale, bias), block_size=weight.block_size, scaling=scaling
    )


def input_scaling(weight: Any) -> str:
    """Return the `scaling` of inputs for a weight in an MX format.

    Raises:
        UnsupportedCallError: no entry claims layers with the weight.
    """
    activation = weight.act_quant_kwargs
    if activation is None or isinstance(weight.elem_dtype, str):
        raise UnsupportedCallError("the input is not quantized, or to 6-bit floats")
    if (activation.elem_dtype, activation.block_size) != (weight.elem_dtype, weight.block_size):
        raise UnsupportedCallError("input and weight have different formats")
    return str(activation.scaling_mode.value)


def _from_nvfp4(input: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
    unit = torch.ones((), dtype=torch.float32, device=input.device)
    weight_scale = unit if weight.per_tensor_scale is None else weight.per_tensor_scale
    input_scale = unit if weight.act_per_tensor_scale is None else weight.act_per_tensor_scale
    activation = weight.act_quant_kwargs
    mode = "none"
    if activation is not None:
        mode = "dynamic" if activation.use_dynamic_per_tensor_scale else "static"
    return nvfp4_linear(
        *(input, weight.qdata, rows_of_scales(weight, 16), weight_scale, input_scale, bias),
        activation=mode,
    )


def rows_of_scales(weight: Any, block_size: int) -> Tensor:
    """Return the scales `[N, K / block_size]` of a weight `[N, K]`.

    Swizzled scales are stored in tiles of 128 x 4, in the order of cuBLAS: each tile has 32 rows of
    16 scales, for the rows r, r + 32, r + 64 and r + 96 of the weight.
    """
    rows, columns = weight.size(0), weight.size(1) // block_size
    scale: Tensor = weight.scale
    if not weight.is_swizzled_scales:
        if scale.shape != (rows, columns):
            raise UnsupportedCallError("the weight is a view, whose scales have another shape")
        return scale
    tiles = scale.reshape(-(-rows // 128), -(-columns // 4), 32, 4, 4)
    return tiles.permute(0, 3, 2, 1, 4).reshape(-(-rows // 128) * 128, -1)[:rows, :columns]
