"""Models of the transformers library and a U-Net block, small, with random weights and a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

BATCH, LENGTH, VOCABULARY, WIDTH, HEADS = 2, 16, 128, 64, 4


@dataclass(frozen=True, slots=True)
class Model:
    """A module, what it is trained on, and its loss."""

    module: nn.Module
    batch: Mapping[str, Tensor]
    loss: Callable[[nn.Module, Mapping[str, Tensor]], Tensor]


def _own_loss(module: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    loss: Tensor = module(**batch).loss
    return loss


def _tokens() -> Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, LENGTH))


def bert() -> Model:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=2 * WIDTH,
    )
    tokens = _tokens()
    return Model(BertForMaskedLM(config), {"input_ids": tokens, "labels": tokens}, _own_loss)


def gpt2() -> Model:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LENGTH,
        n_embd=WIDTH,
        n_layer=2,
        n_head=HEADS,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    tokens = _tokens()
    return Model(GPT2LMHeadModel(config), {"input_ids": tokens, "labels": tokens}, _own_loss)


def llama() -> Model:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        intermediate_size=2 * WIDTH,
        use_cache=False,
    )
    tokens = _tokens()
    return Model(LlamaForCausalLM(config), {"input_ids": tokens, "labels": tokens}, _own_loss)


def t5() -> Model:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=2 * WIDTH,
        num_layers=2,
        num_heads=HEADS,
        decoder_start_token_id=0,
        use_cache=False,
    )
    tokens = _tokens()
    batch = {"input_ids": tokens, "labels": tokens}
    return Model(T5ForConditionalGeneration(config), batch, _own_loss)


def vit() -> Model:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=32,
        patch_size=8,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=2 * WIDTH,
        num_labels=5,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    batch = {"pixel_values": torch.randn(BATCH, 3, 32, 32), "labels": torch.randint(5, (BATCH,))}
    return Model(ViTForImageClassification(config), batch, _own_loss)


def unet() -> Model:
    def loss(module: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        return functional.mse_loss(module(batch["sample"], batch["time"]), batch["noise"])

    sample = torch.randn(BATCH, WIDTH, 8, 8)
    batch = {
        "sample": sample,
        "time": torch.randn(BATCH, WIDTH),
        "noise": torch.randn(BATCH, WIDTH, 16, 16),
    }
    return Model(UNetBlock(WIDTH), batch, loss)


class ResidualBlock(nn.Module):
    """Two normed convolutions with the time embedding in between, as diffusers has them."""

    def __init__(self, channels: int, groups: int = 8) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(channels, channels)
        self.norm2 = nn.GroupNorm(groups, channels)
        self.dropout = nn.Dropout(0.1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, sample: Tensor, time: Tensor) -> Tensor:
        hidden = self.conv1(functional.silu(self.norm1(sample)))
        hidden = hidden + self.time(functional.silu(time))[:, :, None, None]
        hidden = self.conv2(self.dropout(functional.silu(self.norm2(hidden))))
        return sample + hidden


class SelfAttention(nn.Module):
    """Attention over the pixels of `[B, C, H, W]`."""

    def __init__(self, channels: int, heads: int = HEADS, groups: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(groups, channels)
        self.query, self.key, self.value, self.out = (
            nn.Linear(channels, channels) for _ in range(4)
        )

    def forward(self, sample: Tensor) -> Tensor:
        batch, channels, height, width = sample.shape
        hidden = self.norm(sample).flatten(2).transpose(1, 2)
        split = [
            layer(hidden).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        ]
        attended = functional.scaled_dot_product_attention(*split)
        attended = self.out(attended.transpose(1, 2).flatten(2))
        return sample + attended.transpose(1, 2).reshape(batch, channels, height, width)


class UNetBlock(nn.Module):
    """The middle and the first upward step of a diffusion U-Net."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before = ResidualBlock(channels)
        self.attention = SelfAttention(channels)
        self.after = ResidualBlock(channels)
        self.up = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, sample: Tensor, time: Tensor) -> Tensor:
        hidden = self.after(self.attention(self.before(sample, time)), time)
        hidden = functional.interpolate(hidden, scale_factor=2.0, mode="nearest")
        up: Tensor = self.up(hidden)
        return up


MODELS: Mapping[str, Callable[[], Model]] = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "t5": t5,
    "vit": vit,
    "unet": unet,
}
