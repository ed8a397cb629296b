"""Decompositions for exports, of operators that neither torch_xla lowers nor PyTorch decomposes
completely. Operators that are worth a kernel have an entry instead."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from composites.operators.fake_quantize import (
    per_channel,
    per_tensor,
    per_tensor_with_tensors,
    with_moving_averages,
)
from composites.operators.grid_sampling import grid_sampler_2d, grid_sampler_2d_backward
from composites.operators.quantized_linear import int8_weight_only_linear, scaled_mm

aten = torch.ops.aten


def exp2(self: Tensor) -> Tensor:
    return torch.pow(2.0, self)


def fmax(self: Tensor, other: Tensor) -> Tensor:
    greater = torch.maximum(self, other)
    return torch.where(self.isnan(), other, torch.where(other.isnan(), self, greater))


def fmin(self: Tensor, other: Tensor) -> Tensor:
    smaller = torch.minimum(self, other)
    return torch.where(self.isnan(), other, torch.where(other.isnan(), self, smaller))


def hypot(self: Tensor, other: Tensor) -> Tensor:
    """The larger magnitude is factored out, so that no square overflows. The result is infinite if
    one operand is, even if the other is NaN."""
    larger = torch.maximum(self.abs(), other.abs())
    ratio = torch.minimum(self.abs(), other.abs()) / larger
    length = torch.where(larger == 0, larger, larger * (1 + ratio * ratio).sqrt())
    return torch.where(self.isinf() | other.isinf(), torch.inf, length)


def signbit(self: Tensor) -> Tensor:
    """The sign bit. NaN counts as positive."""
    if not self.is_floating_point():
        return self < 0
    return (self < 0) | ((self == 0) & (self.reciprocal() < 0))


def addbmm(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    if not (self.is_floating_point() or self.is_complex()):  # PyTorch also truncates the factors
        beta, alpha = int(beta), int(alpha)
    products = torch.bmm(batch1, batch2)
    product = products.sum(0, dtype=products.dtype) * alpha
    return product if beta == 0 else self * beta + product


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """`Tensor.unfold`, as a gather."""
    whole = self.reshape(1) if self.dim() == 0 else self
    dimension %= whole.dim()
    count = (whole.size(dimension) - size) // step + 1
    starts = torch.arange(count, device=self.device).unsqueeze(1) * step
    indices = starts + torch.arange(size, device=self.device)
    taken = whole.index_select(dimension, indices.reshape(-1))
    shape = (*whole.shape[:dimension], count, size, *whole.shape[dimension + 1 :])
    parts = taken.reshape(shape).movedim(dimension + 1, -1)
    return parts.reshape(size) if self.dim() == 0 else parts


def scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduce `src` into elements of `self`, or of the neutral element without `include_self`."""
    start = self
    if not include_self:
        start = torch.scatter(self, dim, index, _neutral(reduce, self.dtype))
    if reduce != "mean":
        return torch.scatter_reduce(start, dim, index, src, reduce)
    counts = torch.full_like(self, float(include_self)).scatter_add(
        dim, index, torch.ones_like(src)
    )
    rounding = None if self.is_floating_point() else "floor"
    total = torch.scatter_reduce(start, dim, index, src, "sum")
    return torch.div(total, counts.clamp(min=1), rounding_mode=rounding)


def _neutral(reduce: str, dtype: torch.dtype) -> float:
    """The neutral element of a reduction."""
    if reduce in ("amax", "amin"):
        limits = torch.iinfo(dtype) if not dtype.is_floating_point else None
        least, greatest = (limits.min, limits.max) if limits else (-torch.inf, torch.inf)
        return least if reduce == "amax" else greatest
    return 1 if reduce == "prod" else 0


