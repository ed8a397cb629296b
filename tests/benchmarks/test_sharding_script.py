"""Collectives beside stock's: what is counted, and that composites have no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import sharding_compiled, sharding_entries
from benchmarks.sharding import (
    MEMORY,
    Row,
    Side,
    Traffic,
    lines,
    markdown,
    products_of,
    rows_of,
    traffic_of,
)
from benchmarks.sharding_cases import CASES

PROGRAM = """
  %all-gather = f32[8,16,8]{2,1,0} all-gather(%bitcast), channel_id=1, dimensions={0}
  %all-reduce = (f32[64]{0}, bf16[2,3]{1,0}) all-reduce(%a, %b), channel_id=2, to_apply=%add
  %get = f32[64]{0} get-tuple-element(%all-reduce), index=0
  %start = f32[] all-reduce-start(%c), channel_id=3, to_apply=%add
"""


def test_collectives_are_counted_with_the_bytes_of_their_results() -> None:
    traffic = traffic_of([PROGRAM, PROGRAM])
    assert traffic.counts == {"all-gather": 2, "all-reduce": 4}
    assert traffic.bytes == 2 * (8 * 16 * 8 * 4 + 64 * 4 + 2 * 3 * 2 + 4)
    assert traffic.total == 6


def test_the_page_has_a_line_for_each_side() -> None:
    row = Row(
        "attention",
        {"stock": Traffic({"all-gather": 3}, 98304), "composites": Traffic({}, 0)},
        0.0,
        {"stock": 0, "composites": 3},
        {"stock": 2048, "composites": 1024},
        {"stock": 8192, "composites": 2048},
    )
    stock, ours = lines(row)
    assert stock[:3] == ("attention", "stock", "3")
    assert "98,304" in stock
    assert ours[:3] == ("", "composites", "")
    assert "| attention | stock | 3 |" in markdown([row], 4)
    assert "8,192" in stock
    assert "attention (4.0 times)." in markdown([row], 4)
    divided = replace(row, products={"stock": 2048, "composites": 2048})
    assert "times" not in markdown([divided], 4)


def test_multiplications_of_products_are_counted() -> None:
    program = """
  %p = f32[2,32,8]{2,1,0} parameter(0)
  %q.1 = f32[2,8,4]{2,1,0} parameter(1)
  %dot.3 = f32[2,32,4]{2,1,0} dot(%p, %q.1), lhs_batch_dims={0}, lhs_contracting_dims={2}
  ROOT %dot = f32[] dot(%v, %v), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %v = f32[16]{0} reshape(%dot.3)
"""
    assert products_of([program, program]) == 2 * (2 * 32 * 4 * 8 + 16)


HELD = tuple(case.name for case in CASES if case.held)
MEMORY_OF_GPT2 = 1.09
"""The limit for GPT-2 in FSDP, which sends a quarter less: stock's layer norms gather the batch, so
that its gradients of three matrices come out divided. At the size of GPT-2 XL, composites save
memory there too from 8 devices on, see benchmarks/SHARDING_COMPILED.md."""
STEPS = tuple(name for name in HELD if name.startswith("step"))


def test_rows_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert HELD


@pytest.mark.parametrize("devices", [4, pytest.param(8, marks=pytest.mark.exhaustive)])
def test_no_more_collectives_than_stock(devices: int) -> None:
    # Four key heads cannot be shared out equally to eight devices. Composites have 6 all-reduces
    # then, and stock 3 collectives, after which each of its devices computes everything.
    held = [name for name in HELD if devices == 4 or "grouped" not in name]
    held = [name for name in held if name not in STEPS]
    rows = rows_of(held, devices)
    assert [row.name for row in rows] == held
    for row in rows:
        stock, ours = row.traffic["stock"], row.traffic["composites"]
        assert ours.total <= stock.total, row
        assert ours.bytes <= stock.bytes, row
        assert row.error <= 1e-6, row
        assert row.sharded["composites"] >= row.sharded["stock"], row
        assert row.memory["composites"] <= MEMORY * row.memory["stock"], row
    heads = [row for row in rows if row.name.startswith("attention, heads")]
    assert heads
    for row in heads:
        assert row.traffic["stock"].counts["all-gather"] == 3
        assert row.traffic["composites"].total == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("devices", [4, 8])
def test_training_steps_have_no_more_either(devices: int) -> None:
    for row in rows_of(STEPS, devices):
        stock, ours = row.traffic["stock"], row.traffic["composites"]
        assert ours.total <= stock.total, row
        assert ours.bytes <= stock.bytes, row
        assert row.error <= 2e-6, row
        limit = MEMORY_OF_GPT2 if row.name == "step of GPT-2, FSDP" else MEMORY
        assert row.memory["composites"] <= limit * row.memory["stock"], row
        if row.name.endswith((", tensor", ", 2-D")):
            assert stock.counts["all-gather"] >= 8
            assert "all-gather" not in ours.counts


@pytest.mark.exhaustive
def test_a_large_step_is_compiled_for_more_devices() -> None:
    row = sharding_compiled.row_of("GPT-2", "2-D", 64)
    stock, ours = row.traffic["stock"], row.traffic["composites"]
    assert stock.total > ours.total > 0
    assert stock.bytes > ours.bytes
    assert row.memory["composites"] <= row.memory["stock"]
    page = sharding_compiled.markdown([row])
    assert "| GPT-2, 2-D | 64 | stock |" in page


def test_the_page_of_entries_names_what_there_is_more_of() -> None:
    traffic: dict[Side, Traffic] = {
        "stock": Traffic({"all-gather": 1}, 64),
        "composites": Traffic({"all-reduce": 2}, 8),
    }
    row = sharding_entries.Row("gelu", "8xf32", "first", traffic, {"stock": 100, "composites": 103})
    assert row.more == "collectives, memory"
    on_the_host = replace(row, entry="glu", on_the_host=["aten::glu"])
    failure = sharding_entries.Failure("topk", "last", "its process ended")
    page = sharding_entries.markdown([row, on_the_host, failure], 4)
    assert "| gelu | 8xf32 | first | 1 all-gather | 2 all-reduce | 64 | 8 |" in page
    assert "Stock computes these, in whole or in part, on the host: `glu`." in page
    assert "| glu |" not in page
    assert "- `topk`, last: its process ended" in page


@pytest.mark.exhaustive
def test_entries_have_no_more_than_stock() -> None:
    """Some of those on benchmarks/SHARDING_ENTRIES.md."""
    names = ["gelu", "dropout", "layer_norm", "linear_cross_entropy", "var_mean", "clip_grad_norm"]
    rows = sharding_entries.rows_of(names, 4)
    found = {
        (row.entry, row.divided): row.more for row in rows if isinstance(row, sharding_entries.Row)
    }
    assert {key: more for key, more in found.items() if more} == {
        # The logits are an all-reduce, and the backward, which saves no logits, repeats it.
        ("linear_cross_entropy", "last"): "collectives, bytes",
        ("clip_grad_norm", "first"): "memory",
        ("clip_grad_norm", "last"): "memory",
    }
    assert len(found) == 2 * len(names)
    clipped = [row for row in rows if row.entry == "clip_grad_norm"]
    assert all(
        isinstance(row, sharding_entries.Row) and row.traffic["stock"].total for row in clipped
    )
