"""Messages about entries that are on: the named ones, and the number of the others."""

import warnings

import pytest

from composites import settings
from composites.errors import CompositesWarning
from lowering.stats.data import EntryStats, Stats


def entry(calls: int = 0, *, composite: str = "", named: bool = False) -> EntryStats:
    return EntryStats(True, calls, 0, {}, (), composite=composite, named=named)


@pytest.mark.parametrize(
    ("entries", "listed"),
    [
        ({"a": entry(1)}, ""),
        ({"a": entry(named=True), "b": entry(named=True)}, "a, b"),
        ({"a": entry(named=True), "b": entry(), "c": entry()}, "a; and 2 that nobody named"),
        ({"a": entry(1), "b": entry(), "c": entry()}, "2 that nobody named"),
        # As bloom_gelu beside gelu.
        ({"a": entry(1, composite="gelu"), "b": entry(composite="gelu")}, ""),
        (
            {"a": entry(named=True, composite="gelu"), "b": entry(composite="gelu")},
            "a; and 1 that nobody named",
        ),
    ],
)
def test_idle_entries_that_a_message_lists(entries: dict[str, EntryStats], listed: str) -> None:
    counted = {
        name: EntryStats(e.on, e.calls, 0, {}, (), composite=e.composite or name, named=e.named)
        for name, e in entries.items()
    }
    stats = Stats(counted)
    assert stats.idle_listed() == listed
    assert Stats.from_json(stats.to_json()).idle_listed() == listed


@pytest.fixture
def fresh_reading() -> None:
    settings.allowlist_at_import.cache_clear()
    settings._warn_of_late.cache_clear()


@pytest.mark.usefixtures("fresh_reading")
def test_an_allowlist_that_comes_after_import_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.allowlist_at_import() == ""
    monkeypatch.setenv("XLA_COMPOSITE_OP", "gelu,softmax")
    with pytest.warns(CompositesWarning, match=r"set after `import torch`.*enable\('gelu', 'soft"):
        settings.warn_of_late_allowlist()
    with warnings.catch_warnings():  # once
        warnings.simplefilter("error")
        settings.warn_of_late_allowlist()


@pytest.mark.usefixtures("fresh_reading")
def test_an_allowlist_that_import_torch_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_COMPOSITE_OP", "gelu")
    assert settings.allowlist_at_import() == "gelu"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings.warn_of_late_allowlist()
