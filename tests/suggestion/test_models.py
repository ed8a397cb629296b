"""Drafts for models of transformers pass `composites check`, and less stays outside."""

import json
from pathlib import Path
from typing import Any

import pytest
from composites_testing.processes import run_python

MODELS = """
import torch
from torch import nn

def language_model(name, **options):
    import transformers
    config = getattr(transformers, f"{name}Config")(
        vocab_size=128, hidden_size=32, num_hidden_layers=2, use_cache=False, **options
    )
    tokens = torch.randint(3, 100, (2, 8))
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    return model, (), {"input_ids": tokens, "labels": tokens}

ATTENTION = dict(
    num_attention_heads=2, num_key_value_heads=1, head_dim=16, intermediate_size=64
)

def gemma2():
    return language_model("Gemma2", **ATTENTION)

def rwkv():
    return language_model("Rwkv", attention_hidden_size=32)
"""

WORTH = {"gemma2": {"Gemma2RMSNorm.forward", "apply_rotary_pos_emb"}, "rwkv": {"pad"}}
"""Functions with an entry in a draft, as far as they have work outside composites."""

SUGGEST = """
import sys
from lowering.cli import main
sys.argv = ["composites", *{arguments!r}]
main()
"""


def composites_command(*arguments: str, **environment: str) -> str:
    process = run_python(SUGGEST.format(arguments=arguments), **environment)
    assert process.code == 0, process.stderr
    return process.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", WORTH)
def test_a_draft_of_a_model(name: str, tmp_path: Path) -> None:
    models, draft = tmp_path / "models_of_suggest.py", tmp_path / "draft.yaml"
    models.write_text(MODELS)
    report = suggested(f"{models}:{name}", "-o", str(draft))
    rows = {row["name"].partition(":")[2]: row for row in report["functions"]}
    assert [caught for caught in WORTH[name] & rows.keys() if not rows[caught]["entry"]] == []
    assert "no problems found" in composites_command("check", str(draft))
    with_draft = suggested(f"{models}:{name}", XLA_COMPOSITE_REGISTRY=str(draft))
    assert with_draft["outside"] == report["after"] < report["outside"]


def suggested(*arguments: str, **environment: str) -> dict[str, Any]:
    out = composites_command("suggest", *arguments, "--json", **environment)
    report: dict[str, Any] = json.loads(out[out.index("{") :])
    return report
