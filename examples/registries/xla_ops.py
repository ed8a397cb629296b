"""The functions that chlo.yaml and xla.yaml name: decompositions, adapters and samples.

A vendor ships such a module in its own package. M, N and K are rows, columns and what is
contracted; G is the number of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from composites.errors import DeclinedError, InvalidCallError, UnsupportedCallError
from composites.operators import block_scaled_linear

One = Callable[..., Tensor]
Several = Callable[..., Sequence[Tensor]]
Sample = tuple[tuple[Any, ...], dict[str, Any]]

# Top k.


def top_k(input: Tensor, *, k: int) -> tuple[Tensor, Tensor]:
    """The `k` largest values of the last dimension, and their indices in i32."""
    values, indices = torch.topk(input, k)
    return values, indices.to(torch.int32)


def to_top_k(
    composite: Several,
    self: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> tuple[Tensor, Tensor]:
    """Adapt `aten::topk`. Sorted values are also an answer where `sorted` is false."""
    if not largest or self.dim() == 0 or dim not in (-1, self.dim() - 1):
        raise UnsupportedCallError("only the largest values of the last dimension are a top_k")
    values, indices = composite(self, k=k)
    return values, indices.to(torch.int64)


def top_k_backward(grad_output: Tensor, result_1: Tensor, input: Tensor) -> Tensor:
    """Each gradient goes to where its value was."""
    zeros = torch.zeros_like(input)
    return zeros.scatter(-1, result_1.to(torch.int64), grad_output)


# Products of groups. The dimensions are those of CHLO: lhs batch, rhs batch, lhs contracting,
# rhs contracting, lhs ragged, rhs group.

Dimensions = Sequence[Sequence[int]]

ROWS: Dimensions = [[], [], [1], [1], [0], [0]]
"""lhs `[M, K]` with groups of rows, rhs `[G, K, N]`: `[M, N]`."""
ROWS_TRANSPOSED: Dimensions = [[], [], [1], [2], [0], [0]]
"""lhs `[M, K]` with groups of rows, rhs `[G, N, K]`: `[M, N]`."""
CONTRACTED: Dimensions = [[], [], [0], [0], [0], []]
"""lhs `[K, M]` and rhs `[K, N]`, both with groups of rows: `[G, M, N]`."""


def ragged_dot(
    lhs: Tensor, rhs: Tensor, group_sizes: Tensor, *, dimension_numbers: Dimensions
) -> Tensor:
    """The product of each group with its matrix. Rows after the last group are zero.

    All groups are one product, in which the elements of other groups are zero, as in XLA's own
    expansion.
    """
    rows = torch.arange(lhs.shape[0], device=lhs.device).unsqueeze(0)
    ends = group_sizes.cumsum(0).unsqueeze(1)
    inside = torch.logical_and(rows < ends, rows >= ends - group_sizes.unsqueeze(1))  # [G, M]
    spread = torch.where(inside.unsqueeze(-1), lhs.unsqueeze(0), 0)  # [G, M, K]
    if [*map(list, dimension_numbers)] == CONTRACTED:
        return torch.matmul(spread.transpose(1, 2), rhs)
    if [*map(list, dimension_numbers)] == ROWS_TRANSPOSED:
        rhs = rhs.transpose(1, 2)
    columns = rhs.shape[2]
    return torch.matmul(spread.transpose(0, 1).reshape(lhs.shape[0], -1), rhs.reshape(-1, columns))


def to_ragged_dot(
    composite: One,
    self: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Adapt `aten::_grouped_mm`, whose `offs` are the ends of the groups.

    PyTorch 2.9 has no kernel for XLA tensors, and its own one crashes. Calls that are
    not such products are therefore errors.
    """
    forms = {(2, 3): ROWS, (2, 2): CONTRACTED}
    form = forms.get((self.dim(), mat2.dim()))
    if form is None or offs is None or bias is not None or out_dtype not in (None, self.dtype):
        raise InvalidCallError(
            "torch._grouped_mm with chlo.ragged_dot takes [M, K] x [G, K, N] or [M, K] x [K, N],"
            " offs, no bias, and no other out_dtype"
        )
    lhs = self if form is ROWS else self.transpose(0, 1)
    sizes = offs.to(torch.int32).diff(prepend=torch.zeros_like(offs[:1], dtype=torch.int32))
    return composite(lhs, mat2, sizes, dimension_numbers=form)


