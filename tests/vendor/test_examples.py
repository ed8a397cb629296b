"""All files of examples/registries: `composites check`, `lock` and `verify` take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from composites.cli.app import app
from composites.registry.catalog import load_catalog
from lowering.locking import lock_of
from lowering.verification.results import Verdict
from lowering.verification.targets import targets_of
from lowering.verification.verify import verify

REGISTRIES = Path(__file__).parents[2] / "examples" / "registries"
FILES = sorted(path.stem for path in REGISTRIES.glob("*.yaml"))

NEW: dict[str, tuple[str, ...]] = {
    "chlo": ("top_k", "top_k_backward", "ragged_dot", "ragged_dot_backward", "erf", "erfc"),
    "xla": ("scaled_dot", "mx_mm"),
    "litert_odml": ("random_uniform", "update_kv_cache", "quantize_and_dequantize", "rope"),
    "litert_tfl": ("slice", "unpack"),
    "tenstorrent": ("uniform",),
}
"""Entries whose samples and example calls are known."""


@pytest.mark.parametrize("file", FILES)
def test_check(file: str, registries: Any) -> None:
    registries(file)
    result = CliRunner().invoke(app, ["check", str(REGISTRIES / f"{file}.yaml")])
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("file", NEW)
def test_verify(file: str, registries: Any) -> None:
    registries(file)
    catalog = load_catalog([str(REGISTRIES / f"{file}.yaml")], in_place=True)
    entries = [entry for entry in catalog.registries[0].composites if entry.name in NEW[file]]
    assert len(entries) == len(NEW[file])
    for target in targets_of(entries, catalog):
        for row in verify(target, catalog, ("f32",), 4):
            assert (row.verdict, row.claimed > 0) == (Verdict.VERIFIED, True), row


@pytest.mark.parametrize("file", NEW)
def test_lock(file: str, registries: Any) -> None:
    """Each entry has a canonical call, whose decomposition is hashed."""
    registries(file)
    catalog = load_catalog([str(REGISTRIES / f"{file}.yaml")], in_place=True)
    names = {f"{catalog.registries[0].namespace}.{name}" for name in NEW[file]}
    contracts = lock_of(catalog.registries[0], catalog).contracts
    assert {c.entry for c in contracts if c.entry in names and c.calls} == names
