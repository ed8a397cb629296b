"""`torch_xla.launch` with every composite on, as far as stock runs on the CPU: one process. With
CPU_NUM_DEVICES=2 and no SPMD, stock torch_xla 2.9 ends its process."""

import json
import sys
from pathlib import Path

import pytest
from composites_testing.processes import run

WORKER = """
import json
import torch, torch_xla, torch_xla.core.xla_model as xm, torch_xla.runtime as xr

def losses(seed):
    torch.manual_seed(seed)
    layers = torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    model = torch.nn.Sequential(*layers).to(torch_xla.device())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, classes = torch.randn(6, 8).to("xla"), torch.randint(0, 4, (6,)).to("xla")
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), classes)
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
        yield xm.all_reduce(xm.REDUCE_SUM, loss.detach()).item()

def worker(index, seed):
    import composites
    ours = list(losses(seed))
    calls = sum(entry.calls for entry in composites.stats().entries.values())
    composites.disable()
    print("result", json.dumps([index, xr.world_size(), calls, ours, list(losses(seed))]))

if __name__ == "__main__":
    torch_xla.launch(worker, args=(4,))
"""


@pytest.mark.exhaustive
def test_a_launched_process_trains_with_the_same_bits(tmp_path: Path) -> None:
    file = tmp_path / "worker.py"
    file.write_text(WORKER)
    done = run(sys.executable, str(file), PJRT_DEVICE="CPU", XLA_COMPOSITE_OP="all")
    lines = done.succeeded().stdout.splitlines()
    line = next(text for text in lines if text.startswith("result "))
    index, devices, calls, ours, stock = json.loads(line.removeprefix("result "))
    assert ours == stock
    assert (index, devices) == (0, 1)
    assert calls >= 3 * 6  # gelu, layer norm, the loss, and their backwards