def to_ragged_dot_backward(
    composite: One,
    grad_output: Tensor,
    lhs: Tensor,
    rhs: Tensor,
    group_sizes: Tensor,
    dimension_numbers: Dimensions,
) -> tuple[Tensor, Tensor]:
    """The gradients of `lhs` and `rhs`."""
    if [*map(list, dimension_numbers)] != ROWS:
        raise InvalidCallError("only the gradient of [M, K] x [G, K, N] is a chlo.ragged_dot")
    return (
        composite(grad_output, rhs, group_sizes, dimension_numbers=ROWS_TRANSPOSED),
        composite(lhs, grad_output, group_sizes, dimension_numbers=CONTRACTED),
    )


def grouped_mm_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Groups of rows, one of which is empty."""
    for ends in ([3, 3, 8], [2, 5, 8]):
        lhs, rhs = torch.randn(8, 16, dtype=dtype), torch.randn(3, 16, 8, dtype=dtype)
        offs = torch.tensor(ends, dtype=torch.int32)
        yield (lhs.requires_grad_(), rhs.requires_grad_(), offs), {}


# Products of scaled 8-bit floats.


def scaled_dot(
    lhs: Tensor, rhs: Tensor, lhs_scale: Tensor, rhs_scale: Tensor, *, out_dtype: torch.dtype
) -> Tensor:
    """lhs `[M, K]`, rhs `[N, K]`, scales `[M, 1]` and `[N, 1]`: `[M, N]`."""
    product = torch.matmul(lhs.to(torch.float32), rhs.to(torch.float32).t())
    return (product * lhs_scale * rhs_scale.t()).to(out_dtype)


def to_scaled_dot(
    composite: One,
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """Adapt `aten::_scaled_mm` with one scale for a tensor, or one for each row and column. A bias
    is added outside, before the result is rounded."""
    rows, columns = self.shape[0], mat2.shape[1]
    if scale_a.numel() not in (1, rows) or scale_b.numel() not in (1, columns):
        raise UnsupportedCallError("there are several scales for a row or column")
    if scale_result is not None:
        raise UnsupportedCallError("the result has a scale")
    result_type = self.dtype if out_dtype is None else out_dtype
    if result_type.itemsize == 1:
        raise UnsupportedCallError("the result is an 8-bit float")
    scales = (
        scale_a.reshape(-1, 1).expand(rows, 1),
        scale_b.reshape(-1, 1).expand(columns, 1),
    )
    rhs = mat2.t()
    if bias is None:
        return composite(self, rhs, *scales, out_dtype=result_type)
    wide = composite(self, rhs, *scales, out_dtype=torch.float32)
    return (wide + bias.to(torch.float32)).to(result_type)


def scaled_mm_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """A scale for each tensor, and for each row and column."""
    if dtype not in (torch.float32, torch.bfloat16):
        return
    lhs = torch.randn(16, 32).to(torch.float8_e4m3fn)
    rhs = torch.randn(48, 32).to(torch.float8_e4m3fn).t()
    one = torch.tensor(0.5), torch.tensor(2.0)
    yield (lhs, rhs, *one), {"out_dtype": dtype}


# Products of block-scaled tensors (OCP Microscaling Formats, MX).

BLOCK = 32
"""Elements that have one scale."""

NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
"""JAX's names of the types that results can have."""


