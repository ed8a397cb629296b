"""Kernels beside decompositions: rows, conditions, page and picture, and tiny runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from composites_testing.processes import run

from benchmarks import records
from benchmarks.kernels import (
    Call,
    Growth,
    Measured,
    Part,
    Row,
    Stepped,
    Update,
    call_cells,
    growth_cells,
    markdown,
    plot,
    read,
    step_cells,
    update_cells,
    why_not_fastest,
)
from benchmarks.timing import ALLOCATION
from composites.registry.kernels import listed_in

REPOSITORY = Path(__file__).parents[2]
REGISTRY = REPOSITORY / "examples" / "cpu_kernels" / "src" / "cpu_kernels" / "registry.yaml"

TINY = """
import json, sys
from dataclasses import asdict
from functools import partial
from benchmarks.kernel_cases import StepCase, cross_entropy, Growing, _numbers
from benchmarks.kernels import growth, measured_calls, measured_step, measured_update, use_package
from benchmarks.training_steps import causal_gpt

use_package()
calls = list(measured_calls(cross_entropy(32, 2048), 0.01))
sizes = [cross_entropy(4, 16)]
growing = Growing("losses", ["cross_entropy_loss"], sizes, "logits.numel()", _numbers)
grown = list(growth(growing, 0.01))
step = measured_step(
    StepCase("tiny", partial(causal_gpt, 16, 64, 64, 1)), 1, 0.01, ["decompositions", "eager"]
)
parts = calls, grown, [measured_update((3, 4), 0.01)], [step]
print(json.dumps([[asdict(each) for each in found] for found in parts]))
"""


@pytest.fixture
def call() -> Call:
    return Call("loss 2x3", "ptxla.cross_entropy_loss", 0.4, 0.2, 0.05, 0.01, 1e-7, 8.0)


def test_cells_have_gains_and_bars(call: Call) -> None:
    assert call.pays
    assert call_cells(call)[2:] == (
        *("400 ms", "200 ms", "50.0 ms", "10.0 ms", "8.00", "8 met", "1.0e-07"),
    )
    blocks = {"decompositions": [[0.3], [0.6]], "auto": [[0.2, 0.4], [0.4]], "eager": [[0.1]]}
    step = Stepped("GPT", blocks, 9, 2, 1.6)
    assert update_cells(Update("3x4", 0.3, 0.2, 0.1))[1:] == (
        *("300 ms", "200 ms", "100 ms", "3.00"),
    )
    assert step_cells(step)[-8:] == (
        *("9", "2", "1.50", "1.50 to 1.50", "1.6 missed", "", "", "eager"),
    )
    assert why_not_fastest(step) == "GPT: eager takes 200 ms less than auto."
    with_products = replace(step, products=(0.25, 0.15))
    assert step_cells(with_products)[-3:] == ("250 ms", "150 ms", "eager")
    assert str(why_not_fastest(with_products)).endswith(
        "auto. Products alone take 100 ms less in PyTorch than in XLA."
    )
    with_faults = replace(step, faults={"auto": 25000, "eager": 300})
    assert str(why_not_fastest(with_faults)).endswith(
        "than auto. A step of auto has 25,000 page faults, and one of eager 300."
    )


def test_a_condition_says_where_the_kernel_pays() -> None:
    gains = {10: 1.2, 20: 0.9, 30: 1.1, 40: 2.0}
    found = Growth("ptxla.gelu", "x.numel()", gains, {10: 1.2, 20: 1.1, 30: 1.1, 40: 3.0})
    assert found.first == "10 <= x.numel() <= 10 or x.numel() >= 30"
    assert found.behind == "x.numel() >= 10"
    assert growth_cells(found)[1:4] == (
        "10: 1.20, 20: 0.90, 30: 1.10, 40: 2.00",
        f"`{found.first}`",
        "`x.numel() >= 10`",
    )
    slow = Growth("ptxla.gelu", "x.numel()", {10: 0.9}, {10: 0.9})
    assert (slow.first, slow.behind) == ("never", "")


def test_the_page_shows_what_the_registry_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(REGISTRY))
    found = Growth("ptxla.upsample_bilinear2d", "x.numel()", {10: 1.2}, {10: 1.2})
    assert growth_cells(found)[-1] == "`x.numel() <= 4096`, then always"


def test_the_page_and_the_picture(call: Call, tmp_path: Path) -> None:
    step = Stepped("GPT", {"decompositions": [[0.3]], "auto": [[0.2]]}, 9, 0, None)
    grown = [Growth("ptxla.gelu", "x.numel()", {10: 1.2}, {10: 1.2})]
    updates = [Update("3x4", 0.3, 0.2, 0.1)]
    measured: dict[Part, Sequence[Row]] = {
        "calls": [call],
        "growing": grown,
        "updates": updates,
        "others": [step],
    }
    page = markdown(measured, "A machine.")
    assert "load" not in page
    for head in ("| call |", "| composite |", "| parameter |", "| step |"):
        (line,) = (line for line in page.splitlines() if line.startswith(head))
        rows = page[page.index(line) :].split("\n\n")[0].splitlines()
        assert len(rows) == 3
        assert len({row.count("|") for row in rows}) == 1
    plot([call], tmp_path / "a.svg")
    assert "loss 2x3, forward" in (tmp_path / "a.svg").read_text()


def test_pages_with_settings_of_malloc_have_a_title_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ALLOCATION:
        monkeypatch.delenv(name, raising=False)
    titles = [markdown({}, "A machine.").splitlines()[0]]
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    titles.append(markdown({}, "A machine.").splitlines()[0])
    pages = (REPOSITORY / "benchmarks" / f"{name}.md" for name in ("KERNELS", "KEPT_MEMORY"))
    assert titles == [page.read_text(encoding="utf-8").splitlines()[0] for page in pages]


def test_a_later_run_reads_what_was_measured(call: Call, tmp_path: Path) -> None:
    results = tmp_path / "rows.jsonl"
    grown = Growth("ptxla.gelu", "x.numel()", {10: 1.2}, {10: 1.3})
    step = Stepped("GPT", {"decompositions": [[0.3]], "auto": [[0.2]]}, 9, 0, None)
    measured = [
        Measured("calls", "loss 2x3", [call, call]),
        Measured("growing", "gelu", [grown]),
        Measured("others", "GPT", [step]),
    ]
    records.append(results, measured)
    assert read(results) == measured


def test_an_unknown_part_is_named() -> None:
    done = run(sys.executable, "-m", "benchmarks.kernels", "--parts", "call", cwd=REPOSITORY)
    assert done.code == 2
    assert "there is no part 'call' (there are calls, growing, updates," in done.stderr


def test_every_kernel_has_a_case() -> None:
    from benchmarks.kernel_cases import GROWING

    measured = {name for growing in GROWING for name in growing.full_names}
    linear = {
        "ptxla.linear_cross_entropy",
        "ptxla.linear_cross_entropy_backward",
    }  # in GPT-2's step
    assert {kernel.composite for kernel in listed_in(REGISTRY)} == measured | linear


@pytest.mark.exhaustive
def test_tiny_runs(tmp_path: Path) -> None:
    printed = run(*(sys.executable, "-c", TINY), cwd=REPOSITORY, CPU_KERNELS_CACHE=str(tmp_path))
    assert printed.code == 0, printed.stderr
    calls, grown, (update,), (step,) = json.loads(printed.stdout.splitlines()[-1])
    assert [call["composite"] for call in calls] == [
        "ptxla.cross_entropy_loss",
        "ptxla.cross_entropy_loss_backward",
    ]
    for call in calls:
        assert call["kernel"] > 0
        assert call["faster"] > 0
        assert call["difference"] < 2e-6
    assert (update["shape"], update["step"] > update["bound"] > 0) == ("3x4", True)
    assert list(grown[0]["gains"]) == ["64"]
    assert step["blocks"].keys() == {"decompositions", "auto", "eager"}
    assert len(step["products"]) == 2
