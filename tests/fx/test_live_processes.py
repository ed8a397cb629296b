"""Live programs on several devices: DistributedDataParallel and FSDP2 around a compiled model, with
a process for each device, and meshes of one process."""

import copy
import pickle
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from composites_testing.plugins import cpu_plugin
from composites_testing.processes import run
from composites_testing.selection import only_fast
from jax.sharding import Mesh
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import composites
from lowering.live.devices import Devices
from lowering.live.exchange import remembered_copy
from lowering.live.strides import memory_order
from lowering.stablehlo.errors import RunError

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
        x, y = (torch.randn(8, size, generator=draws) for size in (8, 4))
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
@pytest.mark.parametrize("wrapper", only_fast(WRAPPERS, "sharded"))
def test_models_of_several_processes_train_as_in_eager(wrapper: str, tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    spawn(train, (wrapper, port, tmp_path), nprocs=PROCESSES)
    for rank in range(PROCESSES):
        expected, trained = torch.load(tmp_path / str(rank))
        torch.testing.assert_close(trained, expected, rtol=2e-6, atol=1e-7)


BATCH = {"arg:x": ("data",)}
MESHES: dict[str, dict[str, Any]] = {
    "batch": {"mesh": {"data": 4}, "shardings": BATCH},
    "batch and weights": {
        "mesh": {"data": 2, "model": 2},
        "shardings": {**BATCH, "up.*": ("model",), "down.weight": (None, "model")},
    },
    "another device": {},
}


def train_on_meshes(_: int) -> None:
    """Train a model in eager PyTorch, and compiled for each mesh."""
    MESHES["another device"]["mesh"] = Mesh(np.array(jax.devices()[1:2]), ("one",))
    torch.manual_seed(0)
    model = Block()
    eager = copy.deepcopy(model)
    expected = losses(eager, eager, 0)
    axes: set[str] = set()

    def pack(saved: Tensor) -> Tensor:
        if saved.is_meta:
            array = remembered_copy(saved, memory_order(saved))
            axes.update(axis for axis in array.sharding.spec if axis is not None)
        return saved

    for name, options in MESHES.items():
        torch.compiler.reset()
        axes.clear()
        live = copy.deepcopy(model)
        run = torch.compile(live, backend="composites", fullgraph=True, options=options)
        with (
            composites.enabled("all"),
            torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved),
        ):
            trained = losses(live, run, 0)
        torch.testing.assert_close(trained, expected, rtol=2e-6, atol=1e-7)
        assert axes == (set() if name == "another device" else {*options["mesh"]})
        x = torch.ones(4, 8, requires_grad=True)
        scaled = torch.compile(lambda x: x * x, backend="composites", options=options)
        result = scaled(x)
        with torch.no_grad():
            x.mul_(2)
        with pytest.raises(RunError, match="has been written to since the forward"):
            result.sum().backward()
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x.detach(), lambda x: x):
            result = scaled(x)
        with pytest.raises(RunError, match="a hook has replaced a tensor"):
            result.sum().backward()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block, self.norm = Block(), nn.BatchNorm1d(4)
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.first.weight = self.last.weight = nn.Parameter(torch.randn(4, 4).t())

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(self.norm(self.block(x))))


def trained(model: nn.Module, options: dict[str, Any], *, keeps: bool) -> tuple[Any, ...]:
    """The model, its state, and the optimizer's, after three compiled steps."""
    torch.compiler.reset()
    live = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(live.parameters(), lr=1e-2)
    state = composites.keep_on_devices(live, optimizer) if keeps else None
    run: Any = torch.compile(live, backend="composites", options=options)
    step: Any = torch.compile(
        optimizer.step, backend="composites", options={"mesh": options["mesh"]}
    )
    for x in torch.linspace(-1, 1, 192).reshape(3, 8, 8):
        optimizer.zero_grad()
        run(x).square().mean().backward()
        step()
    return live, state, live.state_dict(), optimizer.state_dict()


@contextmanager
def counted_copies() -> Iterator[list[torch.Size]]:
    """The sizes of the tensors that are copied to devices."""
    sizes: list[torch.Size] = []
    put = Devices._put

    def counted(tensor: Tensor, sharding: Any) -> Any:
        sizes.append(tensor.shape)
        return put(tensor, sharding)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Devices, "_put", staticmethod(counted))
        yield sizes


def keep_on_meshes(_: int) -> None:
    """Train a model on each mesh, kept there and not, and read the kept state."""
    MESHES["another device"]["mesh"] = Mesh(np.array(jax.devices("cpu")[1:2]), ("one",))
    MESHES["a plug-in"] = {"mesh": Mesh(np.array(jax.devices("acme")[:1]), ("one",))}
    model, x = Tied(), torch.ones(8, 8)
    for options in MESHES.values():
        expected = trained(model, options, keeps=False)
        live, state, *states = trained(model, options, keeps=True)
        torch.testing.assert_close(states, [*expected[2:]], rtol=0, atol=0)
        assert states[0]["first.weight"] is states[0]["last.weight"]
        compiled: Any = torch.compile(live.eval(), backend="composites", options=options)
        with counted_copies() as copied, torch.no_grad():
            result = compiled(x)
        assert copied == [x.shape]
        released = r"read it through state_dict\(\), or call to_host"
        with pytest.raises(RuntimeError, match=released):
            live(x)
        with pytest.raises(RuntimeError, match=released), torch.no_grad():
            live.first.weight.zero_()
        with pytest.raises(RuntimeError, match=released):
            pickle.dumps(live)
        state.to_host()
        torch.testing.assert_close(live(x), result)
        assert live.first.weight.stride() == (1, 4)
        torch.testing.assert_close(pickle.loads(pickle.dumps(live))(x), live(x))
        live.load_state_dict(model.state_dict())
        state.remove()
        torch.testing.assert_close(live(x), model.eval()(x))


@pytest.mark.process
def test_states_stay_on_meshes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    monkeypatch.setenv("PJRT_NAMES_AND_LIBRARY_PATHS", f"acme:{cpu_plugin()}")
    spawn(keep_on_meshes, nprocs=1)


KERNEL = """
import torch
import torch.nn.functional as F

def twice_gelu(x, *, approximate):
    return 2 * x

if __name__ == "__main__":
    import composites

    x = torch.tensor([0.0, 1.0, 2.0])
    with composites.enabled("gelu"):
        for platform in ("cpu", "acme"):
            torch.compiler.reset()
            run = torch.compile(F.gelu, backend="composites", options={"platform": platform})
            print(platform, torch.equal(run(x), 2 * x))
"""


@pytest.mark.process
def test_kernels_of_a_plugin(tmp_path: Path) -> None:
    """A kernel that is listed for a plug-in runs on its device alone, though the device says that
    it is a CPU."""
    script, registry = tmp_path / "acme_kernels.py", tmp_path / "acme.yaml"
    script.write_text(KERNEL)
    listed = "kernels:\n  ptxla.gelu: {acme: [{function: 'acme_kernels:twice_gelu'}]}\n"
    registry.write_text(f"schema: 2\nnamespace: acme\ncomposites: {{}}\n{listed}")
    done = run(
        sys.executable,
        str(script),
        PJRT_NAMES_AND_LIBRARY_PATHS=f"acme:{cpu_plugin()}",
        XLA_COMPOSITE_REGISTRY=str(registry),
    )
    assert done.succeeded().stdout.splitlines() == ["cpu False", "acme True"]


@pytest.mark.process
def test_models_on_meshes_train_as_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    spawn(train_on_meshes, nprocs=1)
