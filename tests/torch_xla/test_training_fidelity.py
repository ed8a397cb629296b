"""Twenty steps of AdamW on a small transformer: composites change no bit of what is learned."""

import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from composites_testing.tensors import compilations, execute
from composites_testing.transformer import AttentionBlock
from composites_testing.written import written_composites
from torch import nn

import composites
from lowering.verification.bits import same_bits

STEPS = 20
TOKENS = 61


class Transformer(nn.Module):
    """A language model without a line of any library but PyTorch."""

    def __init__(self, layers: int = 2, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, width)
        self.blocks = nn.Sequential(*(AttentionBlock(width, heads, 0.1) for _ in range(layers)))
        self.head = nn.Linear(width, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.blocks(self.embedding(tokens)))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def both_ways(**forward: int) -> dict[str, int]:
    return {f"ptxla.{name}{way}": n for name, n in forward.items() for way in ("", "_backward")}


COMPOSITES = {
    **both_ways(gelu=2, softmax=2, dropout=2, layer_norm=4, cross_entropy_loss=1),
    "ptxla.embedding": 1,
    "ptxla.embedding_dense_backward": 1,
}
"""The composites of one step."""


def train() -> tuple[dict[str, torch.Tensor], str, int]:
    """Losses, gradients of the last step, weights and the optimizer's state; StableHLO of the first
    step's loss and gradients; and how many graphs were compiled."""
    torch.manual_seed(0)
    module = Transformer().to("xla").train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.97)
    execute(list(module.parameters()))
    compiled_before, stablehlo = compilations(), ""
    left: dict[str, torch.Tensor] = {}
    for step in range(STEPS):
        xm.set_rng_state(step)  # otherwise the dropout's seed is computed from all steps before
        optimizer.zero_grad()
        loss = module(torch.randint(TOKENS, (4, 16)).to("xla"))
        loss.backward()
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        stablehlo = stablehlo or xm.get_stablehlo([loss, *gradients])
        optimizer.step()
        scheduler.step()
        state = [t for s in optimizer.state.values() for t in s.values() if t.device.type == "xla"]
        execute([loss.detach(), *gradients, *module.parameters(), *state])
        left[f"loss {step}"] = loss.detach().cpu()
    for name, parameter in module.named_parameters():
        named = {"": parameter, "gradient of ": parameter.grad, **optimizer.state[parameter]}
        left |= {f"{kind}{name}": t.detach().cpu() for kind, t in named.items() if t is not None}
    return left, stablehlo, compilations() - compiled_before


def test_training_is_that_of_stock() -> None:
    stock, stock_text, stock_count = train()
    with composites.enabled("all"):
        ours, text, count = train()
    assert not written_composites(stock_text)
    assert written_composites(text) == COMPOSITES
    assert list(ours) == list(stock)
    assert [n for n, tensor in stock.items() if not same_bits(tensor, ours[n])] == []
    # Something was learned, and numbers that change with every step, the rate too, compile nothing.
    assert ours[f"loss {STEPS - 1}"] != ours["loss 0"]
    assert all(tensor.isfinite().all() for tensor in ours.values())
    assert 0 < count == stock_count < STEPS
