"""Live programs of several processes: DistributedDataParallel and FSDP2 around a compiled model."""

import copy
import socket
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import composites

PROCESSES = 2
STEPS = 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.down = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.norm(self.up(x))))


def sharded(model: nn.Module) -> nn.Module:
    mesh = init_device_mesh("cpu", (PROCESSES,))
    for part in (*model.children(), model):
        fully_shard(part, mesh=mesh)
    return model


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "data": DistributedDataParallel,
    "sharded": sharded,
}


def losses(model: nn.Module, call: Callable[[Tensor], Tensor], rank: int) -> list[float]:
    draws = torch.Generator().manual_seed(rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    result = []
    for _ in range(STEPS):
        x, y = (torch.randn(5, size, generator=draws) for size in (8, 4))
        optimizer.zero_grad()
        loss = F.mse_loss(call(x), y)
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def train(rank: int, wrapper: str, port: int, folder: Path) -> None:
    """Train a model in eager PyTorch and compiled, and write the losses."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("gloo", address, rank=rank, world_size=PROCESSES)
    torch.manual_seed(0)
    model = Block()
    eager, live = (WRAPPERS[wrapper](copy.deepcopy(model)) for _ in range(2))
    with composites.enabled("all"):
        trained = losses(live, torch.compile(live, backend="composites"), rank)
    torch.save((losses(eager, eager, rank), trained), folder / str(rank))
    assert composites.stats().entries["ptxla.gelu_backward"].calls
    distributed.destroy_process_group()


@pytest.mark.process
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_models_of_several_processes_train_as_in_eager(wrapper: str, tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    spawn(train, (wrapper, port, tmp_path), nprocs=PROCESSES)
    for rank in range(PROCESSES):
        expected, trained = torch.load(tmp_path / str(rank))
        torch.testing.assert_close(trained, expected, rtol=2e-6, atol=1e-7)
