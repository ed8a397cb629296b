"""XLA_COMPOSITE_OP: one test for each rule of its grammar."""

from __future__ import annotations

import pytest

from composites.allowlist import resolve, split_allowlist
from composites.errors import AllowlistError, RegistryError
from composites.registry.catalog import Catalog, builtin_registry
from composites.registry.validation import parse_registry

BUILTIN = builtin_registry()


def vendor(namespace: str, *names: str) -> str:
    entries = "".join(f"  {name}: {{op: aten::gelu}}\n" for name in names)
    return f"schema: 1\nnamespace: {namespace}\ncomposites:\n{entries}"


GELU = ("gelu", "gelu_backward", "new_gelu", "fast_gelu", "bloom_gelu", "bloom_gelu_backward")


def catalog(*vendors: str) -> Catalog:
    registries = [parse_registry(text, f"{index}.yaml") for index, text in enumerate(vendors)]
    return Catalog((*registries, BUILTIN))


def names(text: str, *vendors: str) -> list[str]:
    entries = resolve(split_allowlist(text), catalog(*vendors))
    return [entry.qualified for entry in entries]


def test_a_name_turns_on_its_backward_too() -> None:
    assert names("silu") == ["ptxla.silu", "ptxla.silu_backward"]


def test_a_name_turns_on_all_that_make_the_composite() -> None:
    assert names("gelu") == [f"ptxla.{name}" for name in GELU]


def test_a_backward_can_be_named_alone() -> None:
    assert names("silu_backward") == ["ptxla.silu_backward"]


def test_blanks_and_repetitions_do_not_matter() -> None:
    assert names(" silu ,,silu") == ["ptxla.silu", "ptxla.silu_backward"]


def test_all() -> None:
    assert names("all") == [entry.qualified for entry in BUILTIN.composites]


def test_a_group_turns_on_all_its_entries() -> None:
    assert names("matmul_out_dtype") == [
        f"ptxla.{name}"
        for name in ("mm", "bmm", "matmul_accumulate", "addmm", "baddbmm", "convolution")
    ]
    assert names("matmul_out_dtype,-mm") == names("matmul_out_dtype")[1:]
    with pytest.raises(AllowlistError, match="did you mean 'matmul_out_dtype'"):
        names("matmul_out_type")


def test_namespace() -> None:
    assert names("acme.*", vendor("acme", "a", "b")) == ["acme.a", "acme.b"]


def test_a_leading_minus_takes_away_wherever_it_stands() -> None:
    assert names("-softmax,all") == names("all,-softmax")
    assert "ptxla.softmax" not in names("all,-softmax")
    assert "ptxla.softmax_backward" not in names("all,-softmax")
    assert "ptxla.log_softmax" in names("all,-softmax")


def test_only_taking_away_is_an_error() -> None:
    with pytest.raises(AllowlistError, match=r"'-softmax' only removes .* write 'all,-softmax'"):
        names("-softmax")


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


def test_an_unknown_name_lists_the_known_ones_and_the_closest() -> None:
    with pytest.raises(
        AllowlistError,
        match=r"no composite 'sofmax'; did you mean 'softmax'\?; `composites list` prints them all",
    ):
        names("gelu,sofmax")


def test_an_unknown_name_to_take_away_is_an_error_too() -> None:
    with pytest.raises(AllowlistError, match="no composite 'sofmax'"):
        names("all,-sofmax")


def test_an_unknown_namespace() -> None:
    with pytest.raises(AllowlistError, match=r"no namespace 'acne'; did you mean 'acme'\?"):
        names("acne.*", vendor("acme", "gelu"))


def test_two_files_cannot_define_one_composite() -> None:
    with pytest.raises(
        RegistryError, match=r"1\.yaml:4: gelu: acme\.gelu is already defined in 0\.yaml"
    ):
        catalog(vendor("acme", "gelu"), vendor("acme", "gelu"))
