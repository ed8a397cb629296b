"""Train a small BERT on the XLA device: an ordinary script that does not use this project.

Run it as it is, or with composites in its graphs:

    python examples/train.py
    XLA_COMPOSITE_OP=gelu,softmax python examples/train.py
"""

import argparse

import torch
import torch_xla
from transformers import BertConfig, BertForMaskedLM


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--layers", type=int, default=2)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1024,
        hidden_size=128,
        num_hidden_layers=arguments.layers,
        num_attention_heads=4,
        intermediate_size=512,
    )
    model = BertForMaskedLM(config).to("xla").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(config.vocab_size, (4, 32)).to("xla")
    mask = torch.ones_like(tokens)

    for step in range(arguments.steps):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, attention_mask=mask, labels=tokens).loss
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
