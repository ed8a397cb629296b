"""The benchmark for GPUs on a machine without one: programs, rows, refusals, and tiny runs in
interpret mode."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import pytest
from composites_testing.processes import run

from benchmarks import gpu_kernels
from benchmarks.gpu_kernels import CALLS_HEAD, TRAINING_HEAD, Call, Table, Trained
from benchmarks.kernel_cases import cross_entropy
from composites.registry.kernels import listed_in

REPOSITORY = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "benchmarks.kernels", "--device", "cuda")
HAS_GPU = any(device.platform == "gpu" for device in jax.devices())

EXPORTS = """
import sys
from functools import partial
from pathlib import Path
import torch
import composites
from benchmarks import gpu_kernels
from benchmarks.kernel_cases import cross_entropy
from benchmarks.training_steps import causal_gpt

folder = Path(sys.argv[1])
gpu_kernels.of_case(cross_entropy(3, 1001)).save(folder / "loss")
gpu_kernels.of_case(gpu_kernels.rms_norm_case(3, 40)).save(folder / "norm")
gpu_kernels.adamw(20).save(folder / "adamw")
module, batch = causal_gpt(16, 1001, 64, 1)
optimizer = partial(torch.optim.AdamW, lr=1e-3)
composites.export(module, (), kwargs=dict(batch), optimizer=optimizer).save(folder / "gpt")
"""

MEASURES = """
import json, sys
from dataclasses import asdict
from pathlib import Path
sys.modules["torch_xla"] = None  # as on a machine without it
from benchmarks import gpu_kernels
from composites import Program

gpu_kernels.use_package()
from gpu_kernels.pallas import interpreted
folder = Path(sys.argv[1])
programs = {name: Program.load(folder / name) for name in ("loss", "norm", "adamw", "gpt")}
with interpreted():
    calls = [
        asdict(call)
        for name in ("loss", "norm", "adamw")
        for call in gpu_kernels.measured_calls(name, programs[name], 0.01, "cpu")
    ]
    trained = gpu_kernels.measured_training(
        gpu_kernels.Training("tiny", lambda: programs["gpt"], calls=False),
        programs["gpt"], 0.01, "cpu",
    )
    alone = gpu_kernels.measured_training(
        gpu_kernels.Training("tiny", lambda: programs["loss"]), programs["loss"], 0.01, "cpu"
    )
print(json.dumps([calls, asdict(trained), asdict(alone)]))
"""


@pytest.mark.exhaustive
def test_a_tiny_run_without_torch_xla(tmp_path: Path) -> None:
    exported = run(*(sys.executable, "-c", EXPORTS, str(tmp_path)), cwd=REPOSITORY)
    assert exported.code == 0, exported.stderr
    measured = run(*(sys.executable, "-c", MEASURES, str(tmp_path)), cwd=REPOSITORY)
    assert measured.code == 0, measured.stderr
    calls, trained, alone = json.loads(measured.stdout.splitlines()[-1])
    assert [call["composite"] for call in calls] == [
        "ptxla.cross_entropy_loss",
        "ptxla.cross_entropy_loss_backward",
        "ptxla.rms_norm",
        "ptxla.rms_norm_backward",
        "ptxla.adamw",
    ]
    for call in calls:
        assert call["difference"] < (2e-2 if "rms_norm" in call["composite"] else 2e-6)
        assert call["kernel"] > 0
    for found in (trained, alone):
        assert found["times"].keys() == {"decompositions", "kernels"}


def test_cells_have_ratios_and_bars() -> None:
    call = Call("loss", "ptxla.cross_entropy_loss", 0.4, 0.05, 1e-7)
    assert call.cells[2:] == ("400 ms", "50.0 ms", "8.00", "1.0e-07")
    times = {"decompositions": 0.5, "kernels": 0.1, "PyTorch": 0.2, "PyTorch, flash": 0.08}
    row = Trained("attention", times, 3.0, 0.9).cells
    assert row == (
        *("attention", "500 ms", "100 ms", "200 ms", "80.0 ms"),
        *("5.00", "3 met", "0.80", "0.9 missed"),
    )
    without = Trained("attention", {"decompositions": 0.2, "kernels": 0.1}, 3.0, 0.9).cells
    assert without[3:] == ("", "", "2.00", "3 missed", "", "")
    assert (len(call.cells), len(row)) == (len(CALLS_HEAD), len(TRAINING_HEAD))
    table = Table("Single calls", CALLS_HEAD)
    table.add(call.cells)
    assert len({line.count(" | ") for line in table.lines if line.startswith("| ")}) == 1


def test_every_kernel_has_a_case() -> None:
    registry = REPOSITORY / "examples/gpu_kernels/src/gpu_kernels/registry.yaml"
    listed = {kernel.composite for kernel in listed_in(registry)}
    cases = [gpu_kernels.attention_case(16), gpu_kernels.rms_norm_case(2, 8)]
    programs = [gpu_kernels.of_case(case) for case in cases]
    programs += [gpu_kernels.of_case(cross_entropy(2, 8)), gpu_kernels.adamw(2)]
    assert listed <= {name for program in programs for name in program.composites}
    # These are small ones of the cases that are measured.
    kinds = {name.partition("-")[0] for name in gpu_kernels.CASES}
    assert kinds == {"attention", "gpt", "loss", "norm", "adamw"}


def test_the_bars_are_those_of_attention() -> None:
    bars = {name: case.bar for name, case in gpu_kernels.CASES.items() if case.bar is not None}
    shares = {name for name, case in gpu_kernels.CASES.items() if case.flash_bar is not None}
    assert bars == {"attention-4096": 3.0}
    assert shares == {"attention-1024", "attention-2048", "attention-4096"}


def test_programs_that_were_not_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_kernels, "use_package", lambda: None)
    monkeypatch.setattr(gpu_kernels, "_device", lambda: "a GPU")
    with pytest.raises(SystemExit, match="norm is missing; write it with --prepare"):
        gpu_kernels.measure(["norm"], prepared=tmp_path, seconds=0.01, minutes=1)


def test_programs_are_prepared(tmp_path: Path) -> None:
    prepared = run(*COMMAND, "--prepare", str(tmp_path), "--names", "adamw", cwd=REPOSITORY)
    assert prepared.code == 0, prepared.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["adamw"]


def test_without_a_gpu_the_error_says_so() -> None:
    if HAS_GPU:
        found = run(*COMMAND, "--names", "adamw", "--seconds", "0.01", cwd=REPOSITORY)
        assert "AdamW 4096x4096 | ptxla.adamw" in found.stdout
        return
    found = run(*COMMAND, cwd=REPOSITORY)
    assert found.code == 1
    assert "--device cuda needs an NVIDIA GPU; nothing was measured" in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""


def test_no_number_of_a_gpu_is_written() -> None:
    """Nobody has measured: times are what the benchmark prints."""
    text = (REPOSITORY / "examples/gpu_kernels/README.md").read_text(encoding="utf-8")
    assert " ms" not in text
    assert "nothing was measured" in text.lower()
