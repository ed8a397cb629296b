"""The middle and the first upward step of a diffusion U-Net."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


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
        result: Tensor = sample + hidden
        return result


class SelfAttention(nn.Module):
    """Attention over the pixels of `[B, C, H, W]`."""

    def __init__(self, channels: int, heads: int = 4, groups: int = 8) -> None:
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
        result: Tensor = sample + attended.transpose(1, 2).reshape(batch, channels, height, width)
        return result


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


class UNetLoss(nn.Module):
    """A block of a U-Net, with its loss."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.block = UNetBlock(channels)

    def forward(self, sample: Tensor, time: Tensor, noise: Tensor) -> Tensor:
        return functional.mse_loss(self.block(sample, time), noise)


def unet(channels: int = 64, size: int = 32, images: int = 4) -> tuple[UNetLoss, dict[str, Tensor]]:
    """The block with its loss, and a batch; attention is over all pixels of an image."""
    sample, noise = (torch.randn(images, channels, s, s) for s in (size, 2 * size))
    batch = {"sample": sample, "time": torch.randn(images, channels), "noise": noise}
    return UNetLoss(channels), batch
