"""A training step on several devices, of one process and of two: the losses of one device."""

import json
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.modules import TwoLayers

import composites

SHARDINGS = {"first.*": ("model",), "second.weight": (None, "model"), "arg:*": ("data",)}
STEPS = 3

TRAIN = """
import json, os, sys
folder, processes, number, port, devices = sys.argv[1], *map(int, sys.argv[2:6])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
if processes > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", processes, number)
import numpy as np
from jax.sharding import Mesh
from composites import Program
program = Program.load(folder)
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
state = dict(np.load(folder + "/state.npz"))
losses = []
for _ in range(int(sys.argv[6])):
    results = program.run(state, mesh=mesh)
    losses.append(float(results["loss"]))
    state |= {v.updates: results[v.name] for v in program.outputs if v.updates}
shard = state["param:first.weight"].addressable_shards[0].data.shape

start = dict(np.load(folder + "/state.npz"))
batch = [start.pop(name) for name in ("arg:0", "arg:1")]
step = program.compile(mesh=mesh)
own, actual = step.init(start), []
for _ in losses:
    loss, own = step(own, *batch)
    actual.append(float(loss))
np.testing.assert_allclose(actual, losses, rtol=1e-6)
step.save(own, folder + "/checkpoint")
for name, value in step.load(folder + "/checkpoint").values.items():
    assert value.sharding == own.values[name].sharding, name
    for first, second in zip(value.addressable_shards, own.values[name].addressable_shards):
        assert np.array_equal(first.data, second.data), name
loss, _ = step(own, *batch)
again, _ = step(step.load(folder + "/checkpoint"), *batch)
assert float(loss) == float(again)
assert "torch" not in sys.modules
print("result", json.dumps([losses, len(jax.devices()), len(jax.local_devices()), shard]))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """A folder with a training step, and its losses on one device."""
    torch.manual_seed(0)
    model = TwoLayers(torch.nn.functional.cross_entropy)
    batch = (torch.randn(4, 8), torch.arange(4))
    optimizer = partial(torch.optim.AdamW, lr=1e-2)
    mesh = {"data": 2, "model": 2}
    program = composites.export(model, batch, optimizer=optimizer, mesh=mesh, shardings=SHARDINGS)
    folder = tmp_path_factory.mktemp("program")
    program.save(folder / "step")
    named = program.module_weights(model) | {"arg:0": batch[0], "arg:1": batch[1]}
    state: dict[str, Any] = {
        v.name: named[v.name].detach().numpy() if v.name in named else np.zeros(v.sizes, np.float32)
        for v in program.inputs
    }
    losses, now = [], dict(state)
    for _ in range(STEPS):
        results = program.run(now)
        losses.append(float(results["loss"]))
        now |= {v.updates: results[v.name] for v in program.outputs if v.updates}
    np.savez(folder / "state.npz", **state)
    return folder, losses


def train(folder: Path, processes: int, devices: int) -> list[tuple[list[float], int, int, list]]:
    """The output of each process."""
    subfolder = folder / f"of_{processes}"
    subfolder.mkdir()
    for file in (folder / "step").iterdir():
        (subfolder / file.name).symlink_to(file)
    (subfolder / "state.npz").symlink_to(folder / "state.npz")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", TRAIN, str(subfolder), str(processes), str(number)),
                *(str(port), str(devices), str(STEPS)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    try:
        reports = []
        for process in started:
            out, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors[-3000:]
            line = next(text for text in out.splitlines() if "result " in text)
            reports.append(json.loads(line.partition("result ")[2]))
        return reports
    finally:
        for process in started:
            process.kill()


@pytest.mark.process
@pytest.mark.parametrize(("processes", "devices"), [(1, 4), (2, 2)])
def test_losses_are_those_of_one_device(
    saved: tuple[Path, list[float]], processes: int, devices: int
) -> None:
    folder, losses = saved
    assert losses[-1] < losses[0]
    for actual, whole, own, shard in train(folder, processes, devices):
        np.testing.assert_allclose(actual, losses, rtol=1e-5)
        assert (whole, own) == (4, devices)
        assert shard == [8, 8]
