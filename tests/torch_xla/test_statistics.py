"""Calls that reach an entry, as `composites.stats()`, messages and `composites run` report them."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from composites_testing.golden import check_cases
from composites_testing.processes import run, run_python
from composites_testing.tensors import values

import composites
from composites import CompositesWarning, log
from lowering import activation
from lowering.dispatch.statistics import MAX_FALLBACKS, EntryStatistics
from lowering.stats.data import (
    DeclinedStats,
    EntryStats,
    FallbackStats,
    Stats,
    added_up,
    read_stats,
)


def fallbacks(name: str) -> dict[str, int]:
    """The reasons so far for which an entry did not claim calls, and their numbers."""
    entry = composites.stats().entries.get(name)
    counts: dict[str, int] = {}
    for fallback in entry.fallbacks if entry else ():
        counts[fallback.reason] = counts.get(fallback.reason, 0) + fallback.calls
    return counts


def test_calls_and_hits_are_counted() -> None:
    with composites.enabled("gelu"):
        before = composites.stats().entries["ptxla.gelu"]
        for _ in range(3):
            F.gelu(values(5, 7))
        after = composites.stats().entries["ptxla.gelu"]
    assert after.on
    assert not composites.stats().entries["ptxla.gelu"].on
    assert after.calls - before.calls == 3
    assert after.cache_hits - before.cache_hits in (2, 3)  # another test may have lowered it
    assert after.cached["backend"] >= 1


def test_one_nan_is_as_good_as_another() -> None:
    with composites.enabled("leaky_relu"):
        before = composites.stats().entries["ptxla.leaky_relu"]
        for _ in range(3):
            F.leaky_relu(values(5, 7), float("nan"))
        after = composites.stats().entries["ptxla.leaky_relu"]
    assert after.cache_hits - before.cache_hits == 2


def test_an_entry_that_is_on_and_catches_nothing_is_idle() -> None:
    with composites.enabled("upsample_bicubic2d"):
        stats = composites.stats()
        caught = stats.entries["ptxla.upsample_bicubic2d"].calls
        assert ("ptxla.upsample_bicubic2d" in stats.idle) == (caught == 0)
    assert "ptxla.upsample_bicubic2d" not in composites.stats().idle


@composites.composite("umbra.scaled")
def _scaled(a: torch.Tensor, n: float = 2.0) -> torch.Tensor:
    return a * n


@composites.composite("umbra.turned")
def _turned(a: torch.Tensor) -> torch.Tensor:
    return a.t()


@composites.composite("umbra.added")
def _added(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


@composites.composite("umbra.chosen", attributes=["how"])
def _chosen(a: torch.Tensor, how: object = None) -> torch.Tensor:
    return a * 2


class _Mine(torch.Tensor):
    pass


def test_every_reason_for_which_a_function_is_not_claimed() -> None:
    _scaled(values(2, 3))
    assert fallbacks("umbra.scaled") == {"n is not a tensor; list it in `attributes`": 1}
    _turned(values(2, 3))
    assert fallbacks("umbra.turned") == {"a result is an operand, or a view of one": 1}
    _added(values(2), torch.ones(()))
    _added(values(2).as_subclass(_Mine), values(2))
    _added(torch.ones(2), torch.ones(2))  # a call on another device reaches no composite
    assert fallbacks("umbra.added") == {
        "b is on the device cpu": 1,
        "a is a _Mine, a subclass of Tensor": 1,
    }
    torch.func.vmap(_added)(values(2, 3), values(2, 3))
    assert fallbacks("umbra.added")["it is inside a transform of torch.func"] == 1
    before = fallbacks("umbra.chosen")  # another test compiles it
    _chosen(values(2), how=object())
    reason = (
        "an argument is neither a number, a string, a dtype, None nor a list of these; no composite"
        " can depend on it"
    )
    assert fallbacks("umbra.chosen") == before | {reason: 1}


def test_a_backward_that_is_differentiated_is_not_claimed() -> None:
    x = values(3, 4).requires_grad_()
    reason = "its backward: the backward is differentiated too (`create_graph=True`)"
    before = fallbacks("ptxla.rms_norm").get(reason, 0)
    with composites.enabled("rms_norm"):
        y = F.rms_norm(x, (4,)).square().sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        assert grad.requires_grad
    assert fallbacks("ptxla.rms_norm")[reason] == before + 1


REGISTRY = Path(__file__).with_name("statistics.yaml").read_text(encoding="utf-8")

OPERATORS = """\
import torch
from composites import UnsupportedCallError