def scaled_dot_of_mx(
    lhs: Tensor,
    rhs: Tensor,
    lhs_scale: Tensor,
    rhs_scale: Tensor,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """`lhs @ rhs.T` for `[M, K]` and `[N, K]` in 8-bit floats, with scales `[M, K / 32]` and
    `[N, K / 32]` in f8E8M0FNU."""
    factors = []
    for elements, scales in ((lhs, lhs_scale), (rhs, rhs_scale)):
        blocks = elements.to(torch.bfloat16).unflatten(1, (-1, BLOCK))
        scaled = blocks * scales.to(torch.bfloat16).unsqueeze(-1)
        factors.append(scaled.flatten(1).to(out_dtype))
    return torch.matmul(factors[0], factors[1].t())


def of_mx(
    cls: type, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Tensor:
    """`__torch_dispatch__` of torchao's tensors, for a linear layer with a weight in MX."""
    if cls.__name__ != "MXTensor":
        raise DeclinedError("not a weight in MX")
    input, weight, bias = block_scaled_linear.linear_operands(func, args)
    scaling = block_scaled_linear.input_scaling(weight)
    if weight.qdata.dtype == torch.uint8 or weight.block_size != BLOCK:
        raise UnsupportedCallError(f"XLA takes 8-bit floats with a scale for {BLOCK} of them")
    rows = input.reshape(-1, input.shape[-1])
    numbers, exponent = block_scaled_linear.quantize_mx(rows, weight.qdata.dtype, BLOCK, scaling)
    product = scaled_dot_of_mx(
        numbers.flatten(1).to(weight.qdata.dtype),
        weight.qdata,
        exponent.squeeze(-1).to(torch.uint8).view(torch.float8_e8m0fnu),
        block_scaled_linear.rows_of_scales(weight, BLOCK),
        out_dtype=input.dtype,
    )
    result = product if bias is None else product + bias
    return result.reshape(*input.shape[:-1], -1)


def mx_mm(
    lhs: Tensor,
    rhs: Tensor,
    lhs_scale: Tensor,
    rhs_scale: Tensor,
    out_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """`lhs @ rhs.T` for `[M, K]` and `[N, K]` with scales `[M, K / 32]` and `[N, K / 32]`.

    Elements are 8-bit floats. With dtype uint8, a byte holds two 4-bit floats (f4E2M1FN), the first
    in its low bits, so the shapes are `[M, K / 2]` and `[N, K / 2]`. Scales are uint8, the bytes of
    f8E8M0FNU: a power of two, with 127 for 1.
    """
    for elements, scales in ((lhs, lhs_scale), (rhs, rhs_scale)):
        width = elements.shape[1] * (2 if elements.dtype == torch.uint8 else 1)
        if scales.dtype != torch.uint8 or scales.shape != (elements.shape[0], width // BLOCK):
            raise InvalidCallError(
                f"mx_mm needs one scale in uint8 for {BLOCK} elements, not {scales.dtype}"
                f" {tuple(scales.shape)} for {tuple(elements.shape)}"
            )
    product = torch.matmul(_scaled(lhs, lhs_scale), _scaled(rhs, rhs_scale).t())
    return product.to(out_dtype)


def _scaled(elements: Tensor, scales: Tensor) -> Tensor:
    factors = torch.exp2(scales.to(torch.float32) - 127)
    return block_scaled_linear.unscaled_numbers(elements) * factors.repeat_interleave(BLOCK, 1)


def mx_mm_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Elements of both widths."""
    if dtype not in NAMES:
        return
    scales = (
        torch.randint(125, 130, (4, 2), dtype=torch.uint8),
        torch.randint(125, 130, (8, 2), dtype=torch.uint8),
    )
    for kind in (torch.float8_e4m3fn, torch.float8_e5m2):
        yield (torch.randn(4, 64).to(kind), torch.randn(8, 64).to(kind), *scales, dtype), {}
    pairs = (
        torch.randint(0, 256, (4, 32), dtype=torch.uint8),
        torch.randint(0, 256, (8, 32), dtype=torch.uint8),
    )
    yield (*pairs, *scales, dtype), {}
