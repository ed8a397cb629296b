"""The functions that litert.yaml and the files next to it name: decompositions and adapters.

A vendor ships such a module in its own package. The decompositions only use operators that LiteRT
runs, because LiteRT runs them wherever no delegate has a kernel for the composite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from composites.errors import UnsupportedCallError

Composite = Callable[..., Tensor]
Sample = tuple[tuple[Any, ...], dict[str, Any]]

# Pooling.


def avg_pool2d(
    input: Tensor,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    """Average pooling of `[N, C, H, W]`. Sizes are (height, width)."""
    return F.avg_pool2d(
        input, list(kernel_size), list(stride), list(padding), ceil_mode, count_include_pad
    )


def to_avg_pool2d(
    composite: Composite,
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Adapt `aten::avg_pool2d` where the converter has a pattern."""
    kernel = _pair(kernel_size)
    steps = _pair(stride) if stride else kernel
    pads = _pair(padding)
    if divisor_override is not None or (ceil_mode and not count_include_pad):
        raise UnsupportedCallError("the converter has no pattern for the call")
    if not count_include_pad and any(pads) and not _is_same(self.shape[2:], kernel, steps, pads):
        raise UnsupportedCallError("the padding is neither SAME nor VALID")
    return composite(
        self,
        kernel_size=kernel,
        stride=steps,
        padding=pads,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


def tiled_avg_pool2d(
    input: Tensor,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    """Average pooling for windows that tile `[N, C, H, W]`, without the pooling operator."""
    height, width = kernel_size
    tiles = input.unflatten(3, (-1, width)).unflatten(2, (-1, height))
    summed: Tensor = tiles.sum((3, 5))
    return summed / (height * width)


def from_adaptive_avg_pool2d(
    composite: Composite, self: Tensor, output_size: Sequence[int]
) -> Tensor:
    """Adapt `aten::adaptive_avg_pool2d` if the input's sizes are multiples of the output's."""
    sizes = list(zip(self.shape[-2:], _pair(output_size), strict=True))
    if any(n == 0 or n % size for n, size in sizes):
        raise UnsupportedCallError("the windows have different sizes")
    kernel = [n // size for n, size in sizes]
    return composite(
        self,
        kernel_size=kernel,
        stride=kernel,
        padding=[0, 0],
        ceil_mode=False,
        count_include_pad=True,
    )


def max_pool2d(
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> Tensor:
    """Max pooling of `[N, C, H, W]` in windows that do not overlap.

    As in PyTorch, the gradient goes to the first of equal values, and a window that contains a NaN
    gives NaN.
    """
    batch, channels, height, width = self.shape
    high, wide = kernel_size
    windows = self.reshape(batch, channels, height // high, high, width // wide, wide)
    first, *others = windows.permute(3, 5, 0, 1, 2, 4).flatten(0, 1).unbind()
    for other in others:
        first = torch.where(other > first, other, torch.where(other.isnan(), other, first))
    return first


def _pair(sizes: Sequence[int]) -> list[int]:
    return [*sizes] if len(sizes) == 2 else [*sizes, *sizes]


def _is_same(
    shape: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> bool:
    """Return whether this is TensorFlow's SAME padding, with `ceil(size / stride)` outputs."""
    for size, window, step, pad in zip(shape, kernel, stride, padding, strict=True):
        needed = max(0, (-(-size // step) - 1) * step + window - size)
        if needed != 2 * pad:
            return False
    return True


# Embeddings.


def embedding_lookup(indices: Tensor, table: Tensor) -> Tensor:
    """Rows of the table `[V, D]` for indices `[N]`: `[N, D]`."""
    return torch.index_select(table, 0, indices)


def to_embedding_lookup(
    composite: Composite,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Adapt `aten::embedding`. The cast and the reshapes stay outside the composite."""
    rows = composite(indices.reshape(-1).to(torch.int32), weight)
    return rows.reshape(*indices.shape, weight.shape[1])


def embedding_dense_backward(
    grad_output: Tensor,
    indices: Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Tensor:
    """`[V, D]`: for each row of the table, the sum of the gradients of its uses."""
    rows = indices.reshape(-1, 1)
    table = torch.arange(num_weights, device=indices.device)
    grads = grad_output.reshape(-1, grad_output.shape[-1])
    # The masks are cast to floats first, because torch_xla combines booleans as unsigned bytes,
    # which LiteRT does not support.
    counted = (table != padding_idx).to(grads.dtype)
    return ((rows == table).to(grads.dtype) * counted).t() @ grads


# Norms.


def rms_norm(input: Tensor, weight: Tensor | None = None, *, epsilon: float) -> Tensor:
    """RMS norm of `[…, C]` over the last dimension; weight `[C]`."""
    normed = input * torch.rsqrt(_mean(input.square(), -1) + epsilon)
    return normed if weight is None else normed * weight


def to_rms_norm(
    composite: Composite,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Adapt `aten::rms_norm`. Its default epsilon is that of f32."""
    if len(normalized_shape) != 1:
        raise UnsupportedCallError("the norm must be over the last dimension only")
    return composite(input, weight, epsilon=torch.finfo(torch.float32).eps if eps is None else eps)


def group_norm(
    input: Tensor, weight: Tensor, bias: Tensor, *, num_groups: int, epsilon: float
) -> Tensor:
    """Group norm of `[N, H, W, C]`; weight and bias `[C]`."""
    n, height, width, channels = input.shape
    grouped = input.reshape(n, height * width, num_groups, channels // num_groups)
    centered = grouped - _mean(grouped, 1, 3)
    variance = _mean(centered.square(), 1, 3)
    normed = (centered * torch.rsqrt(variance + epsilon)).reshape(input.shape)
    return normed * weight + bias


def to_group_norm(
    composite: Composite,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Adapt `aten::group_norm`. The channels are moved to the end, and back afterwards."""
    if weight is None or bias is None or input.dim() != 4:
        raise UnsupportedCallError("the call needs images, a weight and a bias")
    last = input.permute(0, 2, 3, 1)
    result = composite(last, weight, bias, num_groups=num_groups, epsilon=eps)
    return result.permute(0, 3, 1, 2)


def layer_norm(input: Tensor, weight: Tensor, bias: Tensor, *, epsilon: float) -> Tensor:
    """Layer norm of `[…, C]` over the last dimension; weight and bias `[C]`."""
    centered = input - _mean(input, -1)
    variance = _mean(centered.square(), -1)
    return centered * torch.rsqrt(variance + epsilon) * weight + bias


def to_layer_norm(
    composite: Composite,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Adapt `aten::layer_norm`."""
    if weight is None or bias is None or len(normalized_shape) != 1:
        raise UnsupportedCallError("the call needs a weight and a bias of the last dimension")
    return composite(input, weight, bias, epsilon=eps)


def l2_norm(input: Tensor, *, epsilon: float) -> Tensor:
    """Scale vectors `[…, C]` to length 1 (litert/test/testdata/l2_norm_composite.mlir of
    LiteRT)."""
    return input * torch.rsqrt(input.square().sum(-1, keepdim=True) + epsilon)


def to_l2_norm(
    composite: Composite,
    input: Tensor,
    p: float = 2.0,
    dim: int = 1,
    eps: float = 1e-12,
    out: Tensor | None = None,
) -> Tensor:
    """Adapt `torch.nn.functional.normalize`."""
    if p != 2 or out is not None or dim not in (-1, input.dim() - 1) or input.dim() == 0:
        raise UnsupportedCallError("it must be the Euclidean norm of the last dimension")
    return composite(input, epsilon=eps * eps)


def _mean(input: Tensor, *dims: int) -> Tensor:
    """The mean, without `aten::mean`, which is a composite itself."""
    return input.sum(dims, keepdim=True) / math.prod(input.shape[dim] for dim in dims)


# Attention.


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float
) -> Tensor:
    """Query `[B, T, N, H]`, key and value `[B, S, Nkv, H]`, additive mask broadcast to `[B, N, T,
    S]`.

    If `odml.softmax` is on, the softmax is a nested composite, which LiteRT supports.

    Returns:
        `[B, T, N, H]`.
    """
    q, k, v = (t.transpose(1, 2) for t in (query, key, value))
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = (t.repeat_interleave(shared, 1) for t in (k, v))
    scores = torch.matmul(q, k.transpose(-2, -1)) * scale
    if mask is not None:
        scores = scores + mask
    return torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2)


def to_attention(
    composite: Composite,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Adapt PyTorch's attention: transpose the heads, and turn a boolean mask into an additive one.

    Masked scores get the lowest finite number. A row that is masked completely therefore gives the
    mean of the values, where PyTorch gives 0.
    """
    if dropout_p != 0 or not query.dim() == key.dim() == value.dim() == 4:
        raise UnsupportedCallError("the call must have four dimensions and no dropout")
    if key.shape[1] != query.shape[1] and not enable_gqa:
        raise UnsupportedCallError("heads can only be shared with enable_gqa")
    rows, columns = query.shape[2], key.shape[2]
    if is_causal:
        if attn_mask is not None:
            raise UnsupportedCallError("the call is causal and also has a mask")
        attn_mask = torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None:
        if attn_mask.dim() > 4:
            raise UnsupportedCallError("the mask has more than 4 dimensions")
        if attn_mask.dtype == torch.bool:
            allowed = torch.zeros_like(attn_mask, dtype=query.dtype)
            lowest = torch.finfo(query.dtype).min
            attn_mask = allowed.masked_fill(attn_mask.logical_not(), lowest)
        attn_mask = attn_mask.expand(
            *[1] * (4 - attn_mask.dim()), *attn_mask.shape[:-2], rows, columns
        )
    operands = [t.transpose(1, 2) for t in (query, key, value)]
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    return composite(*operands, attn_mask, scale=factor).transpose(1, 2)


# Operators that only TFLite has.


def pack(first: Tensor, second: Tensor, third: Tensor, fourth: Tensor, *, axis: int) -> Tensor:
    """Stack four tensors of the same shape along a new dimension."""
    return torch.cat([t.unsqueeze(axis) for t in (first, second, third, fourth)], axis)


def to_pack(composite: Composite, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Adapt `aten::stack`."""
    if len(tensors) != 4 or len({(t.shape, t.dtype) for t in tensors}) != 1:
        raise UnsupportedCallError("the call needs four tensors of one type")
    return composite(*tensors, axis=dim if dim >= 0 else dim + tensors[0].dim() + 1)


def dynamic_update_slice(x: Tensor, update: Tensor, begin: Tensor) -> Tensor:
    """Write `update` into `x` at `begin`, an i32 tensor `[rank]`. The position is clamped to
    fit."""
    places = []
    for dim, (size, new) in enumerate(zip(x.shape, update.shape, strict=True)):
        first = begin[dim].clamp(0, size - new)
        along = [-1 if n == dim else 1 for n in range(x.dim())]
        places.append((first + torch.arange(new, device=x.device)).reshape(along))
    return x.index_put(tuple(places), update)


def bmm_4d_adj_y(lhs: Tensor, rhs: Tensor) -> Tensor:
    """`[B, N, T, H]` and `[B, N, S, H]` to `[B, N, T, S]`."""
    return torch.matmul(lhs, rhs.transpose(-2, -1))


def slice(x: Tensor, begin: Tensor, sizes: Sequence[int]) -> Tensor:
    """The part of `x` with these sizes at `begin`, an i32 tensor `[rank]`. The position is clamped
    to fit."""
    return slice_of(x, begin, torch.tensor(sizes, dtype=torch.int32), sizes=sizes)


def slice_of(x: Tensor, begin: Tensor, size: Tensor, *, sizes: Sequence[int]) -> Tensor:
    """The decomposition of `slice`. `size` repeats `sizes` as an attribute for the consumer."""
    for dim, (length, width) in enumerate(zip(x.shape, sizes, strict=True)):
        first = begin[dim].clamp(0, length - width)
        x = x.index_select(dim, first + torch.arange(width, device=x.device))
    return x


def to_slice(composite: Composite, x: Tensor, begin: Tensor, sizes: Sequence[int]) -> Tensor:
    """Give the sizes as a tensor too."""
    size = torch.tensor(sizes, dtype=torch.int32, device=x.device)
    return composite(x, begin, size, sizes=sizes)


def slice_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """A part of a matrix."""
    x = torch.arange(12).reshape(3, 4).to(dtype)
    yield (x, torch.tensor([1, 2], dtype=torch.int32), [2, 1]), {}


def unpack(x: Tensor, num: int, axis: int = 0) -> list[Tensor]:
    """The `num` slices of `x` along a dimension, as tensors of their own."""
    if x.shape[axis] != num:
        raise UnsupportedCallError(f"dimension {axis} has another size than {num}")
    return [x.select(axis, number).clone() for number in range(num)]


def unpack_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Rows and columns."""
    x = torch.arange(6).reshape(2, 3).to(dtype)
    yield (x, 2), {}
    yield (x, 3, 1), {}


# Operators of LiteRT's runtime.


def random_uniform(like: Tensor, seed: int = 0, seed2: int = 0) -> Tensor:
    """Numbers from [0, 1) in f32 of the shape of `like`, which depend on the seeds alone."""
    return random_uniform_of(like, like.shape, seed=seed, seed2=seed2)


def random_uniform_of(shape: Tensor, sizes: Sequence[int], *, seed: int, seed2: int) -> Tensor:
    """The decomposition of `random_uniform`. `shape` repeats `sizes` for the consumer."""
    places = torch.arange(math.prod(sizes), device=shape.device)
    bits = _mixed(_mixed(_mixed(places) + seed % 2**32) + seed2 % 2**32)
    return ((bits >> 8).to(torch.float32) / 2**24).reshape(sizes)


def _mixed(numbers: Tensor) -> Tensor:
    """A hash of 32-bit numbers, in i64 (lowbias32 of Chris Wellons' hash-prospector)."""
    numbers = numbers & 0xFFFFFFFF
    numbers = (numbers ^ (numbers >> 16)) * 0x7FEB352D & 0xFFFFFFFF
    numbers = (numbers ^ (numbers >> 15)) * 0x846CA68B & 0xFFFFFFFF
    return numbers ^ (numbers >> 16)


def to_random_uniform(composite: Composite, like: Tensor, seed: int = 0, seed2: int = 0) -> Tensor:
    """Give the shape as a tensor."""
    sizes = list(like.shape)
    shape = torch.tensor(sizes, dtype=torch.int32, device=like.device)
    return composite(shape, sizes, seed=seed, seed2=seed2)


def random_uniform_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Two seeds."""
    if dtype == torch.float32:
        yield (torch.zeros(2, 3), 1, 2), {}
        yield (torch.zeros(7), -1), {}


def update_kv_cache(
    k_cache: Tensor,
    v_cache: Tensor,
    positions: Tensor,
    key: Tensor,
    value: Tensor,
    kv_cache_max: int,
) -> tuple[Tensor, Tensor]:
    """Caches `[B, S, N, H]` with new rows `[B, T, N, H]` at positions `[T]`
    (generative/layers/kv_cache.py of ai-edge-torch)."""
    return (
        k_cache.index_copy(1, positions, key),
        v_cache.index_copy(1, positions, value),
    )


def update_kv_cache_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Two rows of a cache of four."""
    caches = [torch.randn(1, 4, 2, 3, dtype=dtype) for _ in range(2)]
    rows = [torch.randn(1, 2, 2, 3, dtype=dtype) for _ in range(2)]
    yield (*caches, torch.tensor([1, 2]), *rows, 4), {}


def quantize_and_dequantize(weight: Tensor, axis: int, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Symmetric integers along `axis`: the rounded weight, its integers, and the scales."""
    largest = 2 ** (bits - 1) - 1
    scale = weight.abs().amax(axis, keepdim=True) / largest
    scale = torch.where(scale == 0, 1.0, scale).to(weight.dtype)
    integers = (weight / scale).round().clamp(-largest - 1, largest)
    return integers * scale, integers, scale


def quantize_and_dequantize_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Four bits and eight; ones, as numbers between two integers may be rounded either way."""
    weight = torch.arange(-6.0, 6.0).reshape(4, 3).to(dtype)
    yield (weight, 0, 4), {}
    yield (weight, 1, 8), {}


def rope(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """Rotate the two halves of each head of `[B, N, T, H]` by angles for positions `[1, 1, 1, T]`
    (ml_drift_delegate/delegate/composite/ir/rope_parser_test.cc of LiteRT)."""
    half = x.shape[-1] // 2
    exponents = torch.arange(half, device=x.device, dtype=torch.float32) * (2.0 / x.shape[-1])
    frequencies = torch.exp(exponents * -math.log(base))
    angles = positions.to(torch.float32).reshape(-1, 1) * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def rope_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Two bases; positions of another shape are left alone."""
    if dtype != torch.float32:
        return
    positions = torch.tensor([0, 1, 5], dtype=torch.int32)
    for base in (10000.0, 500000.0):
        yield (torch.randn(1, 2, 3, 8), positions.reshape(1, 1, 1, 3), base), {}
    yield (torch.randn(1, 2, 3, 8), positions), {}


# Calls for `composites verify` of operators. PyTorch's own samples need gradients, which these
# entries leave to the stock lowering.


def avg_pool2d_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Padding that is counted or SAME; a divisor is left alone."""
    x = torch.randn(1, 2, 6, 8, dtype=dtype)
    yield (x, [2, 2]), {}
    yield (x, [3, 3], [2, 2], [1, 1]), {}
    yield (x, [3, 3], [1, 1], [1, 1], False, False), {}
    yield (x, [2, 2]), {"divisor_override": 3}


def adaptive_avg_pool2d_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Windows of one size; others are left alone."""
    x = torch.randn(1, 2, 6, 8, dtype=dtype)
    yield (x, [3, 2]), {}
    yield (x, [4, 4]), {}


def embedding_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Rows of a table."""
    yield (torch.randn(4, 3, dtype=dtype), torch.tensor([[0, 3], [1, 1]])), {}


def norm_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """With a weight and without."""
    x = torch.randn(2, 3, 4, dtype=dtype)
    yield (x, [4], torch.randn(4, dtype=dtype), 1e-6), {}
    yield (x, [4]), {}
    yield (x, [3, 4]), {}


def layer_norm_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """With a weight and a bias; without, it is left alone."""
    x, weight, bias = (torch.randn(*size, dtype=dtype) for size in ((2, 3, 4), (4,), (4,)))
    yield (x, [4], weight, bias), {}
    yield (x, [4]), {}


def group_norm_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Images with a weight and a bias; without, they are left alone."""
    x, weight, bias = (torch.randn(*size, dtype=dtype) for size in ((2, 4, 3, 3), (4,), (4,)))
    yield (x, 2, weight, bias), {}
    yield (x, 2), {}


def l2_norm_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """The last dimension, and the first, which is left alone."""
    x = torch.randn(3, 4, dtype=dtype)
    yield (x,), {"dim": -1}
    yield (x,), {"dim": 0}


def attention_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Without a mask, causal, and with shared heads."""
    q, k, v = (torch.randn(2, 4, 5, 8, dtype=dtype) for _ in range(3))
    yield (q, k, v), {}
    yield (q, k, v), {"is_causal": True}
    yield (q, k[:, :2].clone(), v[:, :2].clone()), {"enable_gqa": True, "scale": 0.5}
    yield (q[0].clone(), k[0].clone(), v[0].clone()), {}


def resize_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Multiples of the sizes; others are left alone."""
    x = torch.randn(1, 2, 3, 4, dtype=dtype)
    yield (x, [6, 12]), {}
    yield (x, [5, 4]), {}


def mirror_pad_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Images, and one without a batch, which is left alone."""
    yield (torch.randn(1, 2, 4, 5, dtype=dtype), [1, 2, 3, 0]), {}
    yield (torch.randn(2, 4, 5, dtype=dtype), [1, 2, 3, 0]), {}


def pack_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Four tensors, and three, which are left alone."""
    tensors = [torch.randn(2, 3, dtype=dtype) for _ in range(4)]
    yield (tensors, -1), {}
    yield (tensors[:3],), {}


def dynamic_update_slice_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Inside, and beyond the end."""
    x, update = torch.randn(3, 4, dtype=dtype), torch.randn(2, 2, dtype=dtype)
    for begin in ([1, 1], [2, 9]):
        yield (x, update, torch.tensor(begin, dtype=torch.int32)), {}


def bmm_samples(dtype: torch.dtype) -> Iterator[Sample]:
    """Of two heads."""
    yield (torch.randn(1, 2, 3, 4, dtype=dtype), torch.randn(1, 2, 5, 4, dtype=dtype)), {}
