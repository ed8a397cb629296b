"""The rows that `--names` chooses."""

from __future__ import annotations

import pytest

from benchmarks.selection import beginning

NAMES = ("attention, L = 1024", "attention, L = 4096", "step of GPT-2")


@pytest.mark.parametrize(
    ("beginnings", "chosen"),
    [
        ("", NAMES),
        ("attention", NAMES[:2]),
        ("attention, L = 1024", NAMES[:1]),
        ("step,attention, L = 1024", (NAMES[0], NAMES[2])),
        ("nothing", ()),
    ],
)
def test_names_begin_so(beginnings: str, chosen: tuple[str, ...]) -> None:
    assert beginning(NAMES, beginnings) == list(chosen)
