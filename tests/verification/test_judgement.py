"""Rules for equal numbers."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from lowering.verification.judgement import Outcomes, errors, judge
from lowering.verification.results import Check
from lowering.verification.runs import Raised, Values
from lowering.verification.tolerances import TOLERANCES

DOCS = Path(__file__).parents[2] / "docs"


def values(*numbers: float, gradient: float = 0.0, dtype: torch.dtype = torch.float32) -> Values:
    return Values((torch.tensor(numbers, dtype=dtype),), (torch.tensor([gradient], dtype=dtype),))


def failed(outcomes: Outcomes) -> set[Check]:
    return {finding.check for finding in judge(outcomes).findings if finding.is_failure}


def test_a_gradient_that_is_zero_by_mathematics() -> None:
    outcomes = Outcomes(
        "s",
        cpu=values(1.0, gradient=1e-9),
        wide=values(1.0, gradient=1e-18, dtype=torch.float64),
        stock=values(1.0, gradient=-3e-8),
        ours=values(1.0, gradient=4e-8),
    )
    assert failed(outcomes) == set()


def test_as_far_from_the_truth_as_pytorch() -> None:
    """Cancellation leaves few digits: the CPU is off by 0.2, and a composite may be, too."""
    wide = values(1000.0, dtype=torch.float64)
    stock = values(1000.0)
    for ours, wrong in ((999.7, set()), (999.5, {Check.FORWARD})):
        assert failed(Outcomes("s", values(1000.2), wide, stock, values(ours))) == wrong


def test_stock_is_as_wrong() -> None:
    judged = judge(Outcomes("s", values(1.0), None, values(2.0), values(2.0)))
    (finding,) = judged.findings
    assert (finding.check, finding.is_failure, judged.same_bits) == (Check.FORWARD, False, True)


def test_native_decompositions_have_the_bits_of_stock() -> None:
    near = values(1.0 + 1e-6)
    assert failed(Outcomes("s", values(1.0), None, values(1.0), near)) == set()
    native = Outcomes("s", values(1.0), None, values(1.0), near, is_native=True)
    assert failed(native) == {Check.BITS}


def test_what_stock_refuses_too() -> None:
    refused = Raised("RuntimeError", "no")
    assert failed(Outcomes("s", values(1.0), None, refused, refused)) == set()
    assert failed(Outcomes("s", values(1.0), None, values(1.0), refused)) == {Check.CALL}
    ours = Raised("LoweringError", "failed")
    assert failed(Outcomes("s", values(1.0), None, refused, ours)) == {Check.CALL}


def test_infinities() -> None:
    for special in (torch.inf, -torch.inf, torch.nan):
        number = torch.tensor(special)
        assert errors(number, number).item() == 0
        assert errors(number, torch.tensor(1.0)).item() == torch.inf
        assert errors(torch.tensor(1.0), number).item() == torch.inf


def test_random_results_are_compared_by_type_alone() -> None:
    def random(ours: Values) -> Outcomes:
        return Outcomes("s", values(1.0), None, values(5.0), ours, is_random=True)

    assert failed(random(values(7.0))) == set()
    assert failed(random(values(7.0, 7.0))) == {Check.RESULTS}


def test_the_documentation_has_the_tolerances() -> None:
    text = (DOCS / "registry.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+) \| (\de-\d) \|$", text, re.MULTILINE))
    assert {name: float(value) for name, value in rows.items()} == TOLERANCES


@pytest.mark.parametrize(
    ("first", "second", "is_reported"),
    [
        (torch.tensor([1.0, 1e-7]), torch.tensor([1.0 + 2e-7, 2e-7]), False),
        (torch.tensor([1e-7, -3e-7]), torch.tensor([1e-7, 1e-7]), True),
        (torch.tensor([0.01, -0.02]).bfloat16(), torch.zeros(2).bfloat16(), True),
        (torch.tensor([1.0, torch.inf]), torch.tensor([1.0, torch.inf]), False),
        (torch.tensor([1.0, torch.inf]), torch.tensor([1.5, torch.inf]), True),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), True),
        (torch.ones(0), torch.ones(0), False),
        (torch.ones(2), None, True),
    ],
)
def test_a_second_call_may_differ_in_last_bits(first: Any, second: Any, is_reported: bool) -> None:
    ours, again = Values((first,)), Values((second,))
    judged = judge(Outcomes("sample", ours, None, ours, ours, again))
    assert (Check.REPEATED in {finding.check for finding in judged.findings}) == is_reported
