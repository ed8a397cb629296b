"""Each tutorial works from its first line to its last, in an empty folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "page",
    [
        "index.md",
        pytest.param("vendor-tutorial.md", marks=pytest.mark.process),
        pytest.param("compiler-tutorial.md", marks=pytest.mark.process),
    ],
)
def test_tutorial(page: str, reader: Any) -> None:
    reader.follow(DOCS / page)
