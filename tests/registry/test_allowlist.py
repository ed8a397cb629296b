"""XLA_COMPOSITE_OP: one test for each rule of its grammar."""

import re
from pathlib import Path

import pytest

from composites.allowlist import resolve, split_allowlist
from composites.errors import AllowlistError
from composites.registry.catalog import Catalog, builtin_registry
from composites.registry.validation import parse_registry


def vendor(namespace: str, *names: str) -> str:
    entries = "".join(f"  {name}: {{op: aten::gelu}}\n" for name in names)
    return f"schema: 1\nnamespace: {namespace}\ncomposites:\n{entries}"


GELU = ("gelu", "gelu_backward", "new_gelu", "fast_gelu", "bloom_gelu", "bloom_gelu_backward")


def catalog(*vendors: str) -> Catalog:
    registries = [parse_registry(text, f"{index}.yaml") for index, text in enumerate(vendors)]
    return Catalog((*registries, builtin_registry()))


def names(text: str, *vendors: str) -> list[str]:
    entries = resolve(split_allowlist(text), catalog(*vendors))
    return [entry.qualified for entry in entries]


ITEMS: dict[str, list[str]] = {
    "silu": ["ptxla.silu", "ptxla.silu_backward"],
    "silu_backward": ["ptxla.silu_backward"],
    " silu ,,silu": ["ptxla.silu", "ptxla.silu_backward"],
    "gelu": [f"ptxla.{name}" for name in GELU],
}


def test_names() -> None:
    assert {item: names(item) for item in ITEMS} == ITEMS
    assert names("all") == [entry.qualified for entry in builtin_registry().composites]
    assert names("acme.*", vendor("acme", "a", "b")) == ["acme.a", "acme.b"]


def test_a_group_turns_on_all_its_entries() -> None:
    assert names("matmul_out_dtype") == [
        f"ptxla.{name}"
        for name in ("mm", "bmm", "matmul_accumulate", "addmm", "baddbmm", "convolution")
    ]
    assert names("matmul_out_dtype,-mm") == names("matmul_out_dtype")[1:]
    with pytest.raises(AllowlistError, match="did you mean 'matmul_out_dtype'"):
        names("matmul_out_type")


def test_a_leading_minus_takes_away_wherever_it_stands() -> None:
    assert names("-softmax,all") == names("all,-softmax")
    assert "ptxla.softmax" not in names("all,-softmax")
    assert "ptxla.softmax_backward" not in names("all,-softmax")
    assert "ptxla.log_softmax" in names("all,-softmax")


def test_an_entry_that_is_left_out_takes_those_along_that_fuse_its_calls() -> None:
    without_adam = names("all,-adam")
    assert "ptxla.fused_adam" not in without_adam
    assert {"ptxla.adamw", "ptxla.fused_adamw"} <= set(without_adam)
    assert "ptxla.fused_adam" in names("all,fused_adam,-adam")


WRONG = {
    "-softmax": r"'-softmax' only removes .* write 'all,-softmax'",
    "gelu,sofmax": r"'sofmax'; did you mean 'softmax'\? `composites list` prints them all",
    "all,-sofmax": "no composite 'sofmax'",
    "acne.*": "no namespace 'acne'; did you mean 'acme'",
}


@pytest.mark.parametrize("text", WRONG)
def test_mistakes(text: str) -> None:
    with pytest.raises(AllowlistError, match=WRONG[text]):
        names(text, vendor("acme", "gelu"))


def test_a_vendor_shadows_a_builtin_entry_of_the_same_name() -> None:
    assert names("gelu", vendor("acme", "gelu")) == ["acme.gelu"]
    assert names("ptxla.gelu", vendor("acme", "gelu")) == [*(f"ptxla.{name}" for name in GELU)]
    assert "ptxla.gelu" not in names("all", vendor("acme", "gelu"))
    assert "acme.gelu" in names("all", vendor("acme", "gelu"))


def test_a_name_of_two_vendors_must_be_qualified() -> None:
    two = vendor("acme", "gelu"), vendor("umbra", "gelu")
    with pytest.raises(
        AllowlistError, match=r"write acme\.gelu \(0\.yaml\) or umbra\.gelu \(1\.yaml\)"
    ):
        names("gelu", *two)
    assert names("umbra.gelu", *two) == ["umbra.gelu"]


def test_the_allowlist_without_exceptions_has_native_operators_alone() -> None:
    page = (Path(__file__).parents[2] / "docs" / "known-differences.md").read_text("utf-8")
    allowlist = re.search(r"^XLA_COMPOSITE_OP=(\S+) python", page, re.MULTILINE)
    assert allowlist is not None
    for entry in resolve(split_allowlist(allowlist[1]), catalog()):
        assert entry.op is not None, entry.name
        assert entry.decomposition.kind == "native", entry.name
        assert entry.adapt is None, entry.name
        assert not entry.derives, entry.name
