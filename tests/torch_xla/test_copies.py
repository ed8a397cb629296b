"""Entries with `copies` in a process: what is replaced when, and that all of it is restored."""

from pathlib import Path
from typing import Any

import pytest
import torch
from composites_testing.processes import run_python
from composites_testing.selection import exhaustive
from transformers.models.gemma import modeling_gemma
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

import composites


@pytest.mark.parametrize("before", [True, False])
def test_a_copy_that_someone_else_replaces_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    def theirs(*arguments: Any) -> Any:
        raise NotImplementedError

    if before:
        monkeypatch.setattr(Qwen2RMSNorm, "forward", theirs)
    else:
        monkeypatch.setattr(Qwen2RMSNorm, "forward", Qwen2RMSNorm.forward)  # to be put back
    with composites.enabled("llama_rms_norm"):
        if not before:
            setattr(Qwen2RMSNorm, "forward", theirs)  # noqa: B010
        assert Qwen2RMSNorm.forward is theirs
    assert Qwen2RMSNorm.forward is theirs


def test_a_name_that_was_imported_before_is_replaced_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module may hold a function of another one, which is replaced there: a copy that an entry
    names under any name, and others under their own. The latter calls the original later."""
    copy, clip = modeling_qwen2.apply_rotary_pos_emb, torch.nn.utils.clip_grad_norm_
    monkeypatch.setattr(modeling_gemma, "rotate", copy, raising=False)
    monkeypatch.setattr(modeling_gemma, "clip_grad_norm_", clip, raising=False)
    held = vars(modeling_gemma)
    with composites.enabled("rotary_embedding", "clip_grad_norm"):
        assert held["rotate"].__wrapped__ is copy
        assert held["clip_grad_norm_"].__wrapped__ is clip
    assert held["rotate"] is copy


LATER = """
import sys
import torch, torch_xla
import composites

assert "ptxla.swiglu" in composites.active()
assert not any(name.startswith("transformers") for name in sys.modules)
from transformers import Qwen2Config, Qwen2ForCausalLM

config = Qwen2Config(
    vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=1,
)
model = Qwen2ForCausalLM(config).to("xla")
loss = model(torch.zeros(1, 4, dtype=torch.long).to("xla")).logits.sum()
text = torch_xla._XLAC._get_xla_tensors_text([loss])
counts = {n: text.count(f"ptxla::{n}") for n in ("rms_norm", "swiglu", "rotary_embedding")}
assert counts == {"rms_norm": 3, "swiglu": 1, "rotary_embedding": 1}, text
composites.disable()
modules = [m for n, m in list(sys.modules.items()) if n.startswith("transformers")]
for module in modules:
    for value in list(vars(module).values()):
        for function in (value, *(vars(value).values() if isinstance(value, type) else ())):
            assert "_composites_patch" not in getattr(function, "__dict__", ()), function
assert not [f for f in sys.meta_path if type(f).__module__.startswith("lowering")]
print("right")
"""


@pytest.mark.exhaustive
def test_a_module_of_copies_that_is_imported_later() -> None:
    done = run_python(LATER, XLA_COMPOSITE_OP="llama_rms_norm,swiglu,rotary_embedding")
    assert done.stdout.endswith("right\n"), done.stderr


LAYERS = """
import torch
import torch_xla  # which turns on what XLA_COMPOSITE_OP names, in the middle of this import


class Norm(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)
"""

ORDER = """
from acme_layers import MODULE
import torch, torch_xla
text = torch_xla._XLAC._get_xla_tensors_text
x = torch.randn(2, 3, 8).to("xla")
assert "acme::norm" in text([MODULE.Norm()(x)])

# A function that one entry names, and that is a copy of what two others name.
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
norm = Qwen2RMSNorm(8).to("xla")
assert "ptxla::rms_norm" in text([norm(x)])
assert "acme::of_qwen2" in text([norm(x[0])])
wide = norm.to(torch.bfloat16)
assert "acme::rms_norm" in text([wide(x[0].bfloat16())])
assert "acme::rms_norm" in text([wide(x.bfloat16())])
print("right")
"""


@pytest.mark.process
@pytest.mark.parametrize("module", ["copy", *exhaustive("named")])
def test_entries_of_a_vendor_come_first(tmp_path: Path, module: str) -> None:
    folder = tmp_path / "acme_layers"
    folder.mkdir()
    (folder / "__init__.py").write_text(f"from acme_layers import {module} as MODULE\n")
    for name in ("named", "copy"):
        (folder / f"{name}.py").write_text(LAYERS)
    registry = Path(__file__).with_name("copies.yaml")
    path = f"{tmp_path}:{Path(__file__).parents[2]}"
    done = run_python(
        ORDER, PYTHONPATH=path, XLA_COMPOSITE_REGISTRY=str(registry), XLA_COMPOSITE_OP="all"
    )
    assert done.stdout.endswith("right\n"), done.stderr