def noisy(self):
    return torch.relu(self) + torch.rand_like(self)

def cat_of_two(a: torch.Tensor, b: torch.Tensor, dim: int = 0):
    return torch.cat([a, b], dim)

def cat(composite, tensors, dim=0):
    if len(tensors) != 2:
        raise UnsupportedCallError(f"{len(tensors)} tensors instead of 2")
    return composite(*tensors, dim)
"""

SCRIPT = """\
import torch, torch_xla
import torch.nn.functional as F
x = torch.ones(2, 3).to("xla")
for _ in range(2):
    F.gelu(x)
F.gelu(x)
F.relu(x)
i = torch.ones(32, 32, dtype=torch.int8).to("xla")
torch._int_mm(i, i)
F.silu(x)
F.silu(x.bfloat16())
torch.cat([x, x, x])
torch.conv1d(x[None], torch.ones(2, 2, 1).to("xla"))
torch.conv2d(x[None, None], torch.ones(1, 1, 1, 1).to("xla"), torch.ones(1).to("xla"))
print(torch.cat([x, x]).cpu().shape)
"""


@pytest.fixture
def umbra(tmp_path: Path) -> dict[str, str]:
    """The environment of a script, `train.py`, that has a vendor's registry on."""
    (tmp_path / "umbra.yaml").write_text(REGISTRY)
    (tmp_path / "umbra_operators.py").write_text(OPERATORS)
    (tmp_path / "train.py").write_text(SCRIPT)
    return {
        "XLA_COMPOSITE_REGISTRY": str(tmp_path / "umbra.yaml"),
        "XLA_COMPOSITE_OP": "umbra.*,softmax",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    }


def test_messages_say_why_a_call_is_not_claimed_once_per_call_site(
    tmp_path: Path, umbra: dict[str, str]
) -> None:
    done = run(
        *(sys.executable, "train.py"),
        cwd=tmp_path,
        **umbra,
        XLA_COMPOSITE_LOG="info",
        XLA_COMPOSITE_STATS="stats.jsonl",
    )
    lines = done.succeeded().stderr.splitlines()
    messages = "\n".join(
        line.removeprefix("composites: ").replace(f"{tmp_path}/", "")
        for line in lines
        if "not claimed" in line
    )
    check_cases(Path(__file__).with_name("not_claimed.txt"), lambda parts: messages)
    assert (
        "composites: entries that are on and caught no call: ptxla.softmax, ptxla.softmax_backward,"
        " umbra.conv, umbra.gelu, umbra.int_mm, umbra.relu, umbra.silu\n"
    ) in done.stderr
    stats = read_stats(tmp_path / "stats.jsonl")
    (gelu,) = stats.entries["umbra.gelu"].fallbacks
    assert gelu.calls == 3
    assert sorted(gelu.sites.values()) == [1, 2]
    assert stats.entries["umbra.cat"].calls == 1


@pytest.mark.process
def test_run_shows_what_is_known_of_a_script_that_fails(
    tmp_path: Path, umbra: dict[str, str]
) -> None:
    """The report has calls that are not claimed, and idle entries."""
    (tmp_path / "train.py").write_text(SCRIPT + "raise SystemExit(3)\n")
    done = run(sys.executable, "-m", "composites", "run", "train.py", cwd=tmp_path, **umbra)
    assert done.code == 3, done.stderr
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in done.stdout.splitlines()
        if line.startswith("│")
    ]
    reason = "takes approximate = tahn, not 'none'"
    assert ["umbra.gelu", "float32[2, 3]", reason, "train.py:5", "3"] in rows
    idle = "on, and caught no call: ptxla.softmax, ptxla.softmax_backward, umbra.conv"
    assert idle in done.stdout


