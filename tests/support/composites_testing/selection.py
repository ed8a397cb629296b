"""What a change has to pass, and what is more of the same and marked as exhaustive."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest
import torch


def exhaustive(*cases: Any) -> list[Any]:
    """Parameters of a test that are left to the exhaustive run."""
    return [pytest.param(case, marks=pytest.mark.exhaustive) for case in cases]


def only_fast(cases: Iterable[Any], *fast: Any) -> list[Any]:
    """All of these parameters, `fast` in every run and the others in the exhaustive one."""
    cases = list(cases)
    assert set(fast) <= set(cases), set(fast) - set(cases)
    return [case if case in fast else exhaustive(case)[0] for case in cases]


def first_of_each(cases: Iterable[Any], kind: Callable[[Any], Hashable]) -> list[Any]:
    """All of these parameters; of each kind the first in every run, the others exhaustive."""
    cases = list(cases)
    first = {kind(case): case for case in reversed(cases)}
    return only_fast(cases, *first.values())


FAST_FLOATS = (torch.float32, torch.bfloat16)
FLOATS = (*FAST_FLOATS, *exhaustive(torch.float16, torch.float64))
"""Parameters of a test of every floating-point type."""
