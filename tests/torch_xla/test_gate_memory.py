"""Rotary embedding and SwiGLU keep their inputs only: a training step needs no more memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from composites_testing.processes import run_python

STEP = """
import torch
import torch_xla
from transformers import LlamaConfig, LlamaForCausalLM
import composites

names = NAMES
config = LlamaConfig(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, intermediate_size=256, use_cache=False)
torch.manual_seed(0)
model = LlamaForCausalLM(config).to("xla").train()
tokens = torch.randint(3, 64, (1, 256)).to("xla")
torch_xla.sync()
if names:
    composites.enable(*names)
model(input_ids=tokens, labels=tokens).loss.backward()
torch_xla.sync()
print(sorted(n for n, entry in composites.stats().entries.items() if entry.calls))
"""


def bytes_of_step(folder: Path, *names: str) -> int:
    """Of all buffers of the largest program, as XLA counts them."""
    script = STEP.replace("NAMES", repr(names))
    done = run_python(script, XLA_FLAGS=f"--xla_dump_to={folder} --xla_dump_hlo_as_text")
    expected = sorted(f"ptxla.{name}" for name in names)
    assert done.stdout.splitlines()[-1:] == [str(expected)], done.stderr
    reports = [path.read_text() for path in folder.glob("*memory-usage-report.txt")]
    found = [re.search(r"Total bytes used: (\d+)", report) for report in reports]
    return max(int(match[1]) for match in found if match)


@pytest.mark.exhaustive  # two processes, which load transformers
def test_a_step_of_llama_needs_no_more_memory_than_stocks(tmp_path: Path) -> None:
    stock = bytes_of_step(tmp_path / "stock")
    ours = bytes_of_step(tmp_path / "ours", "rotary_embedding", "swiglu")
    assert ours <= stock
