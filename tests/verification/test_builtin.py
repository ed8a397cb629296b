"""Every entry of the built-in registry is verified, or it is known why it cannot be."""

import pytest

from composites.registry.catalog import load_catalog
from lowering.verification.results import Row, Verdict, entry_names
from lowering.verification.subjects import make_subjects
from lowering.verification.verify import verify

NOT_VERIFIED = {
    # PyTorch has no kernel on the CPU for these overloads.
    *(f"ptxla.{name}" for name in ("mm", "bmm", "addmm", "baddbmm", "matmul_accumulate")),
    # Their step counts stay on the CPU, and a sample's tensors are all on one device.
    *(f"ptxla.{name}" for name in ("adamw", "adam")),
    "ptxla.mx_linear",  # torch_xla does not have tensors of f8E8M0FNU
}


@pytest.mark.exhaustive
def test_every_entry() -> None:
    catalog = load_catalog([])
    rows: list[Row] = []
    for target in make_subjects(tuple(catalog), catalog):
        rows += verify(target, catalog)
    failed = [row for row in rows if row.verdict is Verdict.FAILED]
    assert not failed
    verified = set(entry_names([row for row in rows if row.verdict is Verdict.VERIFIED]))
    assert set(entry_names(rows)) - verified == NOT_VERIFIED
