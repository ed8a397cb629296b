"""A small GPT trains to the same loss with the faster decompositions as with stock torch_xla."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch_xla
from composites_testing.decompositions import decompositions_since

import composites

ATTENTION, LOSS = "ptxla.scaled_dot_product_attention", "ptxla.linear_cross_entropy"
LENGTH, VOCABULARY, STEPS = 320, 512, 200
TOLERANCE = 1e-4


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    composites.disable()
    yield
    composites.disable()


def losses() -> list[float]:
    """The loss of each step. Tokens are sums of small random numbers, which a model can learn."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=2, attn_pdrop=0.0,
        resid_pdrop=0.0, embd_pdrop=0.0, use_cache=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model: torch.nn.Module = GPT2LMHeadModel(config)
    model = model.to("xla").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 8, (8, LENGTH)).cumsum(1) % VOCABULARY
    found = []
    for step in range(STEPS):
        batch = tokens[step % 8].unsqueeze(0).to("xla")
        optimizer.zero_grad()
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        found.append(loss.detach())
    return [float(loss) for loss in found]


@pytest.mark.exhaustive
def test_two_hundred_steps_of_a_small_gpt() -> None:
    stock = losses()
    composites.enable("all", decompositions="fast")
    before = composites.stats().entries
    fast = losses()
    assert "blockwise_long, backward" in decompositions_since(before, ATTENTION)
    assert "in_rows" in decompositions_since(before, LOSS)
    assert stock[-1] < stock[0] / 3
    assert abs(fast[-1] - stock[-1]) < TOLERANCE
