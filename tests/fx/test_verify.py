"""Verifying entries without torch_xla: what is recorded runs on jax. The mistakes that are found
are in tests/verification/test_mistakes.py, which runs here too, and numbers in test_opinfo.py."""

from itertools import product

import pytest
import torch

from composites.registry.catalog import load_catalog
from lowering import activation
from lowering.verification.results import Check, Row, Verdict
from lowering.verification.subjects import make_subjects
from lowering.verification.verify import verify

DTYPES = [
    torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip


def rows_of(name: str, dtypes: tuple[str, ...] = ("f32", "bf16")) -> list[Row]:
    catalog = load_catalog([])
    entries = [entry for entry in catalog if entry.qualified == f"ptxla.{name}"]
    return [
        row
        for target in make_subjects(entries, catalog)
        for row in verify(target, catalog, dtypes, 3)
    ]


def test_each_call_starts_with_the_same_random_state() -> None:
    (row,) = rows_of("dropout", ("f32",))
    assert row.verdict is Verdict.VERIFIED
    assert row.same_bits


def test_an_entry_of_a_package_that_is_absent() -> None:
    (row,) = rows_of("scanned_gru_cell", ("f32",))
    assert row.verdict is Verdict.NOT_VERIFIED
    assert "no module torch_xla" in row.findings[0].message
    assert {row.verdict for row in rows_of("gru_cell", ("f32",))} == {Verdict.VERIFIED}


def test_a_graph_that_cannot_run_verifies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("lowering.frontends.fx.runner.compile_module", fails)
    (row,) = rows_of("silu", ("f32",))[:1]
    assert row.verdict is Verdict.NOT_VERIFIED
    (finding,) = (f for f in row.findings if f.check is Check.CLAIMED)
    assert "the graph of all samples cannot run: out of memory" in finding.message


def test_values_come_back() -> None:
    running = activation.backend().frontend.running
    for dtype, shape in product(DTYPES, ((2, 3), (), (0, 2))):
        source = torch.arange(6).reshape(2, 3).to(dtype)
        source = source.t()[:3, :2].t() if shape == (2, 3) else source.new_ones(shape)
        with running() as graph:
            placed = graph.put(source)
            with graph.call():
                copy = placed.clone()
            graph.run([placed, copy])
            for tensor in (placed, copy):
                values = graph.values(tensor)
                assert values.dtype == dtype
                assert torch.equal(values, source)
