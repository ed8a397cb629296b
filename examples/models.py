"""Factories for `composites export`: small models with random weights."""

import torch
from torch import nn


def bert() -> tuple[nn.Module, tuple[()], dict[str, torch.Tensor]]:
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
