"""Mistakes that vendors make: `verify` finds each, and says what is wrong."""

import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest

from composites.registry.catalog import load_catalog
from lowering.verification.results import Check, Row, Verdict
from lowering.verification.subjects import make_subjects, subject_of_function
from lowering.verification.verify import verify

Verify = Callable[..., Sequence[Row]]

FUNCTIONS = """
import jax
import jax.numpy as jnp
import torch
from torch import Tensor

import composites

def right(self, *, approximate="none"):
    return torch.nn.functional.gelu(self, approximate=approximate)

def slightly_wrong(self, *, approximate="none"):
    return torch.nn.functional.gelu(self, approximate=approximate) * 1.0003

def relu(self, *, approximate="none"):
    return torch.relu(self)

def jax_right(self, *, approximate="none"):
    return jax.nn.gelu(self, approximate=approximate == "tanh")

def jax_relu(self, *, approximate="none"):
    return jnp.maximum(self, 0)

def summed(self, *, approximate="none"):
    return torch.nn.functional.gelu(self, approximate=approximate).sum()

def narrow(self, *, approximate="none"):
    return torch.nn.functional.gelu(self, approximate=approximate).to(torch.float16)

def mutating(self, *, approximate="none"):
    return torch.nn.functional.gelu(self.mul_(1), approximate=approximate)

def none(self, *, approximate="none"):
    torch.nn.functional.gelu(self, approximate=approximate)

def flow(self, *, approximate="none"):
    return self * 2 if self.sum() > 0 else self

def backward(grad_output, self, *, approximate="none"):
    return torch.ops.aten.gelu_backward(grad_output, self, approximate=approximate) + 3.1

def jax_backward(grad_output: jax.Array, self: jax.Array, *, approximate="none") -> jax.Array:
    return grad_output + 3

def rows(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)

def adapted(composite, input, dim, dtype=None):
    if dtype is not None:
        raise composites.UnsupportedCallError("a softmax that also casts")
    return composite(input.transpose(dim, -1)).transpose(dim, -1)

def not_moved_back(composite, input, dim, dtype=None):
    return composite(input.transpose(dim, 0))

def misspelled(composite, input, dim, dtype=None):
    return composite(input, axis=dim)

def scribbling(composite, input, dim, dtype=None):
    result = composite(input.transpose(dim, -1)).transpose(dim, -1)
    with torch.no_grad():
        input.data.mul_(2)
    return result

def backwards_cat(tensors, dim=0):
    return torch.cat(tensors[::-1], dim)

def stack_samples(dtype):
    for dim in (0, 1):
        yield ([torch.ones(2, 2, dtype=dtype), torch.zeros(2, 2, dtype=dtype)],), {"dim": dim}

def first_only(grad_output: Tensor, tensors: list[Tensor], dim: int) -> list[Tensor]:
    parts = torch.split(grad_output, [t.shape[dim] for t in tensors], dim)
    return [part * (n == 0) for n, part in enumerate(parts)]

count = 0

def changing(composite, input, dim, dtype=None):
    global count
    count += 1
    return composite(input.transpose(dim, -1)).transpose(dim, -1) + 1e-6 * count

@composites.composite("planted.scaled", attributes=("limit",))
def scaled(x: Tensor, limit: float = 2.0) -> Tensor:
    return x.clamp(max=limit) * 3

@composites.composite("planted.frozen")
def frozen(x: Tensor, limit: float = 2.0) -> Tensor:
    return x.clamp(max=limit) * 3

def scaled_samples(dtype):
    for limit in (0.5, 1.0):
        x = torch.linspace(-2, 2, 12).reshape(3, 4).to(dtype)
        yield (x.requires_grad_(),), {"limit": limit}
"""

GENERATED = {"mixed": "k", "two": "2", "same": "k + (x.shape != y.shape)", "large": "k * (y < 9)"}
FUNCTIONS += "".join(
    f"\ndef {name}(x: Tensor, y: Tensor, k: int = 2, mode: str = 'a'):"
    f" return torch.tanh(x) * ({factor}) + y\n"
    for name, factor in GENERATED.items()
)