def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Copy consecutive elements of `source` to the True positions of the mask."""
    whole = torch.where(mask, self, self)  # broadcasts `self` and the mask
    mask = mask.expand_as(whole)
    if source.numel() == 0:
        return whole
    taken = source.reshape(-1)[_ranks(mask).clamp(max=source.numel() - 1)]
    return torch.where(mask, taken, whole)


def masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """The gradient of `source`. Elements outside of the mask are scattered to one extra element,
    which is then removed."""
    mask = mask.expand_as(grad_output)
    count = math.prod(sizes)
    target = torch.where(mask, _ranks(mask).clamp(max=count), count).reshape(-1)
    gradient = grad_output.new_zeros(count + 1).scatter(0, target, grad_output.reshape(-1))
    return gradient[:count].reshape(list(sizes))


def _ranks(mask: Tensor) -> Tensor:
    """The number of True elements before each element of a mask."""
    flat = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    return flat.clamp(min=0).reshape(mask.shape)


def median(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The median: the lower of the two middle elements, or NaN if there is a NaN."""
    if self.dim() == 0:
        return self.clone(), torch.zeros_like(self, dtype=torch.int64)
    values, order = torch.sort(self, dim=dim, stable=True)  # NaN comes last
    count = self.size(dim)
    middle = torch.full_like(order.narrow(dim, 0, 1), (count - 1) // 2)
    if self.is_floating_point():
        first = count - values.isnan().sum(dim, keepdim=True)
        middle = torch.where(first < count, first, middle)
    medians = values.gather(dim, middle), order.gather(dim, middle)
    return medians if keepdim else (medians[0].squeeze(dim), medians[1].squeeze(dim))


def histc(self: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """The number of values in each bin. Equal limits stand for the extremes of the values."""
    values = self.reshape(-1)
    low, high = values.new_full((), min), values.new_full((), max)
    if min == max and values.numel():
        low, high = values.min(), values.max()
    is_point = low == high
    low, high = torch.where(is_point, low - 1, low), torch.where(is_point, high + 1, high)
    is_inside = (values >= low) & (values <= high)
    rounding = None if self.is_floating_point() else "floor"
    index = torch.div((values - low) * bins, high - low, rounding_mode=rounding)
    index = torch.where(is_inside, index.clamp(max=bins - 1), 0).to(torch.int64)
    return values.new_zeros(bins).scatter_add(0, index, is_inside.to(self.dtype))


def randperm(
    n: int, *, dtype: torch.dtype | None = None, device: torch.device | None = None, **_: Any
) -> Tensor:
    """The sorting order of random numbers. torch_xla's own loop has no form in StableHLO."""
    drawn = torch.rand(n, dtype=torch.float64, device=device)
    return torch.sort(drawn).indices.to(torch.int64 if dtype is None else dtype)


def weight_norm_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> Any:
    norms = saved_norms.to(saved_g.dtype)
    return aten._weight_norm_differentiable_backward(grad_w, saved_v, saved_g, norms, dim)


def solve_triangular(
    self: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    if not left:
        transposed = solve_triangular(self.mT, B.mT, upper=not upper, unitriangular=unitriangular)
        return transposed.mT
    solved: Tensor = aten.triangular_solve(B, self, upper, False, unitriangular)[0]
    return solved


def embedding_renorm(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows at `indices` whose norm exceeds `max_norm`."""
    norms = torch.linalg.vector_norm(self, norm_type, 1, keepdim=True)
    rows = torch.zeros_like(norms, dtype=torch.bool).index_fill(0, indices.reshape(-1), True)
    return torch.where(rows & (norms > max_norm), self * (max_norm / (norms + 1e-7)), self)


def transformer_encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """`nn.TransformerEncoderLayer` in inference. Keys at which the mask is not 0 are left out."""
    norm = partial(F.layer_norm, normalized_shape=(embed_dim,), eps=eps)
    norm_1 = partial(norm, weight=norm_weight_1, bias=norm_bias_1)
    norm_2 = partial(norm, weight=norm_weight_2, bias=norm_bias_2)
    projected = F.linear(norm_1(src) if norm_first else src, qkv_weight, qkv_bias)
    query, key, value = projected.unflatten(-1, (3, num_heads, -1)).permute(2, 0, 3, 1, 4)
    scores = query * query.shape[-1] ** -0.5 @ key.mT
    if mask is not None:
        left_out = mask.bool()[:, None, None] if mask_type == 1 else mask.bool()
        scores = scores.masked_fill(left_out, -torch.inf)
    attended = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    x = src + F.linear(attended, proj_weight, proj_bias)
    x = x if norm_first else norm_1(x)
    hidden = F.linear(norm_2(x) if norm_first else x, ffn_weight_1, ffn_bias_1)
    x = x + F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), ffn_weight_2, ffn_bias_2)
    return x if norm_first else norm_2(x)


def conv_tbc(self: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    result = torch.conv1d(self.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1)


def conv_tbc_backward(
    self: Tensor, input: Tensor, weight: Tensor, bias: Tensor, pad: int
) -> tuple[Tensor, ...]:
    """The gradients of input, weight and bias. `self` is the gradient of the result."""
    tensors = (self.permute(1, 2, 0), input.permute(1, 2, 0), weight.permute(2, 1, 0))
    numbers = ([len(bias)], [1], [pad], [1], False, [0], 1, [True] * 3)
    grad_input, grad_weight, grad_bias = aten.convolution_backward(*tensors, *numbers)
    return grad_input.permute(2, 0, 1), grad_weight.permute(2, 1, 0), grad_bias


def grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: None = None, out_dtype: Any = None
) -> Tensor:
    """Products of groups of rows, of columns, or of the summed dimension. `offs` has the end of
    each group. Products are computed for all rows and groups; numbers of one group, such as NaN, do
    not reach others."""
    if offs is None:
        return torch.matmul(self, mat2)
    if self.dim() == mat2.dim() == 2:
        groups = _groups(offs, self.size(1))
        left = torch.where(groups.unsqueeze(1), self, 0)
        return torch.matmul(left, torch.where(groups.unsqueeze(2), mat2, 0))
    has_rows = self.dim() == 2
    groups = _groups(offs, self.size(0) if has_rows else mat2.size(1))
    groups = groups.unsqueeze(-1 if has_rows else 1)
    return torch.where(groups, torch.matmul(self, mat2), 0).sum(0)


def _groups(ends: Tensor, size: int) -> Tensor:
    """For each group, a mask of its positions. A group begins at the end of the group before it."""
    positions = torch.arange(size, device=ends.device)
    starts = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]])
    return (starts.unsqueeze(1) <= positions) & (positions < ends.unsqueeze(1))


def grouped_mm_backward(
    input: Tensor, weight: Tensor, offs: Tensor, grad_output: Tensor
) -> tuple[Tensor, Tensor]:
    grad_input = grouped_mm(grad_output, weight.transpose(1, 2), offs)
    return grad_input, grouped_mm(input.t(), grad_output, offs)


OF_TRANSFORMERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"grouped_mm_fallback": grouped_mm, "grouped_mm_fallback_backward": grouped_mm_backward}
)
"""Decompositions of the operators that transformers 5.23 defines, by name."""
DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = MappingProxyType(
    {
        aten.exp2.default: exp2,
        aten.fmax.default: fmax,
        aten.fmin.default: fmin,
        aten.hypot.default: hypot,
        aten.signbit.default: signbit,
        aten.addbmm.default: addbmm,
        aten.unfold_copy.default: unfold,
        aten._weight_norm_interface_backward.default: weight_norm_backward,
        aten.scatter_reduce.two: scatter_reduce,
        aten.linalg_solve_triangular.default: solve_triangular,
        aten.masked_scatter.default: masked_scatter,
        aten.masked_scatter_backward.default: masked_scatter_backward,
        aten.median.dim: median,
        aten.histc.default: histc,
        aten._grouped_mm.default: grouped_mm,
        aten.randperm.default: randperm,
        aten.fake_quantize_per_tensor_affine_cachemask.default: per_tensor,
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: (
            per_tensor_with_tensors
        ),
        aten.fake_quantize_per_channel_affine_cachemask.default: per_channel,
        aten._fused_moving_avg_obs_fq_helper_functional.default: with_moving_averages,
        aten.grid_sampler_3d.default: grid_sampler_2d,
        aten.grid_sampler_3d_backward.default: grid_sampler_2d_backward,
        aten.embedding_renorm.default: embedding_renorm,
        aten._transformer_encoder_layer_fwd.default: transformer_encoder_layer,
        aten.conv_tbc.default: conv_tbc,
        aten.conv_tbc_backward.default: conv_tbc_backward,
        aten._weight_int8pack_mm.default: int8_weight_only_linear,
        aten._scaled_mm.default: scaled_mm,
    }
)
"""The decompositions by overload."""
