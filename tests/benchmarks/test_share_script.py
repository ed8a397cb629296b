"""Of a training step of every model, most is inside composites, and the step stays the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from composites_testing.processes import run
from composites_testing.selection import exhaustive

REPOSITORY = Path(__file__).parents[2]
MODELS = {"bert", "gpt2", "llama", "t5", "vit", "unet"}


@pytest.mark.parametrize("models", [{"gpt2"}, *exhaustive(MODELS - {"gpt2"})], ids=sorted)
def test_share_of_models(tmp_path: Path, models: set[str]) -> None:
    page = tmp_path / "share.md"
    process = run(
        *(sys.executable, "-m", "benchmarks.share", "--markdown", str(page)),
        *("--models", ",".join(sorted(models))),
        cwd=REPOSITORY,
    )
    assert process.code == 0, process.stderr
    lines = [line.strip("| ").split(" | ") for line in page.read_text().splitlines()]
    rows = {cells[0]: cells[1:] for cells in lines if cells[0] in MODELS}
    assert rows.keys() == models
    for _, _, _, share, loss, gradients, _ in rows.values():
        assert float(share.partition("%")[0]) >= 80
        # Numbers are constants in a composite, and XLA rewrites powers with constant exponents.
        assert float(loss) <= 1e-6
        assert float(gradients) <= 1e-5


@pytest.mark.exhaustive
def test_an_unknown_model_is_named() -> None:
    command = (sys.executable, "-m", "benchmarks.share", "--models", "brt")
    process = run(*command, cwd=REPOSITORY)
    assert process.code == 1
    assert "there is no model 'brt' (there are bert, gpt2," in process.stderr
