"""The tests that a change has to pass, and more of the same, which are marked as exhaustive."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def exhaustive(*cases: Any) -> list[Any]:
    """Parameters of a test that are left to the exhaustive run."""
    return [pytest.param(case, marks=pytest.mark.exhaustive) for case in cases]


def only_fast(cases: Iterable[Any], *fast: Any) -> list[Any]:
    """Return all parameters: `fast` ones are in every run, the others in the exhaustive run."""
    cases = list(cases)
    assert set(fast) <= set(cases), set(fast) - set(cases)
    return [case if case in fast else exhaustive(case)[0] for case in cases]


def variants(
    names: str | tuple[str, ...],
    cases: Iterable[Any],
    *,
    fast: int | Collection[Any] = 1,
    ids: Any = None,
) -> pytest.MarkDecorator:
    """Parameters of a test, of which the first ones are in every run, and the others in CI.

    Args:
        names, cases, ids: as of `pytest.mark.parametrize`.
        fast: how many are in every run, or which ones.
    """
    cases = list(cases)
    chosen = cases[:fast] if isinstance(fast, int) else list(fast)
    several = not isinstance(names, str)
    marked = [
        case
        if case in chosen or hasattr(case, "marks")
        else pytest.param(*(case if several else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
    return pytest.mark.parametrize(names, marked, ids=ids)