@pytest.mark.process
def test_run_says_which_signal_ended_the_script(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    done = run(sys.executable, "-m", "composites", "run", "killed.py", cwd=tmp_path)
    assert (done.code, done.stderr.splitlines()[-1]) == (143, "killed.py was ended by SIGTERM")


STOPPED = """\
import time, torch, torch_xla
torch.nn.functional.silu(torch.ones(2, device="xla")).cpu()
open("started", "w").close()
time.sleep(60)
"""


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_shows_what_is_known_of_a_script_that_is_stopped(tmp_path: Path, number: int) -> None:
    (tmp_path / "train.py").write_text(STOPPED)
    process = subprocess.Popen(
        [sys.executable, "-m", "composites", "run", "train.py"],
        cwd=tmp_path,
        env=os.environ | {"XLA_COMPOSITE_OP": "silu"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.1)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    assert "ptxla.silu" in process.communicate()[0]
    assert process.returncode == 128 + number


LOOP = """\
import torch, torch_xla
import torch.nn.functional as F
for size in range(1, 40):
    F.silu(torch.ones(size, device="xla"))
"""


@pytest.mark.process
def test_a_line_is_named_once_whatever_the_shapes(tmp_path: Path, umbra: dict[str, str]) -> None:
    (tmp_path / "train.py").write_text(LOOP)
    environment = umbra | {"XLA_COMPOSITE_OP": "umbra.silu,swiglu", "XLA_COMPOSITE_LOG": "info"}
    done = run(sys.executable, "train.py", cwd=tmp_path, **environment)
    assert done.stderr.count("is not claimed") == 1
    assert "entries that are on and caught no call: ptxla.swiglu, umbra.silu" in done.stderr


@pytest.mark.process
def test_a_statistics_file_that_cannot_be_written_is_said() -> None:
    script = "import torch, torch_xla"
    done = run_python(script, XLA_COMPOSITE_STATS="/nowhere/stats", XLA_COMPOSITE_LOG="info")
    assert done.code == 0
    assert "XLA_COMPOSITE_STATS: /nowhere/stats cannot be written: No such file" in done.stderr


def test_a_misspelled_level_is_warned_of() -> None:
    with pytest.warns(CompositesWarning, match=r"XLA_COMPOSITE_LOG=inof .*did you mean 'info'"):
        log.show_messages("inof")


def test_a_compiled_function_that_is_not_a_node_is_counted() -> None:
    torch.compile(lambda a: _chosen(a, how=print), backend="openxla")(values(3))
    assert "torch.compile: an argument is neither a tensor nor a constant" in fallbacks(
        "umbra.chosen"
    )


def test_statistics_of_several_processes_are_added_up() -> None:
    missed, declined = FallbackStats("r", "o", 3, {"f:1": 1}), DeclinedStats("rows", "r", 2)
    decompositions = {"stock": 1, "rows": 1}
    one = Stats({"a.b": EntryStats(True, 2, 1, {"x": 1}, (missed,), decompositions, (declined,))})
    two = Stats({"a.b": EntryStats(False, 1, 1, {"x": 2}, (missed,), decompositions, (declined,))})
    both = EntryStats(
        True,
        3,
        2,
        {"x": 3},
        (FallbackStats("r", "o", 6, {"f:1": 2}),),
        {"stock": 2, "rows": 2},
        (replace(declined, calls=4),),
    )
    assert added_up([Stats.from_json(one.to_json()), two]) == Stats({"a.b": both})
    assert json.loads(one.to_json())["entries"]["a.b"]["calls"] == 2


def test_reasons_are_bounded() -> None:
    entry = next(iter(activation.catalog()))
    statistics = EntryStatistics(entry)
    for number in range(MAX_FALLBACKS + 50):
        statistics.fallback("reason", [number]).count_call()
        statistics.decline("a", f"reason {number}")
    assert len(statistics.fallbacks) == MAX_FALLBACKS + 1
    assert len(statistics.declined) == MAX_FALLBACKS + 1
    assert sum(statistics.declined.values()) == MAX_FALLBACKS + 50
    assert sum(f.calls for f in statistics.fallbacks.values()) == MAX_FALLBACKS + 50
