"""Pages of rows, and runs that go on where an earlier one ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks import consumers, entries, records, sharding
from benchmarks.consumers import Cell, Key


def row(entry: str, ours: float) -> entries.Row:
    return entries.Row(entry, "2xf32", "forward", (0.1, 0.2), [[1.0]] * 3, [[ours]] * 3)


def test_the_page_of_entries_names_what_is_above_the_bar(tmp_path: Path) -> None:
    rows = [row("gelu", 1.0), row("silu", 1.2), row("mish", 1.5)]
    page = entries.markdown(rows, ["A note."], "a.svg")
    above = page.partition("## Above the bar")[2].partition("## All")[0]
    assert above.split("\n\n")[1] == "`silu`, `mish`."
    assert "| silu | 2xf32 | forward | 1,000 ms | 1,200 ms | 1.20 | 1.20 to 1.20 |" in page
    entries.plot(rows, tmp_path / "a.svg")
    assert all(name in (tmp_path / "a.svg").read_text() for name in ("gelu", "silu", "mish"))


@pytest.mark.process
def test_a_process_that_ends_fails_its_entry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_measured", _ends_for_silu)
    found = list(entries.measured(["gelu", "silu"], 2, 0.1, "wall"))
    assert found == ["gelu", entries.Failure("silu", "its process ended")]


def _ends_for_silu(name: str, **_: object) -> str:
    if name == "silu":
        os._exit(1)
    return name


def test_the_page_of_consumers_has_each_model_and_each_reason_once() -> None:
    messages = "x\nerror: failed to legalize operation 'stablehlo.scatter' that was\nlast line"
    reason = consumers.reason_of(messages, 1)
    cells = [Cell("gnn", "step", "jax", error=2e-7), Cell("swin", "step", "jax", error=0.25)]
    cells += [Cell(model, "step", "litert", reason=reason) for model in ("gnn", "gru")]
    assert [cell.right for cell in cells] == [True, False, False, False]
    page = consumers.markdown(cells)
    assert page.count("failed to legalize operation 'stablehlo.scatter'") == 1
    assert "| gnn | 2e-07 | not run | [note 1](#notes) |" in page
    assert "**1 of 2** | **0 of 0** | **0 of 2** |" in page


@pytest.mark.process
def test_cells_run_in_processes_of_their_own(tmp_path: Path) -> None:
    keys: list[Key] = [("gnn", "gradients", "jax"), ("gnn", "gradients", "litert")]
    found = list(consumers.run_cells(keys, tmp_path, 300))
    assert all(cell.right for cell in found), found
    records.append(tmp_path / "cells", found)
    assert [Cell(**record) for record in records.read(tmp_path / "cells")] == found
    (cell,) = consumers.run_cells([("gnn", "step", "jax")], tmp_path, 0.1)
    assert cell.reason == "the export: longer than 0 s"


def test_collectives_are_counted_with_the_bytes_of_their_results() -> None:
    program = """
  %all-gather = f32[8,16,8]{2,1,0} all-gather(%bitcast), channel_id=1, dimensions={0}
  %all-reduce = (f32[64]{0}, bf16[2,3]{1,0}) all-reduce(%a, %b), channel_id=2, to_apply=%add
  %get = f32[64]{0} get-tuple-element(%all-reduce), index=0
  %dot.3 = f32[2,32,4]{2,1,0} dot(%p, %q.1), lhs_batch_dims={0}, lhs_contracting_dims={2}
  %p = f32[2,32,8]{2,1,0} parameter(0)
  %q.1 = f32[2,8,4]{2,1,0} parameter(1)
"""
    traffic = sharding.traffic_of([program, program])
    assert traffic.counts == {"all-gather": 2, "all-reduce": 2}
    assert traffic.bytes == 2 * (8 * 16 * 8 * 4 + 64 * 4 + 2 * 3 * 2)
    assert sharding.products_of([program, program]) == 2 * 2 * 32 * 4 * 8
