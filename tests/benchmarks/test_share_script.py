"""Of a training step of every model, most is inside composites, and the step stays the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from composites_testing.processes import run

REPOSITORY = Path(__file__).parents[2]
MODELS = {"bert", "gpt2", "llama", "t5", "vit", "unet"}
OTHERS = {"gemma2", "gpt_oss", "falcon_alibi", "codegen", "swin", "qwen3_moe"}
STATE_SPACE = {"mamba", "mamba2", "recurrent_gemma", "rwkv"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "models", [MODELS, OTHERS, STATE_SPACE], ids=lambda models: ",".join(sorted(models))
)
def test_share_of_models(tmp_path: Path, models: set[str]) -> None:
    page = tmp_path / "share.md"
    process = run(
        *(sys.executable, "-m", "benchmarks.share", "--markdown", str(page)),
        *("--models", ",".join(sorted(models))),
        cwd=REPOSITORY,
    )
    assert process.code == 0, process.stderr
    lines = [line.strip("| ").split(" | ") for line in page.read_text().splitlines()]
    rows = {cells[0]: cells[1:] for cells in lines if cells[0] in models}
    assert rows.keys() == models
    for model, (_, _, _, share, loss, gradients, _) in rows.items():
        assert float(share.partition("%")[0]) >= (60 if model in STATE_SPACE else 80)
        # Numbers are constants in a composite, and XLA rewrites powers with constant exponents.
        assert float(loss) <= 1e-6
        assert float(gradients) <= 1e-5


@pytest.mark.exhaustive
def test_an_unknown_model_is_named() -> None:
    command = (sys.executable, "-m", "benchmarks.share", "--models", "brt")
    process = run(*command, cwd=REPOSITORY)
    assert process.code == 1
    assert "there is no model 'brt' (there are gpt2, gpt_neo," in process.stderr
