"""Train an exported step with jax: data, progress, metrics and checkpoints as in a PyTorch loop.

    python examples/train_exported.py                 # trains 20 steps
    python examples/train_exported.py --steps 40      # goes on from the checkpoint

PyTorch makes the program and the data. The loop itself needs neither torch nor torch_xla.
"""

import argparse
from functools import partial
from pathlib import Path

import torch
from rich.progress import track

import composites


class Gpt(torch.nn.Module):
    """A small causal language model that returns its loss."""

    def __init__(self, vocabulary: int = 64, width: int = 32, length: int = 16) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Parameter(torch.zeros(length, width))
        self.block = torch.nn.TransformerEncoderLayer(
            width, 2, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], tokens.device)
        hidden = self.tokens(tokens) + self.positions
        hidden = self.block(hidden, src_mask=mask, is_causal=True)
        logits = self.head(self.norm(hidden))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def batches(count: int) -> torch.utils.data.DataLoader:
    """Sequences that count up by one number each, and the tokens that follow."""
    starts, pace = torch.arange(count * 8) % 61, 1 + torch.arange(count * 8) % 5
    text = (starts[:, None] + pace[:, None] * torch.arange(17)) % 64
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(text[:, :-1], text[:, 1:]), batch_size=8
    )


def train(model: torch.nn.Module, folder: Path, steps: int) -> list[float]:
    """Train from the checkpoint in the folder, or from the start, and return the losses."""
    data = list(batches(steps))
    optimizer = partial(torch.optim.AdamW, lr=1e-3)
    program = composites.export(model, data[0], optimizer=optimizer)
    step = program.compile(cache=folder / "compiled")
    checkpoint, losses = folder / "checkpoint", []
    state = step.load(checkpoint) if checkpoint.exists() else step.init(model)
    for number, (tokens, labels) in enumerate(track(data, "training")):
        loss, state = step(state, tokens, labels)
        losses.append(float(loss))
        if number % 10 == 9:
            print(f"step {number + 1}: loss {sum(losses[-10:]) / 10:.4f}")
            step.save(state, checkpoint)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=Path("exported"))
    arguments = parser.parse_args()

    torch.manual_seed(0)
    train(Gpt(), arguments.folder, arguments.steps)


if __name__ == "__main__":
    main()
