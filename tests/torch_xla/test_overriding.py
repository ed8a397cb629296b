"""Methods that entries catch, called on objects that override what these methods call."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from composites_testing.selection import variants
from composites_testing.tensors import lazy_text, values
from torch import Tensor, nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpTextRMSNorm

import composites

NORMS = (GemmaRMSNorm, Gemma2RMSNorm)  # one that the entry names, and a copy


def doubled(x: Tensor) -> Tensor:
    return x * 2


def overriding(owner: Any, how: str) -> nn.Module:
    """A norm whose `_norm` is another one."""
    made: nn.Module
    if how == "method":
        made = type("Doubling", (owner,), {"_norm": lambda self, x: doubled(x)})(8)
    elif how == "static method":
        made = type("Doubling", (owner,), {"_norm": staticmethod(doubled)})(8)
    elif how == "base":
        base = type("Base", (), {"_norm": lambda self, x: doubled(x)})
        made = type("Doubling", (base, owner), {})(8)
    else:
        made = owner(8)
        vars(made)["_norm"] = doubled
    return made


def calls(reason: str) -> int:
    """The number of calls that were left alone for this reason."""
    fallbacks = composites.stats().entries["ptxla.gemma_rms_norm"].fallbacks
    return sum(fallback.calls for fallback in fallbacks if fallback.reason == reason)


def graph_of(norm: Any, x: Tensor, *entries: str) -> str:
    """The lazy graph of a call while entries are on. Its result is that without."""
    expected = norm(x).cpu()
    with composites.enabled(*entries):
        result = norm(x)
        text = lazy_text(result)
    assert torch.equal(result.cpu(), expected)
    return text


@pytest.mark.parametrize("owner", NORMS)
@pytest.mark.parametrize("how", ["method", "static method", "base", "object"])
def test_what_overrides_a_method_runs_as_before(owner: Any, how: str) -> None:
    norm, x = overriding(owner, how).to("xla"), values(2, 8)
    expected = norm(x).cpu()
    who = "the object" if how == "object" else "Doubling"
    reason = f"{who} has another _norm than {owner.__name__}, and forward uses it"
    with composites.enabled("gemma_rms_norm"):
        before = calls(reason)
        result = norm(x)
        assert "ptxla::gemma_rms_norm" not in lazy_text(result)
        assert "ptxla::gemma_rms_norm" in lazy_text(owner(8).to("xla")(x))
        assert calls(reason) == before + 1
    assert torch.equal(result.cpu(), expected)


@pytest.mark.parametrize("how", ["method", "object"])
@variants("last", [False, True])
def test_under_torch_compile(how: str, last: bool) -> None:
    """Dynamo compiles again for the other object, whichever it sees first."""
    x, other = values(2, 8), overriding(GemmaRMSNorm, how).to("xla")
    norms = [other, GemmaRMSNorm(8).to("xla")][:: -1 if last else 1]
    expected = [norm(x).cpu() for norm in norms]
    nodes: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        nodes.append(str([node.target for node in graph.graph.nodes]))
        return graph.forward

    with composites.enabled("gemma_rms_norm"), torch.no_grad():
        torch._dynamo.reset()
        compiled = torch.compile(lambda norm, x: norm(x), backend=backend, fullgraph=True)
        results = [compiled(norm, x) for norm in norms]
    torch._dynamo.reset()
    assert ["gemma_rms_norm" in text for text in nodes] == [norm is not other for norm in norms]
    torch.testing.assert_close([result.cpu() for result in results], expected)


def test_a_subclass_that_overrides_nothing_else_is_caught() -> None:
    class Named(GemmaRMSNorm):
        more = 1

        def extra_repr(self) -> str:
            return "named"

        @property
        def eps(self) -> float:
            return 0.5

        @eps.setter
        def eps(self, value: float) -> None: ...

    text = graph_of(Named(8).to("xla"), values(2, 8), "gemma_rms_norm")
    assert "ptxla::gemma_rms_norm" in text


@pytest.mark.parametrize("shape", [(1,), (2, 8)])
@pytest.mark.parametrize("owner", [GemmaRMSNorm, LlamaRMSNorm])
def test_a_weight_that_is_broadcast_is_left_to_stock(owner: Any, shape: tuple[int, ...]) -> None:
    norm = owner(8)
    norm.weight = nn.Parameter(torch.ones(shape) / 2)
    text = graph_of(norm.to("xla"), values(2, 8), "gemma_rms_norm", "llama_rms_norm")
    assert "ptxla::" not in text


@pytest.mark.parametrize("owner", [GemmaRMSNorm, LlamaRMSNorm])
def test_a_norm_without_weight_fails_as_before(owner: Any) -> None:
    norm, x = owner(8), values(2, 8)
    norm.weight = None
    with pytest.raises((AttributeError, TypeError)) as before:
        norm(x)
    on = composites.enabled("gemma_rms_norm", "llama_rms_norm")
    with on, pytest.raises(type(before.value)) as after:
        norm(x)
    assert str(after.value) == str(before.value)


def test_a_norm_of_groups_is_no_copy() -> None:
    norm = Qwen4ExpTextRMSNorm(8, group_size=4).to("xla")
    assert "ptxla::gemma_rms_norm" not in graph_of(norm, values(2, 8), "all")


CODE = """
import torch
class Norm(torch.nn.Module):
    def forward(self, x):
        return self.scaled(x) * self.factor + self.shift
    def scaled(self, x):
        return x + self.step()
    def step(self):
        return 1.0
    @property
    def factor(self):
        return 3.0
    @property
    def shift(self):
        return 0.0
def forward(self, x):
    return (x + 1.0) * self.factor + 0.0
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("acme_overriding")
    exec(CODE, vars(made))
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


OVERRIDES: dict[str, tuple[str, Any]] = {
    "what a called method calls": ("step", lambda self: 5.0),
    "a property": ("shift", property(lambda self: 5.0)),
    "a property by data": ("shift", 5.0),
    "a property that the entry lists": ("factor", property(lambda self: 5.0)),
}
CAUGHT = (None, "a property that the entry lists")


@pytest.mark.parametrize("case", [None, *OVERRIDES])
@pytest.mark.parametrize("is_custom", [True, False])
def test_entries_of_a_vendor(
    module: ModuleType, use_registry: Callable[[str], None], case: str | None, is_custom: bool
) -> None:
    """A custom decomposition stays; the native one runs the method, with what overrides."""
    lines = "decomposition: 'acme_overriding:forward'" if is_custom else "decomposition: native"
    listed = "" if is_custom else ", shift: self.shift"
    use_registry(
        "namespace: acme\ncomposites:\n"
        "  norm: {function: 'acme_overriding:Norm.forward', operands: [x],\n"
        f"    attributes: {{factor: self.factor{listed}}}, {lines}}}\n"
    )
    names = {} if case is None else dict([OVERRIDES[case]])
    text = graph_of(type("Other", (module.Norm,), names)(), values(2, 8), "acme.norm")
    assert ("acme::norm" in text) == (case in CAUGHT or not is_custom)
