"""examples/train_exported.py has PyTorch's losses, and goes on from its checkpoint."""

import copy
import runpy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_exported.py"


@pytest.mark.process
def test_losses_of_pytorch(tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLE))
    torch.manual_seed(0)
    model = example["Gpt"]()
    reference = copy.deepcopy(model)
    losses = example["train"](model, tmp_path, 20)

    optimizer = torch.optim.AdamW(reference.parameters(), lr=1e-3)
    expected = []
    for tokens, labels in example["batches"](20):
        optimizer.zero_grad()
        loss = reference(tokens, labels)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert len(losses) == 20
    assert losses == pytest.approx(expected, rel=1e-5)
    assert losses[-1] < losses[0]

    restored = copy.deepcopy(model)
    restored.load_state_dict(load_file(tmp_path / "checkpoint" / "model.safetensors"))
    with torch.no_grad():  # a key's bias has no gradient but rounding, which Adam follows
        actual, stock = (trained(tokens, labels).item() for trained in (restored, reference))
    assert actual == pytest.approx(stock, rel=1e-5)
    # A second run goes on where the first one ended.
    assert example["train"](model, tmp_path, 10)[0] < losses[0]
