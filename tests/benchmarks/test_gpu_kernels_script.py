"""The benchmark for GPUs on a machine without one: programs, rows, refusals, and tiny runs in
interpret mode."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from composites_testing.devices import HAS_GPU
from composites_testing.processes import run

from benchmarks import gpu_kernels
from benchmarks.gpu_kernels import CALLS_HEAD, TRAINING_HEAD, Call, Measured, Trained
from benchmarks.kernel_cases import cross_entropy
from composites import Program
from composites.registry.kernels import listed_in

REPOSITORY = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "benchmarks.kernels", "--device", "cuda")

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
        gpu_kernels.Training("tiny", lambda _: programs["gpt"], calls=False),
        {"stock": programs["gpt"]}, 0.01, "cpu",
    )
    alone = gpu_kernels.measured_training(
        gpu_kernels.Training("tiny", lambda _: programs["loss"]),
        {"stock": programs["loss"], "fast": programs["loss"]}, 0.01, "cpu",
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
    assert trained["times"].keys() == trained["temporary"].keys() == {"decompositions", "kernels"}
    assert all(size > 0 for size in trained["temporary"].values())
    assert alone["times"].keys() == {"decompositions", "fast decompositions", "kernels"}


def test_cells_have_ratios_and_bars() -> None:
    call = Call("loss", "ptxla.cross_entropy_loss", 0.4, 0.05, 1e-7)
    assert call.cells[2:] == ("400 ms", "50.0 ms", "8.00", "1.0e-07")
    times = {
        "decompositions": 0.5,
        "fast decompositions": 0.4,
        "kernels": 0.1,
        "PyTorch": 0.2,
        "PyTorch, flash": 0.08,
    }
    temporary = {"decompositions": 4_000_000_000, "kernels": 1_400_000}
    row = Trained("attention", times, temporary, 3.0, 0.9, 2.0).cells
    assert row == (
        *("attention", "500 ms", "400 ms", "100 ms", "200 ms", "80.0 ms"),
        *("5.00", "3 met", "0.80", "0.9 missed", "1.25", "2 missed", "4,000", "", "1"),
    )
    times = {"decompositions": 0.0002, "kernels": 0.0001}
    assert Trained("attention", times, bar=3.0, flash_bar=0.9).cells == (
        *("attention", "200 µs", "", "100 µs", "", ""),
        *("2.00", "3 missed", "", "", "", "", "", "", ""),
    )
    assert (len(call.cells), len(row)) == (len(CALLS_HEAD), len(TRAINING_HEAD))


def test_durations_have_three_digits() -> None:
    found = [gpu_kernels.duration(seconds) for seconds in (2e-6, 9.4e-5, 0.9996e-3, 0.123, 2.1)]
    assert found == ["2.00 µs", "94.0 µs", "1.00 ms", "123 ms", "2.10 s"]


def test_a_page_names_what_was_not_measured() -> None:
    cells = Call("a norm", "ptxla.rms_norm", 0.4, 0.05, 1e-7).cells
    page = gpu_kernels.page([Measured("a GPU.", "norm", [("calls", cells)])])
    assert "\na GPU.\n" in page
    assert f"| {' | '.join(cells)} |" in page
    assert "## Training" not in page
    *_, left = page.splitlines()
    assert left.startswith("Not measured: attention 4x16x1024x64, causal, bf16,")
    assert "AdamW 4096x4096" in left
    assert gpu_kernels.CASES["norm"].name not in left


def test_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_kernels, "use_package", lambda: None)
    monkeypatch.setattr(gpu_kernels, "_device", lambda: "a GPU.")
    begun = []

    def rows(name: str, *_: object) -> list[tuple[str, tuple[str, ...]]]:
        begun.append(name)
        return [("calls", (name, "1.00 ms"))]

    monkeypatch.setattr(gpu_kernels, "_rows", rows)
    results = tmp_path / "results"
    for names in (["norm"], ["norm", "loss"]):
        found = gpu_kernels.measure(names, prepared=None, seconds=0.01, minutes=1, results=results)
    assert begun == ["norm", "loss"]
    assert [one.name for one in found] == begun
    assert gpu_kernels.page(gpu_kernels.read(results)) == gpu_kernels.page(found)
    gpu_kernels.measure(["adamw"], prepared=None, seconds=0.01, minutes=-1, results=results)
    assert capsys.readouterr().out.endswith("Not measured: AdamW 4096x4096\n")
    monkeypatch.setattr(gpu_kernels, "_device", lambda: "another GPU.")
    with pytest.raises(
        SystemExit, match=r"is from another machine, a GPU\. This is another GPU\. Name another"
    ):
        gpu_kernels.measure(["adamw"], prepared=None, seconds=0.01, minutes=1, results=results)


def test_every_kernel_has_a_case() -> None:
    registry = REPOSITORY / "examples/gpu_kernels/src/gpu_kernels/registry.yaml"
    listed = {kernel.composite for kernel in listed_in(registry)}
    cases = [gpu_kernels.attention_case(16), gpu_kernels.rms_norm_case(2, 8)]
    programs = [gpu_kernels.of_case(case) for case in cases]
    programs += [gpu_kernels.of_case(cross_entropy(2, 8)), gpu_kernels.adamw(2)]
    assert listed <= {name for program in programs for name in program.composites}
    # These are small ones of the cases that are measured.
    kinds = {name.partition("-")[0] for name in gpu_kernels.CASES}
    assert kinds == {"attention", "gpt", "loss", "norm", "adamw", "alternative"}


def test_the_bars_are_those_of_attention() -> None:
    bars = {name: case.bar for name, case in gpu_kernels.CASES.items() if case.bar is not None}
    shares = {name for name, case in gpu_kernels.CASES.items() if case.flash_bar is not None}
    assert bars == {"attention-4096": 3.0}
    fast = {name: case.fast_bar for name, case in gpu_kernels.CASES.items() if case.fast_bar}
    assert fast == {"attention-4096": 2.0}
    assert shares == {"attention-1024", "attention-2048", "attention-4096"}


def test_programs_that_were_not_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_kernels, "use_package", lambda: None)
    monkeypatch.setattr(gpu_kernels, "_device", lambda: "a GPU")
    with pytest.raises(SystemExit, match="norm is missing; write it with --prepare"):
        gpu_kernels.measure(["norm"], prepared=tmp_path, seconds=0.01, minutes=1)


def test_programs_are_prepared(tmp_path: Path) -> None:
    names = "adamw|attention-1024"
    prepared = run(*COMMAND, "--prepare", str(tmp_path), "--names", names, cwd=REPOSITORY)
    assert prepared.code == 0, prepared.stderr
    found = {path.name: Program.load(path) for path in tmp_path.iterdir()}
    assert found.keys() == {"adamw", "attention-1024", "attention-1024-fast"}
    assert found["attention-1024"].mlir != found["attention-1024-fast"].mlir


def test_without_a_gpu_the_error_says_so() -> None:
    if HAS_GPU:
        found = run(*COMMAND, "--names", "norm", "--seconds", "0.01", cwd=REPOSITORY)
        assert "rms norm 16384x4096, bf16 | ptxla.rms_norm" in found.stdout
        return
    found = run(*COMMAND, cwd=REPOSITORY)
    assert found.code == 1
    assert "--device cuda needs an NVIDIA GPU; nothing was measured" in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""
