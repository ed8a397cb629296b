"""Tables of the pages in benchmarks/."""

from __future__ import annotations

from benchmarks.pages import markdown_table


def test_numbers_stand_at_the_right() -> None:
    rows = [("gelu", "forward", "1.00"), ("", "backward", "0.97")]
    assert markdown_table(("entry", "part", "ratio"), rows, numbers=[2]) == [
        "| entry | part | ratio |",
        "|---|---|--:|",
        "| gelu | forward | 1.00 |",
        "|  | backward | 0.97 |",
    ]
