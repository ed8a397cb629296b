"""Of a training step of every model, most is inside composites, and the step stays the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
MODELS = {"bert", "gpt2", "llama", "t5", "vit", "unet"}


def test_share_of_six_models(tmp_path: Path) -> None:
    page = tmp_path / "share.md"
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.share", "--markdown", str(page)],
        cwd=REPOSITORY,
        env=os.environ | {"PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert process.returncode == 0, process.stderr
    lines = [line.strip("| ").split(" | ") for line in page.read_text().splitlines()]
    rows = {cells[0]: cells[1:] for cells in lines if cells[0] in MODELS}
    assert rows.keys() == MODELS
    for _, _, _, share, loss, gradients, _ in rows.values():
        assert float(share.partition("%")[0]) >= 80
        # Numbers are constants in a composite, and XLA rewrites powers with constant exponents.
        assert float(loss) <= 1e-6
        assert float(gradients) <= 1e-5


def test_an_unknown_model_is_named() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.share", "--models", "brt"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1
    assert "there is no model 'brt' (there are bert, gpt2," in process.stderr
