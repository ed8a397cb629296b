"""Samples of the decompositions to choose in kernels.yaml: several blocks, and the remainder.

The function with an entry's name yields calls that the entry's decompositions take.
"""

from collections.abc import Iterator
from functools import partial

import torch

from composites.operators.samples import Call, one_operand, random, table

softmax_backward = table(
    "3x5x64 -1 False", "2x70x197 2 False", "40x1000 1 False", "24x4096 -1 False"
)
log_softmax_backward = softmax_backward
layer_norm = table(
    "2x70x768 [768] x768 x768 1e-5",
    "600x384:far [384] None None 1e-5",
    "24x4096 [4096] x4096 x4096 1e-5",
)
rms_norm = table("2x70x768 [768] x768 1e-6", "600x384:shifted [384]", "24x4096 [4096] None 1e-6")
_norm = partial(one_operand, sizes="2x70x768", eps=1e-5)
llama_rms_norm = _norm("models.llama.modeling_llama:LlamaRMSNorm", 768)
t5_rms_norm = _norm("models.t5.modeling_t5:T5LayerNorm", 768)
olmo2_rms_norm = _norm("models.olmo2.modeling_olmo2:Olmo2RMSNorm", 768)
# With so many pixels, the biased variance, as in torch_xla's moving average, does not differ from
# the unbiased variance.
batch_norm_training = table(
    "16x16x48x54 x16 x16 x16:plain x16:positive True 0.1 1e-5 False",
    "64x16x28x28:near None None x16:plain x16:positive True 0.1 1e-5 False",
)


def cross_entropy_loss(dtype: torch.dtype) -> Iterator[Call]:
    for ignored, named in (
        (-100, ""),
        (3, "reduction=2 ignore_index=3"),
        (-100, "reduction=0 label_smoothing=0.1"),
        (-100, "weight=x5000:positive label_smoothing=0.0|0.2"),
    ):
        target = torch.randint(0, 5000, (230,))
        target[::9] = ignored
        yield from table(f"230x5000 @target {named}", target=target)(dtype)


def linear_cross_entropy(dtype: torch.dtype) -> Iterator[Call]:
    """Yield calls with more than one block of classes."""
    weight = (random(12001, 24) / 4).to(dtype).requires_grad_()
    for rows, bias, reduction, ignored, smoothing in (
        ("230", None, 1, -100, 0.0),
        ("3x70", "x12001", 2, 3, 0.0),
        ("2x5x20", "x12001", 0, -100, 0.1),
        ("210", None, 1, 3, 0.2),
    ):
        target = torch.randint(0, 12001, [int(size) for size in rows.split("x")])
        target[..., ::9] = ignored
        row = f"{rows}x24 @weight @target {bias} {reduction} {ignored} {smoothing}"
        yield from table(row, weight=weight, target=target)(dtype)


def scaled_dot_product_attention(dtype: torch.dtype) -> Iterator[Call]:
    """Yield calls with lengths that are not whole blocks, and with masks of all forms."""
    masked = torch.rand(1, 1, 300, 300) > 0.5
    masked[..., :7, :] = False  # these rows have no keys
    return table(
        f"{_heads(512, 512)} is_causal=True",
        f"{_heads(300, 257)} scale=0.3",
        f"{_heads(700, 100)} is_causal=True",
        f"{_heads(90, 800)} is_causal=True",
        f"{_heads(300, 300)} attn_mask=@masked",
        f"{_heads(260, 300)} attn_mask=2x260x300:plain",
        f"{_heads(300, 300)} attn_mask=1x300:mask",
        f"{_heads(300, 300, 1)} is_causal=True enable_gqa=True",
        masked=masked,
    )(dtype)


def _heads(length: int, keys: int, heads: int = 2) -> str:
    return f"1x2x{length}x8 1x{heads}x{keys}x8 1x{heads}x{keys}x12"


# Long calls, with lengths that are not multiples of the number of blocks.
causal_attention = table(
    f"{_heads(1024, 1024)} is_causal=True",
    f"{_heads(1030, 1030)} is_causal=True scale=0.3",
    f"{_heads(1025, 1100)} is_causal=True",
    f"{_heads(1030, 1100, 1)} is_causal=True enable_gqa=True",
)


def embedding_dense_backward(dtype: torch.dtype) -> Iterator[Call]:
    """Yield calls of `aten::embedding` with repeated indices."""
    for shape, padding in (((200,), -1), ((5, 30), 3)):
        indices = torch.randint(0, 40, shape) * 100
        indices[..., ::7] = max(padding, 0)
        yield from table(f"4096x256 @indices {padding}", indices=indices)(dtype)


def topk(dtype: torch.dtype) -> Iterator[Call]:
    """Yield calls without equal elements, of which `topk` may choose any."""
    for shape, named in (
        ((300, 8), "k=2"),
        ((3, 90, 100), "k=8 largest=False"),
        ((256, 5), "k=5 dim=1"),
    ):
        order = torch.rand(*shape).argsort(-1)
        yield from table(f"@x {named}", x=(order - shape[-1] / 2).to(dtype))(dtype)


int8_weight_only_linear = table("1x1024|1x1x1024 1024x1024:i8 1024x1:scale|1x1:scale x1024|None")
max_pool2d = table(
    "2x4x120x120 2",
    "2x4x121x123 2 2 1",
    "2x4x120x121 3 2 1",
    "2x4x112x112 3 1 1",
    "2x4x112x112 [2,3] [3,2]",
)
# Images are resampled by whole and by other factors.
_WHOLE = ("2x3x4x5 [8,10]", "2x3x6x4 [18,4]", "2x3x3x3 [12,6]", "2x3x2x300 [4,600]")
upsample_nearest2d = table(*_WHOLE, "2x3x4x4 [8,12] 2.0 3.0")
upsample_bilinear2d = table(
    *(f"{row} False|True" for row in (*_WHOLE, "2x3x7x5 [10,9]", "2x3x9x300 [5,303]")),
    "2x3x4x4 [8,12] False 2.0 3.0",
)
upsample_bilinear2d_backward = upsample_bilinear2d
upsample_bicubic2d = table(
    "2x3x4x5 [8,10] False|True", "2x3x9x5 [5,9] False|True", "2x3x14x14 [16,16] False|True"
)


def grid_sampler_2d(dtype: torch.dtype) -> Iterator[Call]:
    """Yield calls with points outside the image."""
    grid = (torch.rand(2, 5, 7, 2) * 5 - 2.5).to(dtype).requires_grad_()
    return table("2x3x6x9 @grid 0 0|1|2 False|True", grid=grid)(dtype)
