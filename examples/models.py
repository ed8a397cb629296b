"""Factories for `composites export`: small models with random weights and a loss."""

from typing import Any

import torch
from torch import nn

Example = tuple[nn.Module, tuple[Any, ...], dict[str, torch.Tensor]]
"""A module, and the arguments and keyword arguments of an example call."""


def bert() -> Example:
    """A small BERT with a masked-language-model loss; `--train` exports its training step."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=128,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
    )
    tokens = torch.randint(config.vocab_size, (2, 8))
    return BertForMaskedLM(config), (), {"input_ids": tokens, "labels": tokens}


def gpt2() -> Example:
    """A small GPT-2 with a next-token loss."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=128,
        n_positions=16,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
        activation_function="gelu_pytorch_tanh",  # the same numbers as "gelu_new", one operator
    )
    tokens = torch.randint(config.vocab_size, (2, 8))
    # A tokenizer also returns a mask. Without one, transformers looks for packed sequences in the
    # positions, and uses an unsigned running sum that IREE 3.13 cannot compile.
    mask = torch.ones_like(tokens)
    return (
        GPT2LMHeadModel(config),
        (),
        {"input_ids": tokens, "attention_mask": mask, "labels": tokens},
    )


def vit() -> Example:
    """A small vision transformer that classifies images."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=16,
        patch_size=4,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=5,
    )
    images, labels = torch.randn(2, 3, 16, 16), torch.randint(config.num_labels, (2,))
    return ViTForImageClassification(config), (images,), {"labels": labels}


def conv_net() -> Example:
    """A small convolutional net; batch norm updates its buffers in a training step."""
    images, labels = torch.randn(4, 3, 16, 16), torch.randint(5, (4,))
    return ConvNet(classes=5), (images,), {"labels": labels}


class ConvNet(nn.Module):
    """Convolutions with batch norm. With labels, it returns the loss first."""

    def __init__(self, classes: int, width: int = 8) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.Hardswish(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.classifier = nn.Linear(2 * width, classes)

    def forward(
        self, images: torch.Tensor, labels: torch.Tensor | None = None
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        logits = self.classifier(self.features(images))
        if labels is None:
            return logits
        return nn.functional.cross_entropy(logits, labels), logits
