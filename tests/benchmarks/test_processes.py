"""Processes of their own, and the variables that they start with."""

from __future__ import annotations

import os

import pytest

from benchmarks.processes import alone, environment, xla_flags


def test_a_process_starts_with_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOSITES_GIVEN", "1")
    monkeypatch.delenv("COMPOSITES_MISSING", raising=False)
    with environment({"COMPOSITES_GIVEN": "2", "COMPOSITES_MISSING": "3"}):
        assert alone(os.getenv, "COMPOSITES_GIVEN") == "2"
        assert alone(os.getenv, "COMPOSITES_MISSING") == "3"
        assert alone(os.getpid) != os.getpid()
    assert os.environ["COMPOSITES_GIVEN"] == "1"
    assert "COMPOSITES_MISSING" not in os.environ


def test_variables_are_as_before_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOSITES_GIVEN", "1")
    with pytest.raises(ZeroDivisionError), environment({"COMPOSITES_GIVEN": "2"}):
        alone(divmod, 1, 0)
    assert os.environ["COMPOSITES_GIVEN"] == "1"


def test_flags_are_added_to_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--one")
    assert xla_flags("--two") == {"XLA_FLAGS": "--one --two"}
    monkeypatch.delenv("XLA_FLAGS")
    assert xla_flags("--two") == {"XLA_FLAGS": "--two"}