GELU = "op: aten::gelu, attributes: {approximate: approximate}"
SOFTMAX = "op: aten::softmax.int, decomposition: 'planted:rows', backward: derive"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verify:
    (tmp_path / "planted.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "planted", raising=False)

    def run(entries: str, name: str = "planted", dtypes: Sequence[str] = ("f32",)) -> list[Row]:
        file = tmp_path / "planted.yaml"
        file.write_text(f"schema: 1\nnamespace: planted\ncomposites:\n{entries}")
        catalog = load_catalog([str(file)], in_place=True)
        (entry,) = [e for e in catalog.registries[0].composites if e.name == name]
        targets = make_subjects([entry], catalog)
        return [row for target in targets for row in verify(target, catalog, dtypes)]

    return run


def failures(rows: Sequence[Row]) -> dict[Check, str]:
    assert {row.verdict for row in rows} == {Verdict.FAILED}, rows
    return {f.check: f.message for row in rows for f in row.findings if f.is_failure}


def entry(body: str) -> str:
    return f"  planted: {{{body}}}\n"


@pytest.mark.parametrize(
    ("function", "backward"),
    [
        ("planted:right", ""),
        ("planted:right", ", backward: derive"),
        pytest.param("jax:planted:jax_right", ", backward: derive", marks=pytest.mark.slow),
    ],
)
def test_what_is_right_is_verified(run: Verify, function: str, backward: str) -> None:
    rows = run(entry(f"{GELU}, decomposition: '{function}'{backward}"), dtypes=("f32", "bf16"))
    assert [row.verdict for row in rows] == [Verdict.VERIFIED] * 2, rows
    assert not [finding for row in rows for finding in row.findings]
    assert all(row.claimed and row.source == "OpInfo" and not row.unclaimed for row in rows)
    assert all(row.numbers.gradient is not None for row in rows)


WRONG: tuple[tuple[str, Check | None, str], ...] = (
    ("planted:relu", Check.FORWARD, "result 0: "),
    ("planted:flow", Check.CALL, "reads the value of a tensor"),
    ("planted:summed", None, "shape []|gives tensor<f32>"),
    ("planted:narrow", None, "dtype f16, but PyTorch gives f32|gives tensor<"),
    ("planted:mutating", Check.CALL, "planted:mutating writes to its operand 1|in-place operation"),
    ("planted:none", Check.CALL, "it returns None; return a tensor"),
)


@pytest.mark.parametrize("wrong", [WRONG[:2], pytest.param(WRONG[2:], marks=pytest.mark.slow)])
def test_wrong_decompositions(run: Verify, wrong: Sequence[tuple[str, Check | None, str]]) -> None:
    for kind in ("", ", backward: derive"):
        for function, check, message in wrong:
            messages = failures(run(entry(f"{GELU}, decomposition: '{function}'{kind}")))
            assert check is None or check in messages, (function, messages)
            texts = messages.values()
            assert any(part in text for part in message.split("|") for text in texts), messages
            assert kind == "" or function != "planted:relu" or Check.GRADIENT in messages
        messages = failures(run(entry(f"{GELU}, decomposition: 'jax:planted:jax_relu'{kind}")))
        assert {*messages} >= {Check.FORWARD, *([Check.GRADIENT] if kind else [])}


BACKWARDS = (
    ("op: aten::gelu_backward", "planted:backward"),
    ("gradients: [self]", "jax:planted:jax_backward"),
)


@pytest.mark.parametrize("name", ["planted", "grad"])
@pytest.mark.parametrize(("form", "function"), BACKWARDS)
def test_a_wrong_backward(run: Verify, form: str, function: str, name: str) -> None:
    keys = f"{form}, attributes: {{approximate: approximate}}, decomposition: '{function}'"
    grad = f"  grad: {{{keys}}}\n"
    messages = failures(run(entry(f"{GELU}, backward: grad") + grad, name))
    assert set(messages) == {Check.GRADIENT}
    assert "gradient 0: " in messages[Check.GRADIENT]


CAT = "op: aten::cat, attributes: {dim: dim}"


@pytest.mark.slow
def test_lists_of_tensors(run: Verify) -> None:
    for body in (
        CAT,
        f"{CAT}, backward: derive",
        "op: aten::_foreach_add.List, attributes: {alpha: alpha}",
    ):
        rows = run(entry(body), dtypes=("f32", "bf16"))
        assert {row.verdict for row in rows} == {Verdict.VERIFIED}, rows
        assert all(row.claimed and not row.unclaimed for row in rows)


@pytest.mark.slow
def test_mistakes_with_lists_of_tensors(run: Verify) -> None:
    assert Check.FORWARD in failures(run(entry(f"{CAT}, decomposition: 'planted:backwards_cat'")))
    messages = failures(run(entry("op: aten::stack, samples: 'planted:stack_samples'")))
    assert set(messages) == {Check.ATTRIBUTES}
    grad = (
        "  grad: {gradients: [tensors], decomposition: 'planted:first_only',"
        " attributes: {dim: dim}}\n"
    )
    assert Check.GRADIENT in failures(run(entry(f"{CAT}, backward: grad") + grad))


@pytest.mark.slow
def test_an_attribute_that_does_not_follow_its_argument(run: Verify) -> None:
    for attributes in ("{}", "{approximate: {value: none}}"):
        messages = failures(run(entry(f"op: aten::gelu, attributes: {attributes}")))
        assert set(messages) == {Check.ATTRIBUTES}
        assert "planted.planted(" in messages[Check.ATTRIBUTES]


def test_conditions(run: Verify) -> None:
    """Conditions can hold for no call, for every call, or for some calls."""
    messages = failures(run(entry(f"{GELU}, when: {{where: [self.dim() > 90]}}")))
    assert "claims none of " in messages[Check.CLAIMED]
    assert "self.dim() > 90" in messages[Check.CLAIMED]
    (row,) = run(entry(f"{GELU}, when: {{where: [self.dim() >= 0]}}"))
    assert row.verdict is Verdict.VERIFIED
    (finding,) = row.findings
    assert (finding.check, finding.is_failure) == (Check.CONDITIONS, False)
    assert "every sample meets the conditions of `when`" in finding.message
    (row,) = run(entry(f"{GELU}, when: {{approximate: tanh}}"))
    assert (row.verdict, row.findings) == (Verdict.VERIFIED, ())
    assert row.claimed
    assert row.unclaimed


ADAPTERS = {
    "not_moved_back": Check.FORWARD,
    "misspelled": Check.CALL,
    "scribbling": Check.OPERANDS,
    "changing": Check.REPEATED,
}


@pytest.mark.slow
def test_adapters(run: Verify) -> None:
    (row,) = run(entry(f"{SOFTMAX}, adapt: 'planted:adapted'"))
    assert row.verdict is Verdict.VERIFIED, row
    for adapter, check in ADAPTERS.items():
        messages = failures(run(entry(f"{SOFTMAX}, adapt: 'planted:{adapter}'")))
        assert check in messages, (adapter, messages)


def test_generated_samples(run: Verify) -> None:
    keys = "function: planted:mixed, operands: [x, y], attributes: [k, mode], backward: derive"
    for name in GENERATED:
        (row,) = run(entry(f"{keys}, decomposition: 'planted:{name}'"))
        assert row.verdict is (Verdict.VERIFIED if name == "mixed" else Verdict.FAILED), row
        assert row.findings[-1].message.startswith("no sample varies mode, so")


@pytest.mark.slow
def test_functions(run: Verify) -> None:
    """`frozen` lacks the attribute `limit`, without which no call is claimed."""
    for name, samples in product(("scaled", "frozen"), (None, "planted:scaled_samples")):
        target = subject_of_function(f"planted:{name}", samples)
        (row,) = verify(target, load_catalog([]), ("f32",))
        assert row.verdict is (Verdict.VERIFIED if name == "scaled" else Verdict.FAILED), row
        assert row.source == ("samples" if samples else "generated")
        assert bool(row.claimed) == (name == "scaled")
        assert row.numbers.gradient is not None


# ---- alternatives ----

BACK = ", backward: 'planted:backward', gradients: [self]"
ALTERNATIVE = "kernels: {a: {decomposition: 'planted:%s'%s}}"


def alternative_rows(rows: Sequence[Row]) -> list[Row]:
    assert [row.verdict for row in rows if "=" not in row.entry] == [Verdict.VERIFIED]
    return [row for row in rows if row.entry == "planted.planted=a"]


def test_an_alternative_keeps_its_promise(run: Verify) -> None:
    keys = ALTERNATIVE % ("right", ", backward: derive, tolerance: {f32: 1.0e-5}")
    (row,) = alternative_rows(run(entry(f"{GELU}, backward: derive, {keys}")))
    assert row.verdict is Verdict.VERIFIED, row
    assert row.tolerance == 1e-5
    assert row.claimed


WRONG_ALTERNATIVES = (
    ("relu", "", Check.FORWARD, "result 0: "),
    ("slightly_wrong", ", tolerance: {f32: 1.0e-6}", Check.FORWARD, "accepted 1e-06"),
    ("right", BACK, Check.GRADIENT, "gradient 0: "),
    ("none", "", Check.CALL, "it returns None"),
)


@pytest.mark.slow
def test_wrong_alternatives(run: Verify) -> None:
    for function, more, check, message in WRONG_ALTERNATIVES:
        keys = ALTERNATIVE % (function, more)
        messages = failures(alternative_rows(run(entry(f"{GELU}, backward: derive, {keys}"))))
        assert message in messages[check], messages


@pytest.mark.slow
def test_what_is_slightly_wrong_can_be_promised(run: Verify) -> None:
    keys = ALTERNATIVE % ("slightly_wrong", ", tolerance: {f32: 1.0e-3}")
    (row,) = alternative_rows(run(entry(f"{GELU}, backward: derive, {keys}")))
    assert row.verdict is Verdict.VERIFIED, row
    assert row.numbers.forward_f64 is not None
    assert row.numbers.forward_f64 > 1e-5
    for limit, verdict in ("1.0e-3", Verdict.VERIFIED), ("1.0e-6", Verdict.FAILED):
        own = f"decomposition: 'planted:slightly_wrong', tolerance: {{f32: {limit}}}"
        (row,) = run(entry(f"{GELU}, {own}"))
        assert (row.verdict, row.tolerance) == (verdict, float(limit)), row


def test_an_alternative_that_takes_no_sample(run: Verify) -> None:
    keys = ALTERNATIVE % ("right", ", when: {where: ['self.shape[-1] > 999']}")
    (row,) = alternative_rows(run(entry(f"{GELU}, {keys}")))
    assert row.verdict is Verdict.NOT_VERIFIED
    assert "it takes no sample; name some" in row.findings[0].message
